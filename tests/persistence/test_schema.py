"""What a class says of its fields is what a file may hold of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import forging
import numpy as np
import pytest
import stored_models
from numpy.typing import NDArray

import annealed
from annealed.annealing.schedule import Schedule
from annealed.persistence.classes import SCHEMAS
from annealed.persistence.decoder import Decoder
from annealed.persistence.encoder import Encoder
from annealed.persistence.schema import CannotSaveError, EstimatorSchema, Field, Schema, rule_of
from annealed.stored import (
    Amount,
    Classes,
    Count,
    Finite,
    Indices,
    Labels,
    MalformedError,
    Matrix,
    Positive,
    Since,
    State,
    Stored,
    StoredAs,
    Vector,
    require,
)

ONES = np.ones(3)
NAN = float("nan")


@pytest.mark.parametrize(
    ("annotation", "allowed", "refused"),
    [
        (Any, [None, 1, "a", ONES], []),
        (bool, [True], [1, None, np.True_, "true"]),
        (str, ["a"], [np.str_("a"), b"a", None]),
        (int, [-3, np.int8(2)], [1.0, True, None, "1"]),
        (float, [1, 0.5, -np.inf, NAN, np.float32(1)], [True, "1", 1j, ONES]),
        (Amount, [0, 1e300], [-1e-9, np.inf, NAN, True]),
        (Finite, [-1.0, 0], [np.inf, NAN]),
        (Count, [0, 2**62 - 1], [-1, 2**62, 1.0, True]),
        (Positive, [1], [0]),
        (Vector, [ONES], [ONES[:, None], ONES.astype(np.float32), [1.0], None]),
        (Matrix, [ONES[:, None]], [ONES]),
        (Indices, [np.arange(2)], [ONES, np.arange(2, dtype=np.int32)]),
        (Classes, [np.arange(2, dtype=np.int32)], [np.arange(2)]),
        (Labels, [np.array(["a"]), np.array([None])], [np.array("a"), np.array([1j]), ["a"]]),
        (NDArray[np.float32], [np.ones((2, 2), np.float32)], [ONES]),
        (Vector | None, [None, ONES], [0]),
        (int | str, [1, "a"], [1.5]),
        (list[Count], [[], [1, 2]], [[1, -1], (1,), None]),
        (tuple[float, ...], [(), (1.0, 2.0)], [[1.0], ("a",)]),
        (tuple[float, Count], [(0.5, 1)], [(0.5,), (0.5, -1), (0.5, 1, 1), [0.5, 1]]),
        (State, [{}, {"a": ONES}], [{1: 2}, [], None]),
        (dict[Count, Vector], [{1: ONES}], [{-1: ONES}, {1: 1.0}]),
        (Schedule, [Schedule()], [None, Schedule]),
    ],
    ids=lambda value: "" if isinstance(value, list) else re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
def test_annotations_are_rules(annotation, allowed, refused):
    rule = rule_of(annotation)
    assert all(rule.allows(value) for value in allowed)
    assert not any(rule.allows(value) for value in refused)
    assert rule.words


class Pair(NamedTuple):
    first: Count
    second: Vector


@dataclass
class Thing:
    mean: Vector
    pairs: list[Pair] = field(default_factory=list)
    run: Annotated[Any, StoredAs(State)] = None
    spread: Annotated[Vector, Stored.ONCE_SET] = field(init=False)
    cache: Annotated[Any, Stored.NEVER] = "empty"

    @classmethod
    def check_stored(cls, state):
        require(len(state["mean"]) == len(state["pairs"]), "there is a pair missing")

    def __getstate__(self):
        return {**self.__dict__, "run": {"steps": self.run}}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.run = state["run"]["steps"]


def schemas(cls):
    """What a version knows whose Thing is that class."""
    return {"Pair": Schema(Pair), "Thing": Schema(cls)}


def written(value, known):
    """As it lies in a file: the tree, and the arrays."""
    encoder = Encoder(known)
    return json.loads(json.dumps(encoder.encode(value, ""))), encoder.arrays


def read(node, arrays, known):
    return Decoder(known, arrays).decode(node)


def thing():
    return Thing(ONES[:2], [Pair(1, ONES), Pair(2, ONES)], run=7)


def test_an_object_comes_back_as_its_class_says():
    one, known = thing(), schemas(Thing)
    one.cache = "full"
    node, arrays = written(one, known)
    assert set(node["fields"]) == {"mean", "pairs", "run"}
    again = read(node, arrays, known)
    assert again.run == 7 and again.cache == "empty" and not hasattr(again, "spread")
    assert [type(pair) for pair in again.pairs] == [Pair, Pair]
    one.spread = ONES
    assert (read(*written(one, known), known).spread == ONES).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mean": 1.0}, "Thing.mean is not an array of float64 in 1 dimension"),
        ({"mean": None}, "Thing.mean is not"),
        ({"pairs": []}, "there is a pair missing"),
        ({"pairs": [1, 2]}, "Thing.pairs is not a list of which each is a Pair"),
        ({"run": 7}, "Thing.run is not a table from a text to anything"),
        ({"spread": 1}, "Thing.spread is not"),
        ({"cache": 1}, r"Thing\.cache, which this version .* does not know.*update"),
        ({"later": 1}, r"Thing\.later, which this version .* does not know.*update"),
    ],
)
def test_what_a_class_does_not_say_is_refused(change, reason):
    known = schemas(Thing)
    node, arrays = written(thing(), known)
    node["fields"].update(change)
    with pytest.raises(MalformedError, match=reason):
        read(node, arrays, known)


def test_what_is_missing_is_named():
    known = schemas(Thing)
    node, arrays = written(thing(), known)
    del node["fields"]["mean"]
    with pytest.raises(MalformedError, match="Thing lacks 'mean'"):
        read(node, arrays, known)


@dataclass
class LaterThing(Thing):
    """What became of Thing in a later version."""

    names: Annotated[list[str], Since("0.2", before=[])] = field(default_factory=lambda: ["new"])


def test_a_field_that_older_files_lack_is_what_it_was_then():
    node, arrays = written(thing(), schemas(Thing))
    later = schemas(LaterThing)
    first, second = read(node, arrays, later), read(node, arrays, later)
    assert type(first) is LaterThing and first.names == [] and first.run == 7
    first.names.append("mine")
    assert second.names == [] == read(node, arrays, later).names
    node["fields"]["names"] = 3
    with pytest.raises(MalformedError, match=r"LaterThing\.names is not a list"):
        read(node, arrays, later)


def test_a_model_file_that_lacks_a_field_loads_with_what_it_was_then(tmp_path, monkeypatch):
    path = tmp_path / "older.oda"
    source = stored_models.FOLDER / f"{annealed.__version__}-clustering-tracking.oda"
    entries, header, data = forging.take_apart(source.read_bytes())
    (schedule,) = (fields for name, fields in objects_in(header["model"]) if name == "Schedule")
    assert schedule.pop("growth") == 1
    path.write_bytes(forging.put_together(entries, header, data))
    with pytest.raises(annealed.ModelFileError, match="Schedule lacks 'growth'"):
        annealed.load(path)
    since = Field.of(Annotated[Positive, Since("0.2", before=1)])
    monkeypatch.setitem(SCHEMAS["Schedule"].fields, "growth", since)
    rows = stored_models.rows()[0]
    older, now = annealed.load(path), annealed.load(source)
    assert (older.partial_fit(rows).predict(rows) == now.partial_fit(rows).predict(rows)).all()
    assert (older.codevectors_ == now.codevectors_).all()


def test_what_a_class_does_not_declare_cannot_be_saved():
    one = thing()
    one.note = "mine"
    with pytest.raises(CannotSaveError, match="Thing carries 'note'"):
        written(one, schemas(Thing))


def test_an_annotation_that_says_nothing_is_an_error_of_ours():
    @dataclass
    class Vague:
        thing: ClassVar[int] = 1
        things: set[int] = field(default_factory=set)

    with pytest.raises(TypeError, match=r"Vague\.things: set\[int\] does not say"):
        Schema(Vague)


def test_a_default_that_no_object_would_carry_is_an_error_of_ours():
    @dataclass
    class Forgetful:
        count: Count = field(default=0, init=False)

    assert "count" not in Forgetful().__dict__
    with pytest.raises(TypeError, match=r"Forgetful\.count: .* set it in __post_init__"):
        Schema(Forgetful)


def test_an_estimator_learns_what_is_annotated():
    fields = EstimatorSchema(annealed.StochasticVQ).fields
    assert {"parameters", "n_features_in_", "_competition", "labels_"} <= set(fields)
    assert not {"_rules", "divergence", "n_clusters"} & set(fields)
    assert [name for name, one in fields.items() if one.required] == ["parameters"]


def objects_in(node):
    """Every object in the tree of a file, as (name of its class, its fields)."""
    if isinstance(node, dict):
        if "kind" in node:
            yield node["kind"], node["fields"]
        for child in node.values():
            yield from objects_in(child)
    elif isinstance(node, list):
        for child in node:
            yield from objects_in(child)


@pytest.mark.quality
def test_every_field_of_every_class_is_checked(tmp_path):
    """In the stored files each is replaced by what no field is, once."""
    free = {"Watch.model", "TabularModel.estimator_"}  # checked by what holds them
    tried, path = set(), tmp_path / "model.oda"
    for source in sorted(stored_models.FOLDER.glob("*.oda")):
        entries, header, data = forging.take_apart(source.read_bytes())
        for name, fields in objects_in(header["model"]):
            for key in list(fields):
                if f"{name}.{key}" in tried:
                    continue
                tried.add(f"{name}.{key}")
                before, fields[key] = fields[key], {"tuple": [{"tuple": []}, "", -1]}
                path.write_bytes(forging.put_together(entries, header, data))
                fields[key] = before
                with pytest.raises(annealed.ModelFileError) as caught:
                    annealed.load(path)
                if f"{name}.{key}" not in free:
                    assert f"{name}.{key} is not" in str(caught.value)
    met = {name.partition(".")[0] for name in tried}
    assert set(SCHEMAS) - met == {"WinnerTuning", "GeneralizedTuning"}  # are what SoftTuning is
