"""Model files themselves: old ones, damaged ones, hostile ones; how they are written and locked."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import forging
import numpy as np
import peak_memory
import pytest
import stored_models
from numpy.testing import assert_allclose
from thoroughness import tries

import annealed
from annealed import ModelFileError, ODAClustering
from annealed.persistence import Checkpoint, CheckpointInUseError, describe, locking
from annealed.persistence.classes import ESTIMATORS

STORED = sorted(stored_models.FOLDER.glob("*.oda"))
X, Y = stored_models.rows(600)


@pytest.fixture
def model():
    return ODAClustering(2, **stored_models.SMALL).partial_fit(X[:300])


@pytest.fixture
def saved(tmp_path, model):
    annealed.save(model, tmp_path / "model.oda")
    return tmp_path / "model.oda"


# -- files of this and earlier versions --------------------------------------------------------


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_files_load_and_answer_as_recorded(path):
    version = path.name.split("-")[0]
    recorded = json.loads((stored_models.FOLDER / f"{version}-answers.json").read_text())
    model = annealed.load(path)
    if recorded[path.name] is None:
        assert not model.__sklearn_is_fitted__()
        return
    said = stored_models.answers(model)
    assert list(said) == list(recorded[path.name])
    for name, values in said.items():
        if name == "predict":
            assert values == recorded[path.name][name]
        else:  # bits are those of one instruction set
            assert_allclose(values, recorded[path.name][name], rtol=1e-9, atol=1e-12)


def test_stored_files_are_small_and_of_every_estimator():
    assert max(path.stat().st_size for path in STORED) < 45_000
    names = {describe(path)["estimator"] for path in STORED}
    assert names == set(ESTIMATORS)


def test_stored_files_go_on_learning():
    for path in STORED:
        model = annealed.load(path)
        if hasattr(model, "partial_fit"):
            labels = np.array(["ja", "nein"])[Y] if "ja" in getattr(model, "classes_", []) else Y
            model.partial_fit(np.abs(X) + 0.5, labels)


# -- readable by others ------------------------------------------------------------------------


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_other_readers_of_safetensors_open_our_files(path):
    from safetensors import safe_open
    from safetensors.numpy import load_file

    arrays = load_file(path)
    with safe_open(path, "np") as file:
        texts = file.metadata()
        assert set(file.keys()) == set(arrays)
    header = json.loads(texts["annealed"], parse_constant=pytest.fail)
    assert texts["format"] == "annealed" and header["format"] == 1
    # Every array the model names is there, and no other.
    named = set()

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("array", "stack", "text", "numbers", "tuples"):
                    named.add(value)
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk([header["model"], header["divergences"], header["answer"]])
    assert named == set(arrays)


def test_the_documented_way_to_read_a_level(tmp_path):
    from safetensors.numpy import load_file

    model = ODAClustering(3, random_state=0).fit(X)
    annealed.save(model, tmp_path / "model.oda")
    arrays = load_file(tmp_path / "model.oda")
    lengths = arrays["_learner.annealer.classes.0.levels.book.mu.lengths"]
    mu = np.split(arrays["_learner.annealer.classes.0.levels.book.mu"], np.cumsum(lengths)[:-1])
    for level, codevectors in zip(model.path_, mu, strict=True):
        assert (level.codevectors == codevectors).all()


def preprocessed_elsewhere(file, fields, rows):
    """The preprocessing of a table by docs/model-files.md alone: one number and one text."""
    assert fields["kinds"] == ["number", "category"] and fields["standardize"]
    count, mean, m2, counts = (
        file.get_tensor(fields[name]["array"])
        for name in ("count", "mean", "m2", "category_counts")
    )
    known = fields["categories"][0]["map"]
    texts = [str(int(x)) if x.is_integer() else repr(x) for x in rows[:, 1].tolist()]
    places = [known["labels"].index(t) if t in known["labels"] else known["room"] for t in texts]
    scale = counts.sum() / np.sqrt(counts.sum() ** 2 - (counts**2).sum())
    indicators = (np.array(places)[:, None] == np.arange(known["room"] + known["other"])) * scale
    return np.column_stack([(rows[:, 0] - mean[0]) / np.sqrt(m2[0] / count[0]), indicators])


def predicted_elsewhere(path, rows):
    """Probabilities by docs/model-files.md alone: no annealed, only a file and two divergences."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        header = json.loads(file.metadata()["annealed"])
        answer = header["answer"]["map"]
        if header["estimator"] == "TabularModel":
            fields = header["model"]["fields"]["preprocessor_"]["fields"]
            rows = preprocessed_elsewhere(file, fields, rows)

        def part(name, otherwise):
            node = answer.get(name)
            if isinstance(node, dict):
                return file.get_tensor(node["array"])
            return otherwise if node is None else node

        if "centre" in answer:
            rows = (rows - part("centre", None)) / part("scale", None)
            if "spread" in answer:
                rows = np.arcsinh(rows) / part("spread", None)
        mu = part("codevectors", None)
        divergence = header["divergences"][answer["divergence"]["divergence"]]
        voters = part("voters", np.zeros(len(mu), dtype=int))
        weights = part("relevances", np.ones((1, mu.shape[1])))[voters]
        if divergence["name"] == "mahalanobis":
            gap = rows[:, None] - mu
            d = (gap @ file.get_tensor(divergence["matrix"]["array"]) * gap).sum(axis=2)
        else:
            x = rows[:, None]
            terms = {
                "squared_euclidean": lambda: (x - mu) ** 2,
                "i_divergence": lambda: x * np.log(x / mu) - x + mu,
                "itakura_saito": lambda: x / mu - np.log(x / mu) - 1,
            }
            d = (terms[divergence["name"]]() * weights).sum(axis=2)
        T = answer["temperature"]
        if T == 0:
            p = (np.arange(len(mu)) == d.argmin(axis=1)[:, None]).astype(float)
        else:
            exponent = part("bias", np.zeros(len(mu))) - part("sharpness", np.ones(len(mu))) * d / T
            p = np.empty_like(exponent)
            for v, share in enumerate(part("shares", np.ones(1))):
                own = exponent[:, voters == v]
                own = np.exp(own - own.max(axis=1, keepdims=True))
                p[:, voters == v] = share * own / own.sum(axis=1, keepdims=True)
        classes = part("classes", np.arange(len(mu)))
        p = (p @ (classes[:, None] == np.arange(classes.max() + 1))) ** part("calibration", 1.0)
        doubt = part("doubt", 0.0)
        return (1 - doubt) * p / p.sum(axis=1, keepdims=True) + doubt / p.shape[1]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_file_is_enough_to_predict_with_in_another_language(path):
    if "unfitted" in path.name:
        return
    model, rows = annealed.load(path), np.abs(X) + 0.5
    shares = predicted_elsewhere(path, rows)
    if hasattr(model, "predict_proba"):
        assert_allclose(shares, model.predict_proba(rows), atol=1e-9)
    labels = shares.argmax(axis=1)
    if hasattr(model, "classes_"):
        labels = model.classes_[labels]
    assert (labels == model.predict(rows)).all()


