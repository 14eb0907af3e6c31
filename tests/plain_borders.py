"""Borders between codevectors as docs/notation.md writes them, in plain NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import logsumexp

NEIGHBOURS, WIDENING, UNEVENNESS, DEEPEST, ENOUGH = 7, 1.5, 0.15, 2 / 3, 0.5


class PlainDensity:
    """The density of some codevectors, and the borders in it."""

    def __init__(self, points, weights, narrowest, samples):
        self.points, self.weights, self.narrowest, self.samples = (
            points, weights, narrowest, samples,
        )  # fmt: skip
        self.distances = ((points[:, None] - points) ** 2).sum(axis=2)
        near = np.argsort(self.distances + np.diag(np.full(len(points), np.inf)), axis=1)
        edges = {
            (min(i, j), max(i, j)) for i, row in enumerate(near) for j in row[:NEIGHBOURS] if i != j
        }
        graph = np.zeros_like(self.distances)
        for i, j in edges:
            graph[i, j] = 1
        if (minimum_spanning_tree(graph).toarray() > 0).sum() < len(points) - 1:
            tree = minimum_spanning_tree(self.distances).toarray()
            edges |= {(min(i, j), max(i, j)) for i, j in np.argwhere(tree > 0).tolist()}
        self.first, self.second = np.array(sorted(edges), dtype=int).reshape(-1, 2).T
        share = weights / weights.sum()
        self.widest = 2 * share @ ((points - share @ points) ** 2).sum(axis=1)

    def widths(self):
        """From the narrowest kernel to the widest."""
        n = np.arange(200)
        found = self.narrowest * WIDENING**n
        return found[found < self.widest]

    def log_kernels(self, places, widths):
        """log k_j at some places, and of them squared with one weight less."""
        apart = ((places[:, None] - self.points) ** 2).sum(axis=2)
        return -apart / widths - self.points.shape[1] / 2 * np.log(widths / self.narrowest)

    def view(self, width):
        """What is seen at one width."""
        d, w = self.points.shape[1], self.weights
        pilot = logsumexp(self.log_kernels(self.points, width), b=w, axis=1)
        mean = w @ pilot / w.sum()
        widths = np.maximum(width * np.exp(-2 * min(0.5, 1 / d) * (pilot - mean)), self.narrowest)
        kernels = self.log_kernels(self.points, widths)
        peaks = logsumexp(kernels, b=w, axis=1)
        squares = logsumexp(2 * kernels, b=w, axis=1)
        between = (self.points[self.first] + self.points[self.second]) / 2
        middles = logsumexp(self.log_kernels(between, widths), b=w, axis=1)
        counts = self.samples * np.exp(2 * peaks - squares)
        alone = np.exp(np.minimum(np.log(w) + np.diag(kernels) - peaks, 0))
        ripple = UNEVENNESS * (1 - alone) * self.samples * w.sum() / len(w)
        places = w @ np.exp(squares - 2 * peaks)
        places *= np.log(max(self.widest / self.narrowest, 4)) / np.log(4)
        saddles = np.minimum(middles, np.minimum(peaks[self.first], peaks[self.second]))
        seen = SimpleNamespace(
            peaks=peaks, middles=middles, saddles=saddles, counts=counts, ripple=ripple,
            chance=2 * np.log(max(places, 2.0)), joins=[],
        )  # fmt: skip
        root = np.arange(len(peaks))
        for edge in np.argsort(-saddles, kind="stable"):
            a, b = root[self.first[edge]], root[self.second[edge]]
            if a != b:
                a, b = (b, a) if peaks[a] < peaks[b] else (a, b)
                seen.joins.append((b, a, np.exp(min(saddles[edge] - peaks[b], 0.0))))
                root[root == b] = a
        support = [self.support(seen, low, depth) for low, _, depth in seen.joins]
        seen.clearest = int(np.argmax(support)) if support else 0
        seen.support = max(support, default=-np.inf)
        seen.several = any(depth < 1 for _, _, depth in seen.joins)
        return seen

    @staticmethod
    def support(seen, low, depth, searched=True):
        """How sure one border is."""
        root = np.sqrt(2 * seen.counts[low] / (1 + seen.ripple[low] * depth))
        chance = np.sqrt((1 + depth if searched else 1) * seen.chance)
        there = root * (1 - np.sqrt(depth)) - chance
        return min(there, root * (np.sqrt(DEEPEST) - np.sqrt(depth)))

    def clearest_border(self):
        """Its support, and the side of its lower peak."""
        seen = []
        for width in self.widths() if len(self.widths()) else [self.narrowest]:
            seen.append(self.view(width))
            if not seen[-1].several:
                break
        most = max(view.support for view in seen)
        enough = ENOUGH * most if most > 0 else most
        drawn = next(view for view in seen if view.support >= enough)
        up = np.arange(len(self.points))
        steepest = np.zeros(len(up))
        for a, b, middle in zip(self.first, self.second, drawn.middles, strict=True):
            a, b = (b, a) if drawn.peaks[a] > drawn.peaks[b] else (a, b)
            slope = (drawn.peaks[b] - drawn.peaks[a]) / np.sqrt(self.distances[a, b])
            if slope > steepest[a] and middle >= drawn.peaks[a]:
                steepest[a], up[a] = slope, b
        for _ in up:
            up = up[up]
        root = np.arange(len(up))
        for k, (low, high, _) in enumerate(drawn.joins):
            if k != drawn.clearest:
                root[root == root[low]] = root[high]
        return most, root[up] == root[drawn.joins[drawn.clearest][0]]

    def support_between(self, clusters):
        """The support of given borders, at the width where it is largest."""
        found = [-np.inf]
        for width in self.widths():
            seen = self.view(width)
            highest = {c: max(np.flatnonzero(clusters == c), key=lambda i: seen.peaks[i])
                       for c in set(clusters.tolist())}  # fmt: skip
            root, total = clusters.copy(), 0.0
            for edge in np.argsort(-seen.saddles, kind="stable"):
                a, b = root[self.first[edge]], root[self.second[edge]]
                if a == b:
                    continue
                if seen.peaks[highest[a]] < seen.peaks[highest[b]]:
                    a, b = b, a
                depth = np.exp(min(seen.saddles[edge] - seen.peaks[highest[b]], 0.0))
                total += self.support(seen, highest[b], depth, searched=False)
                root[root == b] = a
            found.append(total / np.sqrt(len(highest) - 1))
        return max(found)


def plain_cuts(points, weights, narrowest, samples, least):
    """Codevectors divided at the clearest border, again and again."""
    clusters, found, waiting = np.zeros(len(points), dtype=int), [], []

    def consider(members):
        if len(members) > 1:
            density = PlainDensity(points[members], weights[members], narrowest, samples)
            support, lower = density.clearest_border()
            waiting.append((support, -members[0], members[lower], members[~lower]))

    consider(np.arange(len(points)))
    while waiting:
        best = max(waiting, key=lambda one: one[:2])
        waiting.remove(best)
        support, _, low, high = best
        new = high if weights[low].sum() > weights[high].sum() else low
        clusters = clusters.copy()
        clusters[new] = len(found) + 1
        found.append((support, clusters))
        if support <= least:
            break
        consider(high)
        consider(low)
    return found
