"""What the page shows, as plain data: every number on it comes from here.

These classes hold numbers, strings and lists only, so that `dataclasses.asdict` makes JSON of them.
A number that does not exist (the score of a level in a stream) is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Index of a codevector's place in the tree, in `Contents.nodes`.
NodeIndex = int


@dataclass(frozen=True)
class FeatureDifference:
    """A feature that tells a codevector from its siblings.

    ``own`` and ``others`` are in the original units of the feature, ``others`` the weighted mean of
    the siblings (None: there are none); ``difference`` is own - others in standard deviations.
    """

    feature: int
    own: float
    others: float | None
    difference: float | None


@dataclass(frozen=True)
class NearestSample:
    """A real sample near a codevector: its place among the rows shown, divergence, and values.

    ``values`` belong to the first features of the card, in original units.
    """

    row: int
    divergence: float
    values: list[float]


@dataclass(frozen=True)
class Card:
    """What is told of one codevector on one level.

    ``siblings`` are those with the same parent, or what descends from them. ``others`` says who it
    is compared with: "siblings", "classes" (it is the only one of its class) or "none".
    """

    siblings: list[NodeIndex]
    others: str
    features: list[FeatureDifference]
    nearest: list[NearestSample]
    rows: int | None


@dataclass(frozen=True)
class LevelShown:
    """One stop of the slider: the figures of a level, and its codevectors on the map."""

    temperature: float
    n_codevectors: int
    samples: int
    distortion: float | None
    entropy: float | None
    free_energy: float | None
    score: float | None
    x: list[float]
    y: list[float]
    weights: list[float]
    nodes: list[NodeIndex]
    cards: list[Card]
    #: which codevector of the level each row shown belongs to: base64 of 16-bit integers
    cells: str


@dataclass(frozen=True)
class SplitShown:
    """A codevector becomes two: from ``level`` on they stand apart."""

    children: tuple[NodeIndex, NodeIndex]
    critical_temperature: float | None
    level: int


@dataclass(frozen=True)
class NodeShown:
    """A codevector's place in the tree of splits.

    ``height`` is where the tree draws it; ``branch`` decides its colour (-1: shared by several).
    """

    name: str
    class_index: int
    branch: int
    parent: NodeIndex | None
    height: float
    splits: list[SplitShown] = field(default_factory=list)


@dataclass(frozen=True)
class TreeLine:
    """A line of the tree: a codevector from one temperature to another, hot to cold.

    ``origin`` is the one of the level before that it comes from (None: it is there from the start).
    """

    node: NodeIndex
    origin: NodeIndex | None
    start: float
    end: float


@dataclass(frozen=True)
class RowsShown:
    """The samples shown: a part of them where there are many.

    ``numbers`` are row numbers in what was given, which was itself a sample if ``drawn``.
    ``labels`` are what the user calls each one (None: not given); ``classes`` colour them (-1:
    unknown), and are None where the codevectors they belong to do.
    """

    total: int
    drawn: bool
    numbers: list[int]
    x: list[float]
    y: list[float]
    labels: list[str] | None
    classes: list[int] | None


@dataclass(frozen=True)
class Chosen:
    """The model in use: the level it is on, and where its codevectors stand if they have moved."""

    level: int
    n_codevectors: int
    words: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Plateaus:
    """How long each K lasts (in log T), and what it takes to stand out; entry K - 1 is K's."""

    lasts: list[float]
    required: list[float | None]
    n_clusters: int


@dataclass(frozen=True)
class Contents:
    """Everything the page shows."""

    title: str
    summary: str
    features: list[str]
    classes: list[str]
    branches: list[str]
    axes: tuple[str, str]
    projected: bool
    score_name: str | None
    levels: list[LevelShown]
    nodes: list[NodeShown]
    lines: list[TreeLine]
    rows: RowsShown | None
    chosen: Chosen | None
    plateaus: Plateaus | None