def test_the_checksum_is_the_documented_one(saved):
    import hashlib

    raw = saved.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    digits = json.loads(raw[8 : 8 + n])["__metadata__"]["sha256"]
    assert hashlib.sha256(raw.replace(digits.encode(), b"0" * 64)).hexdigest() == digits


def test_the_header_tells_what_is_in_a_file(tmp_path, saved):
    import pandas as pd

    about = describe(saved)
    assert about["estimator"] == "ODAClustering" and about["format"] == 1
    assert about["libraries"]["numpy"] == np.__version__
    assert about["summary"]["fitted"] and about["summary"]["n_features"] == 2
    frame = pd.DataFrame(X, columns=["height", "width"])
    named = annealed.ODAClassifier(random_state=0).fit(frame, np.array(["no", "yes"])[Y])
    annealed.save(named, tmp_path / "named.oda")
    summary = describe(tmp_path / "named.oda")["summary"]
    assert summary["feature_names_in"] == ["height", "width"]
    assert summary["classes"] == ["no", "yes"]
    assert summary["n_codevectors"] == len(named.codevectors_)


# -- damaged and hostile files -----------------------------------------------------------------


@pytest.mark.quality
def test_damaged_and_hostile_files_are_refused_cleanly(tmp_path):
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for k, (name, raw) in enumerate(forging.hostile(STORED[0].read_bytes()).items()):
        (hostile / f"{k:02} {name}").write_bytes(raw)
    program, count = Path(forging.__file__), tries(600, 10_000)
    arguments = (stored_models.FOLDER, hostile, count, 20260101, 5)
    result = json.loads(peak_memory.in_a_process(program, *arguments, cwd=tmp_path))
    assert result["wrong"] == []
    # Damage is always seen. A forger with the right checksum may change a number to another.
    assert result["refused"] > 0.7 * count and result["hostile"] > 40
    assert result["refused"] + result["loaded"] == count + result["hostile"]
    assert result["kilobytes"] < 50_000
    assert not (tmp_path / "executed").exists()


@pytest.mark.quality
def test_hostile_files_do_not_load():
    for name, raw in forging.hostile(STORED[0].read_bytes()).items():
        with pytest.raises(ModelFileError):
            load_bytes(raw, name)


