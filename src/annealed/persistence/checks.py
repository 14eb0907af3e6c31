"""What the fields of a saved object may be, and how they must fit together.

A file may have been made by anyone: nothing is built from parts that do not fit. The kernel checks
every size it is handed as well.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from annealed.annealing.class_annealer import ClassLevel
from annealed.divergences import BregmanDivergence
from annealed.drift import REMEMBERED
from annealed.estimators.parameters import Rule
from annealed.fine_tuning.methods import Tuning
from annealed.fine_tuning.stream_race import LENGTH, Race
from annealed.path import Level, Split
from annealed.persistence.container import AnyArray
from annealed.persistence.kind import MalformedError

State = dict[str, Any]
# Rungs of a ladder and levels of a path: far beyond any, but no loop over them would never end.
MOST_LEVELS = 100_000

# -- rules -------------------------------------------------------------------------------------


def array_of(dtype: type, ndim: int) -> Rule:
    """An array of that type and number of dimensions."""

    def allows(v: Any) -> bool:
        return isinstance(v, np.ndarray) and v.dtype == dtype and v.ndim == ndim

    return Rule(allows, f"an array of {np.dtype(dtype)} in {ndim} dimensions")


def instance_of(*classes: type) -> Rule:
    """An object of exactly one of these classes."""
    names = " or ".join(cls.__name__ for cls in classes)
    return Rule(lambda v: type(v) in classes, f"of the kind {names}")


def maybe(rule: Rule) -> Rule:
    """That, or None."""
    return Rule(lambda v: v is None or rule.allows(v), f"None or {rule.words}")


def list_of(rule: Rule, kind: type[Any] = list) -> Rule:
    """A list (or tuple) of such values."""
    words = f"a {kind.__name__} of values each {rule.words}"

    def allows(v: Any) -> bool:
        return type(v) is kind and all(rule.allows(item) for item in v)

    return Rule(allows, words)


def count(low: int = 0, high: int = 2**62) -> Rule:
    """An integer from low to below high."""

    def allows(v: Any) -> bool:
        is_whole = isinstance(v, numbers.Integral) and not isinstance(v, (bool, np.bool_))
        return is_whole and low <= int(v) < high

    return Rule(allows, f"a whole number from {low} to below {high}")


NUMBER = Rule(
    lambda v: isinstance(v, numbers.Real) and not isinstance(v, (bool, np.bool_)), "a number"
)
AMOUNT = Rule(lambda v: NUMBER.allows(v) and 0 <= v < np.inf, "a number of at least 0")
TEXT = instance_of(str)
TRUTH = instance_of(bool)
PLAIN = Rule(lambda v: True, "a plain value")
RUNG = count(-MOST_LEVELS, MOST_LEVELS)
STATE = Rule(lambda v: isinstance(v, dict) and all(type(key) is str for key in v), "a table")
DIVERGENCE = Rule(lambda v: isinstance(v, BregmanDivergence), "a divergence")
MATRIX, VECTOR = array_of(np.float64, 2), array_of(np.float64, 1)
INDICES, CLASSES = array_of(np.int64, 1), array_of(np.int32, 1)


def require(holds: object, otherwise: str) -> None:
    """Raise MalformedError unless it holds."""
    if not holds:
        raise MalformedError(otherwise)


def one_length(owner: str, *arrays: AnyArray) -> None:
    """Arrays with one entry for each codevector, at least one."""
    lengths = {len(array) for array in arrays}
    require(
        len(lengths) == 1 and lengths != {0}, f"arrays of {owner} differ in length, or are empty"
    )


def one_width(owner: str, d: int | None, *arrays: AnyArray) -> None:
    """Arrays with one column for each feature."""
    widths = {array.shape[-1] for array in arrays}
    require(widths <= {d}, f"arrays of {owner} do not have the {d} features of the model")


# -- how the fields of each fit together -------------------------------------------------------


def check_codebook(s: State) -> None:
    """Codevectors and what is known of each."""
    one_length("a codebook", *s.values())
    one_width("a codebook", s["mu"].shape[1], s["mu"], s["axis"], s["before"])


def check_level(s: State) -> None:
    """Codevectors, their weights and places in the tree."""
    parts = s["codevectors"], s["weights"], s["classes"], s["nodes"], s["parents"]
    one_length("a level", *parts)
    require((s["classes"] >= 0).all(), "a codevector has an impossible class")


def check_split(s: State) -> None:
    """A parent is older than its children, so that nobody descends from himself."""
    first, second = s["children"]
    require(s["parent"] < first < second, "a split has children older than their parent")


def check_splits(splits: list[Split]) -> None:
    """Every node comes from one parent that was there before it: the tree has no circles."""
    children = [child for split in splits for child in split.children]
    require(len(set(children)) == len(children), "a codevector comes from two splits")


def check_class_annealer(s: State) -> None:
    """One class: levels, the codebook it is at, the kernel's state."""
    d, state = s["d"], s["run"]
    check_splits(s["splits"])
    require(len(s["levels"]) < MOST_LEVELS, "a class has too many levels")
    for rung, level in s["levels"].items():
        require(RUNG.allows(rung) and type(level) is ClassLevel, "a class has impossible levels")
        one_width("a level", d, level.book.mu)
    begun = s["book"] is not None
    require(begun == (s["rung"] is not None), "a class has a codebook but no rung, or no codebook")
    if begun:
        wanted = {"low", "high", "variance", "mean", "entered_at", "temperature", "run_settings"}
        require(wanted <= set(s), "a class has left its warm-up without what it found")
        one_width("a class", d, s["book"].mu, s["low"], s["high"], s["variance"], s["mean"])
    else:
        # The kernel makes room for d features before it looks at these.
        mean = state.get("mean")
        require(
            VECTOR.allows(mean) and len(mean) == d, "a warm-up is of another number of features"
        )
    check_matrix(s["divergence"], d)


