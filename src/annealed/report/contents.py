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
    is compared with: "siblings", "classes" (it is the only one of its class), "others" (in the
    model in use: those of other classes or clusters) or "none".
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
    One of the model in use stands beside the tree; its ``parent`` is the place it comes from.
    """

    name: str
    class_index: int
    branch: int
    parent: NodeIndex | None
    height: float
    splits: list[SplitShown] = field(default_factory=list)
    in_use: bool = False


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

    ``numbers`` are what rows are known by: their places in what was given, or in its file.
    ``labels`` are what the user calls each one (None: not given); ``classes`` colour them (-1:
    unknown), and are None where the codevectors they belong to do.
    """

    total: int
    numbers: list[int]
    x: list[float]
    y: list[float]
    labels: list[str] | None
    classes: list[int] | None


@dataclass(frozen=True)
class VoterShown:
    """One of the levels that answer together: its part of the answer, and what was done to it."""

    share: float
    n_codevectors: int
    steps: int


@dataclass(frozen=True)
class HeldOut:
    """What to expect of new rows: measured on rows that were held out while fitting."""

    accuracy: float
    log_loss: float
    score: float | None


@dataclass(frozen=True)
class ClassAnswers:
    """How rows of a class are answered; None where nothing can be said."""

    rows: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class Certainty:
    """Rows that are answered about equally surely: what is stated on average, and what is right."""

    rows: int
    stated: float
    right: float


@dataclass(frozen=True)
class Answers:
    """What the model says of the rows given, whose classes are known.

    ``confusion[i][j]`` rows of class i are answered with class j.
    """

    rows: int
    accuracy: float
    log_loss: float
    confusion: list[list[int]]
    classes: list[ClassAnswers]
    calibration: list[Certainty]


@dataclass(frozen=True)
class ClusterShown:
    """A cluster: its part of the samples, rows given that are in it, what tells it from others."""

    weight: float
    codevectors: int
    rows: int | None
    features: list[FeatureDifference]


@dataclass(frozen=True)
class Plausible:
    """A number of clusters and how well it is supported (see ``plausible_n_clusters_``)."""

    n_clusters: int
    support: float


@dataclass(frozen=True)
class Relevance:
    """How much a feature counts; 1 on average."""

    feature: int
    relevance: float


@dataclass(frozen=True)
class Outline:
    """How densely rows of a cluster lie on the map, and the density that most of them exceed.

    ``values`` are on a grid of ``size`` places a side, row by row from the bottom: base64 of bytes.
    """

    cluster: int
    size: int
    x: tuple[float, float]
    y: tuple[float, float]
    values: str
    contour: float


@dataclass(frozen=True)
class ModelShown:
    """The model in use.

    ``level`` is the one it is or comes from; ``words`` say which beside the slider. If it is not
    just that level, ``codevectors`` shows those that decide, which then have nodes of their own.
    ``about`` are sentences on what answers and why.
    """

    level: int
    n_codevectors: int
    words: str
    codevectors: LevelShown | None
    about: list[str]
    voters: list[VoterShown]
    held_out: HeldOut | None
    answers: Answers | None
    relevances: list[Relevance]
    clusters: list[ClusterShown]
    plausible: list[Plausible]
    outlines: list[Outline]


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
    #: which features are shares of a category, between 0 and 1
    shares: list[bool]
    classes: list[str]
    branches: list[str]
    axes: tuple[str, str]
    projected: bool
    score_name: str | None
    levels: list[LevelShown]
    nodes: list[NodeShown]
    lines: list[TreeLine]
    rows: RowsShown | None
    in_use: ModelShown | None
    plateaus: Plateaus | None