def load_bytes(raw, name="model"):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.oda"
        path.write_bytes(raw)
        return annealed.load(path)


@pytest.mark.quality
def test_every_single_flipped_byte_is_seen(saved):
    raw = saved.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.choice(len(raw), tries(100, 3000), replace=False).tolist():
        changed = bytearray(raw)
        changed[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(ModelFileError):
            load_bytes(bytes(changed))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it holds 0 bytes"),
        (b"height,width\n1.0,2.0\n" * 99, "some other kind of file"),
        ((2).to_bytes(8, "little") + b"{}", "not written by annealed.save"),
    ],
)
def test_messages_say_what_a_file_is_not(tmp_path, raw, reason):
    path = tmp_path / "other.oda"
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=reason) as caught:
        annealed.load(path)
    assert str(path) in str(caught.value)


def test_a_newer_format_says_to_update(tmp_path, saved):
    entries, header, data = forging.take_apart(saved.read_bytes())
    saved.write_bytes(forging.put_together(entries, header | {"format": 3}, data))
    with pytest.raises(
        ModelFileError, match=r"format 3, this one reads up to 1\): update annealed"
    ):
        annealed.load(saved)
    header["model"]["fields"]["new_"] = 1
    saved.write_bytes(forging.put_together(entries, header, data))
    with pytest.raises(ModelFileError, match=r"ODAClustering\.new_.*update annealed"):
        annealed.load(saved)


def test_fields_of_later_versions_have_defaults(saved):
    """A parameter that did not exist when a file was written takes its default."""
    entries, header, data = forging.take_apart(saved.read_bytes())
    del header["model"]["fields"]["parameters"]["map"]["alpha_min"]
    saved.write_bytes(forging.put_together(entries, header, data))
    assert annealed.load(saved).alpha_min == 0.0


def test_no_such_file_and_no_file_at_all(tmp_path):
    with pytest.raises(FileNotFoundError):
        annealed.load(tmp_path / "none.oda")
    with pytest.raises(ModelFileError, match="not an ordinary file"):
        annealed.load(tmp_path)


# -- writing -----------------------------------------------------------------------------------


def test_permissions_are_the_users(tmp_path, model):
    old = os.umask(0o027)
    try:
        annealed.save(model, tmp_path / "new.oda")
        assert (tmp_path / "new.oda").stat().st_mode & 0o777 == 0o640
        (tmp_path / "new.oda").chmod(0o604)
        annealed.save(model, tmp_path / "new.oda")
        assert (tmp_path / "new.oda").stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(old)