def check_matrix(divergence: BregmanDivergence, d: int) -> None:
    """A Mahalanobis matrix of as many features as the model."""
    matrix = divergence.matrix
    require(matrix is None or len(matrix) == d, "the Mahalanobis matrix is of another size")


def check_annealer(s: State) -> None:
    """Classes of one divergence on one ladder."""
    d = s["d"]
    require(all(state.d == d for state in s["classes"]), "classes differ in their features")
    require(
        all(state.divergence is s["divergence"] for state in s["classes"]),
        "classes differ in their divergence",
    )
    if s["top"] is None:
        require(
            all(c.rung is None for c in s["classes"]), "a class is on a ladder that is not there"
        )
    if s["chosen"] is not None:
        fits_level("the chosen level", s["chosen"], d, len(s["classes"]))
    told = s["unconverged"]
    require(all(len(pair) == 2 for pair in told), "levels that did not converge are not pairs")


def fits_level(owner: str, level: Level, d: int | None, classes: int) -> None:
    """A level of so many features and classes."""
    one_width(owner, d, level.codevectors)
    require(level.classes.max() < classes, f"{owner} has a class that does not exist")


def check_persistence(s: State) -> None:
    """Plateaus with what was expected and required of each."""
    one_length("the plateaus", s["plateau"], s["expected"], s["required"])


def check_tuned(s: State) -> None:
    """A level, and what fine-tuning has fitted of it."""
    level, sharpness, relevances = s["level"], s["sharpness"], s["relevances"]
    K, d = level.codevectors.shape
    require(len(s["bias"]) == K, "a fine-tuned model has a bias for other codevectors")
    require(sharpness is None or len(sharpness) == K, "temperatures are of other codevectors")
    require(relevances is None or len(relevances) == d, "relevances are of other features")


def check_tuning(s: State) -> None:
    """Where fine-tuning began, with its codevectors sorted by class."""
    level, n_classes = s["start"].level, s["n_classes"]
    found = np.unique(level.classes)
    require(
        len(found) == n_classes == level.classes.max() + 1 and (np.diff(level.classes) >= 0).all(),
        "a fine-tuning has codevectors of other classes",
    )
    d = level.codevectors.shape[1]
    one_width("a fine-tuning", d, *s["geometry"])
    check_matrix(s["divergence"], d)


def check_race(s: State) -> None:
    """Runners and everything they have answered."""
    runners, seen = s["runners"], s["seen"]
    require(runners and seen < s["length"] <= LENGTH, "a race is over")
    require(s["leader"] is None or s["leader"] < len(runners), "a race is led by nobody")
    require(len(runners) == len(s["answers"]), "a race has answers of other runners")
    require(len(s["classes"]) == len(s["counted"]), "a race has weights of other samples")
    n = runners[0].n_classes
    require(all(runner.n_classes == n for runner in runners), "a race is of other classes")
    for answers in s["answers"]:
        fits = all(a.ndim == 2 and a.shape[1] == n and a.dtype == np.float32 for a in answers)
        require(fits and sum(map(len, answers)) == seen, "a race has answers of other samples")
    for parts in (s["classes"], s["counted"]):
        require(sum(map(len, parts)) == seen, "a race has other samples")
    for each in s["classes"]:
        require(((each >= 0) & (each < n)).all(), "a race has samples of impossible classes")


def check_stream_tuner(s: State) -> None:
    """A race, or the winner of the last one."""
    for tuning in tunings_of(s["race"], s["tuning"]):
        require(tuning.n_classes == len(s["factor"]), "a fine-tuning is of other classes")


def tunings_of(race: Race | None, tuning: Tuning | None) -> list[Tuning]:
    """Everything that is being fine-tuned."""
    return [*([] if race is None else race.runners), *([] if tuning is None else [tuning])]


def check_detector(s: State) -> None:
    """Sums of blocks."""
    require(s["blocks"].shape[1] == 2, "a drift detector has no sums")
    require(len(s["blocks"]) <= REMEMBERED, "a drift detector remembers too much")


def check_terms(s: State) -> None:
    """Only the rules there are."""
    require(s["rule"] in ("vq", "lvq1", "glvq"), "the rule of a competition is unknown")


def check_competition(s: State) -> None:
    """Codevectors that compete, and rows of classes that wait."""
    require((s["run"] is None) == (s["mean"] is None) == (not len(s["label"])), "a competition "
            "has begun without codevectors")  # fmt: skip
    for c, kept in s["waiting"].items():
        pair = type(kept) is tuple and len(kept) == 2
        require(count(0, 2**31).allows(c) and pair, "rows that wait are not there")
        require(MATRIX.allows(kept[0]) and VECTOR.allows(kept[1]), "rows that wait are no rows")
        one_length("rows that wait", *kept)
    if s["run"] is not None:
        one_length("a competition", s["start"], s["label"])
        one_width("a competition", s["start"].shape[1], s["mean"])
        require((s["label"] >= 0).all(), "a codevector has an impossible class")
        check_matrix(s["divergence"], s["start"].shape[1])


def check_batch(s: State) -> None:
    """Levels of one class."""
    check_splits(s["splits"])
    levels = [*s["levels"], *([] if s["chosen"] is None else [s["chosen"]])]
    require(levels, "an annealing has no level")
    for level in levels:
        fits_level("a level", level, levels[0].codevectors.shape[1], 1)
