"""Model files taken apart and put together again, with a right checksum, by one who means harm.

Run as a program it loads thousands of damaged and forged files and prints, as JSON, what became of
them and how much memory it took.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

ZEROS = "0" * 64


def take_apart(raw):
    """Header (with the model's own JSON parsed) and data of a file."""
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    texts = header.pop("__metadata__")
    return header, json.loads(texts["annealed"]), raw[8 + n :]


def put_together(entries, model, data, **texts):
    """A file with a right checksum, whatever it says."""
    model = model if isinstance(model, str) else json.dumps(model)
    texts = {"format": "annealed", "annealed": model, "sha256": ZEROS} | texts
    header = json.dumps({"__metadata__": texts, **entries}, separators=(",", ":")).encode()
    return signed(header, data)


def signed(header, data):
    """A file of that header, with the checksum that belongs to it."""
    header += b" " * (-len(header) % 8)
    length = len(header).to_bytes(8, "little")
    digest = hashlib.sha256(length + header + data).hexdigest()
    return length + header.replace(ZEROS.encode(), digest.encode(), 1) + data


# -- mutations ---------------------------------------------------------------------------------

NASTY = [
    None, True, False, 0, -1, 1, 2, 3, 2**31, 2**62, -(2**63), 2**63 - 1, 2**70, 1e308, -1e308, 0.5,
    "", "x", "../../etc/passwd", "__class__", [], {}, [[]], {"float": "nan"}, {"float": "inf"},
    {"tuple": []}, {"map": {}}, {"int": "9" * 39}, {"int": "9" * 400}, {"array": "none"},
    {"kind": "Level", "fields": {}}, {"kind": "os.system", "fields": {"command": "true"}},
    {"divergence": 7}, {"scalar": ["F64", 1]}, {"scalar": ["str", "a"]}, {"scalar": ["I8", 4000]},
    {"strings": ["a"], "shape": [1], "width": 2**40}, {"objects": [], "shape": [0, 2**40]},
    {"kinds": "Split", "columns": {}}, {"stack": "none", "lengths": [2**40]},
]  # fmt: skip


def somewhere(node, rng):
    """A random place in a tree: what holds it, and its key there."""
    while True:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        child = node[key]
        if not isinstance(child, (dict, list)) or not child or rng.random() < 0.1:
            return node, key
        node = child


def damaged(raw, rng):
    """Flipped bits, bytes cut out, cut off, doubled or overwritten."""
    raw = bytearray(raw)
    kind = rng.randrange(5)
    at = rng.choice([rng.randrange(len(raw)), rng.randrange(min(len(raw), 300))])
    if kind == 0:
        raw[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del raw[at:]
    elif kind == 2:
        del raw[at : at + rng.randrange(1, 64)]
    elif kind == 3:
        raw[at:at] = raw[at : at + rng.randrange(1, 64)]
    else:
        raw[at : at + 8] = rng.randbytes(8)
    return bytes(raw)


def forged(raw, rng):
    """Another model, array or description, under a right checksum."""
    entries, model, data = take_apart(raw)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        kind = rng.randrange(8)
        if kind < 4:
            replace_somewhere(model, rng)
        elif kind < 6 and data:
            data = overwritten(data, rng)
        elif kind == 6 and entries:
            entry = entries[rng.choice(list(entries))]
            key = rng.choice(list(entry))
            entry[key] = copy.deepcopy(rng.choice([
                *NASTY[:25], "F64", "I64", "F32", "U8", "BOOL", "BF16", [1], [0], [2**40, 2**40],
                [-1, 2], [0, 8], [8, 0], [2, 2], [1] * 40,
            ]))  # fmt: skip
        elif entries:
            first, second = rng.choice(list(entries)), rng.choice(list(entries))
            entries[first], entries[second] = entries[second], entries[first]
    return put_together(entries, model, data)


def replace_somewhere(model, rng):
    node, key = somewhere(model, rng)
    kind = rng.randrange(4)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        node[rng.choice(["x", "kind", "array", "mu", "__class__"])] = node.pop(key)
    elif kind == 2:
        other, there = somewhere(model, rng)
        node[key] = json.loads(json.dumps(other[there]))
    else:
        node[key] = copy.deepcopy(rng.choice(NASTY))


def overwritten(data, rng):
    at = rng.randrange(0, len(data), 8)
    number = rng.choice([float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e300, 1e-300])
    whole = rng.choice([-1, 0, 1, 2, 7, 2**31, 2**62, -(2**63)])
    patch = rng.choice([struct.pack("<d", number), struct.pack("<q", whole), rng.randbytes(8)])
    return (data[:at] + patch + data[at + 8 :])[: len(data)]


def hostile(raw):
    """Headers that ask for the impossible, by name."""
    entries, model, data = take_apart(raw)
    name = next(iter(entries))
    good = entries[name]
    entry = json.dumps(good)

    def with_entry(**changes):
        return put_together(entries | {name: good | changes}, model, data)

    def with_text(text):
        return signed(text.encode(), data)

    metadata = f'"__metadata__":{{"format":"annealed","annealed":"{{}}","sha256":"{ZEROS}"}}'
    plain = json.dumps(json.dumps(model))
    numbers = f'{{"__metadata__":{{"format":"annealed","annealed":%s,"sha256":"{ZEROS}"}}}}'
    return {
        "empty": b"",
        "seven bytes": b"1234567",
        "length of 2**64 - 1": b"\xff" * 8 + raw[8:],
        "length of a terabyte": (10**12).to_bytes(8, "little") + raw[8:],
        "length of the file": len(raw).to_bytes(8, "little") + raw[8:],
        "no header": bytes(8),
        "text": b"annealed " * 1000,
        "pickle": b"\x80\x04cos\nsystem\n(S'touch executed'\ntR.",
        "terabyte shape": with_entry(shape=[2**40]),
        "shape that overflows": with_entry(shape=[2**32, 2**32]),
        "negative shape": with_entry(shape=[-1, -2]),
        "fractional shape": with_entry(shape=[1.5]),
        "true as a shape": with_entry(shape=[True]),
        "many dimensions": with_entry(shape=[1] * 10_000),
        "nothing of something": with_entry(shape=[0, 2**62]),
        "unknown dtype": with_entry(dtype="F128"),
        "object dtype": with_entry(dtype="object"),
        "dtype that is a list": with_entry(dtype=["F64"]),
        "offsets beyond the file": with_entry(data_offsets=[0, 2**50]),
        "negative offsets": with_entry(data_offsets=[-8, 8]),
        "offsets turned round": with_entry(data_offsets=good["data_offsets"][::-1]),
        "one offset": with_entry(data_offsets=[0]),
        "overlap": put_together(entries | {"twin": good}, model, data),
        "bytes nobody owns": put_together(entries, model, data + bytes(64)),
        "path as a name": put_together({"../../../tmp/x": good}, model, data),
        "extra key": with_entry(path="/etc/passwd"),
        "duplicate key": with_text(f"{{{metadata},{metadata}}}"),
        "duplicate array": with_text(f'{{{metadata},"a":{entry},"a":{entry}}}'),
        "deep": with_text('{"a":' * 100_000 + "1" + "}" * 100_000),
        "deep list": with_text("[" * 1_000_000),
        "deep model": put_together(entries, "[" * 100_000 + "]" * 100_000, data),
        "deep map": put_together(entries, nested(450), data),
        "many values": put_together(entries, "[" + "[]," * 2_000_000 + "0]", data),
        "huge whole number": with_text(numbers % json.dumps("1" * 200_000)),
        "huge fraction": with_text(numbers % json.dumps('{"format":1e999999}')),
        "not a number": with_text(numbers % json.dumps('{"format":NaN}')),
        "wrong text": with_text("{" + metadata + ',"a":"\xff"}'),
        "nothing in it": with_text("{}"),
        "list": with_text("[1,2,3]"),
        "no checksum": with_text(f'{{"__metadata__":{{"format":"annealed","annealed":{plain}}}}}'),
        "other format": put_together(entries, model, data, format="pt"),
        "later version": put_together(entries, model | {"format": 99}, data),
        "version zero": put_together(entries, model | {"format": 0}, data),
        "version as text": put_together(entries, model | {"format": "1"}, data),
        "extra that overflows": put_together(
            entries, model | {"extra": {"map": {"a": {"scalar": ["I8", 4000]}}}}, data
        ),
        "extra that names an array": put_together(
            entries, model | {"extra": {"map": {"a": {"array": name}}}}, data
        ),
        "unknown estimator": put_together(
            entries, model | {"model": {"kind": "Popen", "fields": {}}}, data
        ),
        "no estimator": put_together(entries, model | {"model": None}, data),
        "part for the whole": put_together(
            entries, model | {"model": {"kind": "GivenK", "fields": {"K": 3}}}, data
        ),
        "same array a million times": put_together(
            entries, model | {"model": [{"array": name}] * 50_000}, data
        ),
        "unknown divergence": put_together(
            entries, model | {"divergences": [{"name": "os"}]}, data
        ),
    }  # fmt: skip


def nested(depth):
    """A model of maps in maps, which JSON still allows."""
    maps = '{"map":{"a":' * depth + "1" + "}}" * depth
    return f'{{"format":1,"extra":{maps},"model":{maps}}}'


# -- the program -------------------------------------------------------------------------------


def use(model, X, y):
    """Read and go on with a model whose file was forged well: it may say no, but must not crash."""
    for act in (
        lambda: model.predict(X),
        lambda: model.transform(X),
        lambda: model.path_.to_frame,
        lambda: model.predict_one(X[0]),
        lambda: [model.learn_one(x, label) for x, label in zip(X[:20], y, strict=False)],
        lambda: model.predict_one(X[0]),
        lambda: model.partial_fit(X, y[: len(X)]),
        lambda: model.predict(X),
    ):
        try:
            act()
        except Exception:
            continue


def main(folder, hostile_folder, count, seed, every=1):
    """Load so many damaged and forged files of the models in a folder, and hostile ones.

    What loads is used, or one in ``every`` of them.
    """
    import numpy as np
    from peak_memory import peak

    import annealed

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    rng = random.Random(seed)
    files = [path.read_bytes() for path in sorted(Path(folder).glob("*.oda"))]
    X = np.abs(np.random.default_rng(0).normal(size=(150, 2))) + 0.1
    labels = np.tile(["ja", "nein"], 75)
    counts, wrong = Counter(), []
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.oda"

        def attempt(raw, what):
            path.unlink(missing_ok=True)  # sooner than to overwrite it
            path.write_bytes(raw)
            signal.alarm(30)  # whoever hangs is ended, and fails the test
            try:
                model = annealed.load(path)
            except annealed.ModelFileError as error:
                counts["refused"] += 1
                if "model.oda" not in str(error):
                    wrong.append(f"{what}: does not name the file: {error}")
            except BaseException:
                wrong.append(f"{what}: {traceback.format_exc()}")
            else:
                counts["loaded"] += 1
                if counts["loaded"] % every == 0:
                    use(model, X, labels)

        for raw in files:
            attempt(raw, "as it is")
        before = peak()
        counts.clear()
        for k in range(count):
            raw = files[k % len(files)]
            attempt((damaged if k % 2 else forged)(raw, rng), f"file {k}")
        for file in sorted(Path(hostile_folder).iterdir()):
            attempt(file.read_bytes(), file.name)
            counts["hostile"] += 1
        after = peak()
    print(json.dumps({**counts, "kilobytes": after - before, "wrong": wrong[:5]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