def test_a_link_goes_on_pointing_where_it_did(tmp_path, model):
    (tmp_path / "link.oda").symlink_to(tmp_path / "real.oda")
    annealed.save(model, tmp_path / "link.oda")
    assert (tmp_path / "link.oda").is_symlink() and (tmp_path / "real.oda").is_file()


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(saved, model, monkeypatch, reason, call):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError(reason, os.strerror(reason))

    with monkeypatch.context() as patched:
        patched.setattr(locking.os, call, fail)
        with pytest.raises(OSError, match=r"could not be written.*before is untouched") as caught:
            annealed.save(model.partial_fit(X), saved)
    assert caught.value.errno == reason and caught.value.filename == str(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_full_disk_leaves_the_old_file(saved):
    """For real: the system lets the process write no more than a few bytes to a file."""
    before = saved.read_bytes()
    program = f"""
import resource, sys, annealed
model = annealed.load({str(saved)!r})
sys.dont_write_bytecode = True  # of what is imported from here on there would be half a file
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    annealed.save(model, {str(saved)!r})
except OSError as error:
    print(error)
try:
    annealed.persistence.Checkpoint({str(saved)!r}).__enter__()
except OSError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    first, second = run.stdout.splitlines()
    assert "could not be written" in first and str(saved) in first
    assert "could not be written" in second
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_two_who_write_at_once_leave_one_whole_file(tmp_path, model):
    from concurrent.futures import ThreadPoolExecutor

    other = annealed.StochasticVQ(40, random_state=0).partial_fit(X)
    with ThreadPoolExecutor(4) as pool:
        for each in [model, other] * 10:
            pool.submit(annealed.save, each, tmp_path / "model.oda")
    annealed.load(tmp_path / "model.oda")
    assert [file.name for file in tmp_path.iterdir()] == ["model.oda"]


def test_places_that_cannot_be_written_to(tmp_path, model, saved):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        annealed.save(model, tmp_path / "none" / "model.oda")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        annealed.save(model, tmp_path)
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        annealed.save(model, saved / "model.oda")
    with pytest.raises(OSError, match="not an ordinary file"):
        annealed.save(model, "/dev/null")
    with pytest.raises(FileNotFoundError), Checkpoint(tmp_path / "none" / "model.oda"):
        pass


# -- checkpoints -------------------------------------------------------------------------------


def test_a_checkpoint_holds_a_model_and_what_goes_with_it(tmp_path, model):
    path = tmp_path / "stream.oda"
    with Checkpoint(path) as checkpoint:
        assert checkpoint.load() is None
        assert not path.exists()
        extra = {"consumed": 300, "source": "a.csv", "seen": [1, 2.5, None, {"a": float("inf")}]}
        checkpoint.save(model, **extra)
        assert checkpoint.load()[1] == extra
    assert [file.name for file in tmp_path.iterdir()] == ["stream.oda"]
    assert (annealed.load(path).predict(X) == model.predict(X)).all()
    assert describe(path)["extra"] == extra
    with pytest.raises(ValueError, match="not open"):
        checkpoint.save(model)
    with Checkpoint(path) as checkpoint, pytest.raises(ValueError, match="must be numbers, text"):
        checkpoint.save(model, rows=X)


def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path, model):
    path = tmp_path / "stream.oda"
    program = f"""
from annealed.persistence import Checkpoint
with Checkpoint({str(path)!r}):
    print("open", flush=True)
    input()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(CheckpointInUseError, match=f"in use by process {holder.pid}"):
            Checkpoint(path).__enter__()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with Checkpoint(path) as checkpoint:  # what the killed one left lying about stops nobody
        checkpoint.save(model)
        with pytest.raises(CheckpointInUseError, match=f"process {os.getpid()}"), Checkpoint(path):
            pass
    assert [file.name for file in tmp_path.iterdir()] == ["stream.oda"]


@pytest.mark.quality
@pytest.mark.parametrize("seed", range(tries(1, 20)))
def test_killed_at_any_moment_the_file_is_whole(tmp_path, model, seed):
    path = tmp_path / "stream.oda"
    annealed.save(model, tmp_path / "start.oda")
    program = f"""
import annealed
from annealed.persistence import Checkpoint
model = annealed.load({str(tmp_path / "start.oda")!r})
with Checkpoint({str(path)!r}) as checkpoint:
    n = 0
    while True:
        n += 1
        checkpoint.save(model, consumed=n)
        print(n, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    rng = np.random.default_rng(seed)
    told = 0
    for _ in range(int(rng.integers(5, 40))):
        told = int(process.stdout.readline())
    process.kill()
    told = max([told, *(int(line) for line in process.communicate()[0].splitlines() if line)])
    with Checkpoint(path) as checkpoint:
        again, extra = checkpoint.load()
    assert extra["consumed"] in (told, told + 1)
    assert (again.predict(X) == model.predict(X)).all()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["start.oda", "stream.oda"]


# -- files that are open ---------------------------------------------------------------------------


def test_a_model_travels_through_any_open_file(model, saved, tmp_path):
    memory = io.BytesIO(b"before")
    memory.seek(6)
    annealed.save(model, memory)
    assert memory.getvalue() == b"before" + saved.read_bytes()
    memory.seek(6)
    again = annealed.load(memory)
    assert not memory.closed
    with zipfile.ZipFile(tmp_path / "models.zip", "w") as archive:
        with archive.open("a.oda", "w") as member:
            annealed.save(again, member)
        archive.writestr("b.oda", saved.read_bytes())
    with zipfile.ZipFile(tmp_path / "models.zip") as archive:
        assert archive.read("a.oda") == archive.read("b.oda")
        with archive.open("a.oda") as member:
            assert type(annealed.load(member)) is type(model)


def test_a_file_that_takes_little_at_a_time_gets_all_of_it(model, saved):
    class Slow(io.RawIOBase):
        taken = b""

        def writable(self):
            return True

        def write(self, data):
            self.taken += bytes(data[:1000])
            return min(len(data), 1000)

    slow = Slow()
    annealed.save(model, slow)
    assert slow.taken == saved.read_bytes()


def test_an_open_file_that_is_no_model_is_refused(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"^the file cannot be read as a model: .* too few"):
        annealed.load(io.BytesIO(b"abc"))
    path = tmp_path / "some.txt"
    path.write_bytes(b"abc")
    with path.open("rb") as file, pytest.raises(ModelFileError, match=r"some\.txt' cannot be read"):
        annealed.load(file)
    for wrong in (io.StringIO(), 7):
        with pytest.raises(TypeError, match=r"binary mode|open to"):
            annealed.load(wrong)
        with pytest.raises(TypeError, match=r"binary mode|open to"):
            annealed.save(model, wrong)
