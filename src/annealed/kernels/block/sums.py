"""What a block of rows says to a codebook that stands still: sums, which can be added.

Every Bregman divergence is one matrix product. With a point c among the rows, the rows as
z = x - c, and the dual variable theta = grad phi,

    d(x, mu) = d(x, c) + d(c, mu) - <theta(mu) - theta(c), z>

of which the first term is common to all codevectors and no part of associations:

    p_i(x) = softmax_i((<theta_i - theta_c, z> - d(c, mu_i))/T + log rho_i).

Measured from c nothing cancels but what rows have in common with c: rows a million away from the
origin lose no digit. Sums over rows of p, p x and of what is seen along split axes are matrix
products too. They are additive: parts of a block may be computed anywhere and added.

This file is written to the array API standard (https://data-apis.org) and imports nothing of the
package: it runs wherever its rows lie, in the precision they have. ``xp`` is their namespace, by
whose functions every array of rows and codevectors is made that cannot take the place of another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Associations below this count as nothing in what is observed of a level.
LEAST_ASSOCIATION = 1e-7
# The logarithm of no weight at all: finite, so that nothing times it is nothing.
NO_WEIGHT = -1e30
# Exponents below count as this, in single and in double precision: numbers too small to be normal
# would take a hundred times as long, and their products with rows are to be normal too.
LEAST_EXPONENT, LEAST_EXPONENT_DOUBLE = -60.0, -690.0


class Frozen(NamedTuple):
    """A codebook of K codevectors as a block of rows finds it, measured from a point c.

    Parameters
    ----------
    slope : array of shape (K, d)
        (theta(mu_i) - theta(c))/T.
    bias : array of shape (K,)
        log rho_i - d(c, mu_i)/T.
    axis : array of shape (K, d), optional
        u_i, whose product with x - mu_i is the place of x along the split axis.
    foot : array of shape (K,), optional
        <u_i, mu_i - c>.
    """

    slope: Any
    bias: Any
    axis: Any = None
    foot: Any = None


class Sums(NamedTuple):
    """Sums over rows of weight w; what was not asked for is None.

    Parameters
    ----------
    p, pz : arrays of shape (K,), (K, d)
        Of w p and w p z.
    mass, scores, own : arrays of shape (K,)
        Of w p, w p s and w p t, associations below 1e-7 left out: s are the exponents of the
        softmax less the largest of their row, t is d(x, c)/T less that largest one. Then
        sum w p d/T = own - scores + (log rho) mass.
    entropy : array of shape ()
        Of -w p log p.
    turned, turned_by : arrays of shape (K, d), (K,)
        Of w p y z and w p y over rows that turn axes, y the place along the axis.
    axis_p, axis_p2, axis_y, axis_y2, axis_y4 : arrays of shape (K,)
        Of w p, (w p)^2, w p y, w p y^2 and w p y^4 over rows that measure.
    """

    p: Any
    pz: Any
    mass: Any = None
    scores: Any = None
    own: Any = None
    entropy: Any = None
    turned: Any = None
    turned_by: Any = None
    axis_p: Any = None
    axis_p2: Any = None
    axis_y: Any = None
    axis_y2: Any = None
    axis_y4: Any = None

    def __add__(self, other: Any) -> Sums:
        """The sums over both."""
        both = zip(self, other, strict=True)
        return Sums(*(b if a is None else a if b is None else a + b for a, b in both))


def exponents(xp: Any, z: Any, frozen: Frozen) -> tuple[Any, Any]:
    """Exponents of the softmax less the largest of their row, and that largest one."""
    s = xp.matmul(z, frozen.slope.T)
    s += frozen.bias
    highest = xp.max(s, axis=1, keepdims=True)
    s -= highest
    least = LEAST_EXPONENT if s.dtype == xp.float32 else LEAST_EXPONENT_DOUBLE
    return xp.clip(s, least, None), highest


def block_sums(
    xp: Any,
    z: Any,
    frozen: Frozen,
    w: Any = None,
    *,
    own: Any = None,
    observed: bool = False,
    turning: int = 0,
    measuring: int = 0,
) -> Sums:
    """Sums over a block of rows.

    Parameters
    ----------
    xp : namespace of the arrays
    z : array of shape (n, d)
        Rows less c.
    frozen : Frozen
    w : array of shape (n,), optional
        Weights of the rows; left out, all are 1.
    own : array of shape (n,), optional
        d(x, c)/T of the rows, for who observes.
    observed : bool, default=False
        Whether mass, divergences and entropy are asked for, and what is seen along the axes.
    turning : int, default=0
        The first rows, so many of them, turn split axes, also where nothing is observed.
    measuring : int, default=0
        The rows from this one on measure along the axes.
    """
    s, highest = exponents(xp, z, frozen)
    p = xp.exp(s)
    total = xp.sum(p, axis=1, keepdims=True)
    p /= total if w is None else total / w[:, None]
    sums = Sums(xp.sum(p, axis=0), p.T @ z)
    seen = z.shape[0] if observed else turning
    if not seen:
        return sums
    least = LEAST_ASSOCIATION if w is None else LEAST_ASSOCIATION * w[:seen, None]
    p = p[:seen, :]
    p *= xp.asarray(p > least, dtype=p.dtype)  # a choice would take ten times as long
    if observed:
        s *= p  # large arrays are made as seldom as can be: s is not needed any more
        scores = xp.sum(s, axis=0)
        sums = sums._replace(
            mass=xp.sum(p, axis=0),
            scores=scores,
            own=(own - highest[:, 0]) @ p,
            # log p = s - log sum exp(s)
            entropy=xp.sum(xp.sum(p, axis=1) * xp.log(total[:, 0])) - xp.sum(scores),
        )
    if frozen.axis is None:
        return sums
    y = xp.matmul(z[:seen, :], frozen.axis.T)
    y -= frozen.foot
    py = xp.multiply(p, y)
    if turning:
        mine = py[:turning, :]
        sums = sums._replace(turned=mine.T @ z[:turning, :], turned_by=xp.sum(mine, axis=0))
    if measuring < seen and observed:
        p, y, py = p[measuring:, :], y[measuring:, :], py[measuring:, :]
        sums = sums._replace(axis_p=xp.sum(p, axis=0), axis_y=xp.sum(py, axis=0))
        p *= p
        py *= y
        sums = sums._replace(axis_p2=xp.sum(p, axis=0), axis_y2=xp.sum(py, axis=0))
        y *= y
        py *= y
        sums = sums._replace(axis_y4=xp.sum(py, axis=0))
    return sums
