"""Who joins a race: levels, as annealed and fine-tuned, and twins that know new samples only.

All of it from samples that are kept, where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array, BregmanDivergence, Geometry
from annealed.fine_tuning.candidates import sizes
from annealed.fine_tuning.methods import TUNINGS, SoftTuning, Tuning
from annealed.fine_tuning.model import TEMPERED_ROWS, Fits, as_annealed, tempered
from annealed.fine_tuning.nearest import Nearest
from annealed.fine_tuning.vote import Vote
from annealed.path import AnnealingPath
from annealed.stored import Classes, Positive, among, between
from annealed.threads import in_threads

# Levels that take part stand this factor apart in their number of codevectors, and have at least so
# many samples for each where they are made of samples that are kept. These are presented again and
# again, so often in all, before what was made of them is tested.
GROWTH = 2.2
SAMPLES_PER_CODEVECTOR = 20
REHEARSED = 3000

# Samples that are kept, oldest first: rows, classes, weights.
Latest = tuple[Array, Classes, Array]


@dataclass(frozen=True)
class TuningOptions:
    """What a tuner may do.

    last : only the coldest level takes part
    method : how to fine-tune, one of `TUNINGS`; None for not at all
    fits : what fine-tuning may fit
    window : steps whose average is the model
    samples : how many of the latest samples are kept; 0 for none
    """

    last: bool
    method: Annotated[str, among(*TUNINGS)] | None
    fits: tuple[Fits, ...]
    window: Positive
    samples: Annotated[int, between(0, 2**30)] = 0


class Starts(NamedTuple):
    """Levels that fine-tunings may start from, and what they measure their steps by."""

    path: AnnealingPath
    geometry: Geometry


def anneal_latest(neighbours: Nearest, annealer: Annealer, samples: int) -> Starts | None:
    """An annealing of the latest samples, by the schedule of the stream's own."""
    rows, classes, weights = neighbours.latest(samples)
    # Every class takes part, those of no sample lately with what is known of them.
    missing = np.setdiff1d(np.arange(len(annealer.classes)), classes).astype(np.int32)
    if len(missing):
        level = annealer.model()
        for c in missing:
            mine = level.classes == c
            mean = level.weights[mine] @ level.codevectors[mine] / level.weights[mine].sum()
            rows, weights = np.vstack([rows, mean]), np.append(weights, 1.0)
        classes = np.append(classes, missing).astype(np.int32)
    own = Annealer(annealer.d, annealer.divergence, annealer.schedule)
    most = len(rows) // SAMPLES_PER_CODEVECTOR
    only_means = most < GROWTH * len(annealer.classes)  # there is nothing more to find
    for _ in annealer.classes:
        own.add_class(len(rows) + 1 if only_means else None)
    if only_means:
        own.absorb(rows, classes, weights, None, 0, len(rows))
        return Starts(AnnealingPath([own.model()], []), own.geometry())
    own.schedule = replace(own.schedule, K_max=most)
    own.anneal(rows, classes, weights, np.random.default_rng(samples))
    return Starts(own.path(), own.geometry()) if own.path() else None


def tuned_levels(
    divergence: BregmanDivergence,
    source: Starts,
    log_prior: Array,
    options: TuningOptions,
    latest: Latest | None,
    *,
    plain: bool,
) -> list[Tuning]:
    """Levels of a path, fine-tuned on the samples that are kept; if ``plain``, as annealed too."""
    path, geometry, n = source.path, source.geometry, len(log_prior)
    if latest is None:
        d = path[0].codevectors.shape[1]
        latest = np.empty((0, d)), np.empty(0, np.int32), np.empty(0)
    rows, classes, weights = latest
    order = _rehearsal(len(rows))
    method = None if options.method is None else TUNINGS[options.method]
    tried = sizes(path, GROWTH)
    found: list[Tuning] = []
    untaught: list[Tuning] = []
    for K in tried[-1:] if options.last else tried:
        start = as_annealed(path.codebook(K), log_prior)
        if plain:
            found.append(SoftTuning(divergence, start, n, geometry, Fits(), 0))
        if method is None:
            continue
        if len(rows):
            start = tempered(start, divergence, rows[-TEMPERED_ROWS:], classes[-TEMPERED_ROWS:])
        for fits in options.fits:
            untaught.append(method(divergence, start, n, geometry, fits, window=options.window))
            found.append(untaught[-1])
    in_threads(
        lambda tuning: tuning.learn(rows, order, classes, weights, 0, len(order)),
        sorted(untaught, key=lambda tuning: -tuning.work_per_row),  # the longest first
    )
    return found


def _rehearsal(n: int) -> NDArray[np.int64]:
    """In which order so many samples are presented again and again."""
    if not n:
        return np.empty(0, dtype=np.int64)
    rng = np.random.default_rng(n)
    passes = -(-REHEARSED // n)
    return np.concatenate([rng.permutation(n) for _ in range(passes)]).astype(np.int64)


def forgetful(neighbours: Nearest, samples: int) -> list[Nearest]:
    """Twins of neighbours and means that know the latest samples only."""
    twin = neighbours.since_change(samples)
    rows, classes, weights = twin.latest(twin.run.seen)
    means = Nearest(twin.divergence, twin.start, twin.n_classes, None)
    means.learn(rows, None, classes, weights, 0, len(rows))
    return [twin, means]


def better_anew(neighbours: Nearest, old: Vote, samples: int) -> bool:
    """Whether neighbours begun with the latest samples do better on them than who answers.

    They are tested on each before they learn it; the other has learnt them already.
    """
    rows, classes, weights = neighbours.latest(samples)
    if not len(rows):
        return False
    divergence, n = neighbours.divergence, neighbours.n_classes
    anew = Nearest(divergence, neighbours.start, n, neighbours.samples)
    told = anew.learn(rows, None, classes, weights, 0, len(rows), answer=True)
    known = old.posterior(divergence, rows, n)
    right, wrong = (float((each.argmax(axis=1) == classes).mean()) for each in (told, known))
    return right > wrong
