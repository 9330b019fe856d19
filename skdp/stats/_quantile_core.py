"""Private quantiles of one column: a single one, or several in turn.

All releases are points of a public grid, chosen by exponential mechanisms. Ties in the
data are harmless, because grid points are counted and no gap is ever widened. Weights
are float64 with a small relative error, which the slacks below pay for; the choice
among them is exact. The proofs are in the theory section of the documentation.

References
----------
Smith (2011). Privacy-preserving statistical estimation with optimal convergence rates.
Kaplan, Schnapp and Stemmer (2022). Differentially private approximate quantiles.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from skdp import events
from skdp.noise import RandomBits, as_bits, categorical, uniform_integers
from skdp.validation import (
    Neighboring,
    check_bounds,
    check_confidence,
    check_epsilon,
    check_integer,
    check_neighboring,
    check_real,
    set_fields,
)

__all__ = [
    "Grid",
    "check_quantiles",
    "distance_rate",
    "equal_share",
    "rank_error",
    "recursive_event",
    "release_quantile",
    "release_recursive",
    "single_event",
    "split",
]

_CAP = 100.0  # of the exponent of one weight
_SLACK = 1e-11  # of epsilon, for the rounding of the weights
_LEAST_EPSILON = 1e-6
_MOST_EPSILON = 100.0  # a larger one is used as this one


# --- The public grid


@dataclass(frozen=True)
class Grid:
    """Equally spaced points from ``low`` to ``high``, both included.

    A value belongs to the nearest point. With ``cells = (high - low)/step + 1``, values
    that are multiples of the step above ``low`` are grid points themselves: ages from 0
    to 120 have 121 cells.

    Parameters
    ----------
    low, high : float
        Public bounds.
    cells : int
        Number of points, between 2 and 2**48.
    """

    low: float
    high: float
    cells: int

    def __post_init__(self) -> None:
        low, high = check_bounds((self.low, self.high))
        cells = check_integer(self.cells, "cells", low=2, high=2**48)
        if not math.isfinite((high - low) * cells):
            raise ValueError(
                "The 'bounds' parameter is too wide for float64. "
                f"Got {(low, high)!r} with {cells} cells."
            )
        set_fields(self, low=low, high=high, cells=cells)

    def cell(self, values: Any) -> np.ndarray:
        """Return the number of the nearest point; increasing in the value."""
        position = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        position = (position - self.low) / (self.high - self.low)
        return np.rint(position * (self.cells - 1)).astype(np.int64)

    def point(self, k: Any) -> Any:
        """Return point number ``k``; increasing, and never outside the bounds."""
        k, last = np.asarray(k), self.cells - 1
        if self._divides_exactly():  # one rounding: 0.29, not 0.29000000000000004
            points = (self.low * (last - k) + self.high * k) / last
        else:
            points = self.low + k * (self.high - self.low) / last
            points = np.where(k == last, self.high, np.minimum(points, self.high))
        return float(points) if k.ndim == 0 else points

    def _divides_exactly(self) -> bool:
        """Whether float64 holds all multiples of the bounds that ``point`` needs."""
        low, high = Fraction(self.low), Fraction(self.high)
        unit = max(low.denominator, high.denominator)
        return (abs(low) + abs(high)) * unit * (self.cells - 1) < 2**53


# --- Parameters


def check_quantiles(qs: Any, most: float = math.inf) -> list[Fraction]:
    """Return increasing quantiles as exact numbers."""
    exact = [
        Fraction(check_real(q, "qs", low=0, high=1, closed="both"))
        for q in np.atleast_1d(np.asarray(qs, dtype=np.float64)).ravel().tolist()
    ]
    increasing = all(a < b for a, b in pairwise(exact))
    if not (exact and increasing and len(exact) <= most):
        raise ValueError(
            f"The 'qs' parameter must be 1 to {most} strictly increasing numbers. "
            f"Got {qs!r}."
        )
    return exact


def distance_rate(
    epsilon: float, sensitivity: Fraction, least: float, slack: float
) -> float:
    """Return the factor of the distance in the exponent of a weight."""
    epsilon = check_real(epsilon, "epsilon", low=least, closed="left")
    return (min(epsilon, _MOST_EPSILON) - slack) / (2 * float(sensitivity))


def _single_sensitivity(q: Fraction, neighboring: Neighboring) -> Fraction:
    """Return half the width of the range that the changes of all utilities have."""
    if q in (0, 1):  # all utilities change in the same direction, by 1 at most
        return Fraction(1, 2)
    return Fraction(1) if neighboring == "replace" else max(q, 1 - q)


def _single_rate(q: Fraction, epsilon: float, neighboring: Neighboring) -> float:
    sensitivity = _single_sensitivity(q, check_neighboring(neighboring))
    return distance_rate(epsilon, sensitivity, _LEAST_EPSILON, _SLACK)


def split(number: Fraction) -> tuple[int, float]:
    """Return the integer part, exact, and the rest, within 2**-54."""
    whole = math.floor(number)
    return whole, float(number - whole)


def _levels(m: int) -> int:
    """Return the depth of the balanced tree of m quantiles, ceil(log2(m + 1))."""
    return m.bit_length()


def equal_share(epsilon: float, parts: int) -> float:
    """Return the largest float of which ``parts`` together do not exceed epsilon."""
    epsilon = check_epsilon(epsilon)
    share = epsilon / parts
    while Fraction(share) * parts > Fraction(epsilon):
        share = math.nextafter(share, 0.0)
    return share


# --- One quantile


def _segments(window: np.ndarray, start: int, first: int, last: int) -> tuple:
    """Return (begin, count, below, upto) of the runs of points with equal ranks.

    ``window`` holds the sorted cells of rows number start, start + 1, ... among points
    first, ..., last. Of a point in a run, ``below`` rows lie in smaller cells and
    ``upto`` in smaller cells or its own.
    """
    starts = np.flatnonzero(np.diff(window, prepend=first - 1))
    points = window[starts]
    edges = start + np.append(starts, window.size)
    ends = edges[1:] if points.size else edges[:0]
    gap_ranks = np.concatenate(([start], ends))
    begin = np.concatenate(([first], points + 1))
    counts = np.append(points, last + 1) - begin
    return (
        np.concatenate((begin, points)),
        np.concatenate((counts, np.ones_like(points))),
        np.concatenate((gap_ranks, edges[: points.size])),
        np.concatenate((gap_ranks, ends)),
    )


def _weights(
    count: np.ndarray,
    below: np.ndarray,
    upto: np.ndarray,
    target: tuple[int, float],
    rate: float,
) -> np.ndarray:
    """Return the weight of every run, exp(-rate * distance to the target rank)."""
    whole, rest = target
    distance = np.maximum((below - whole) - rest, (whole - upto) + rest)
    return count * np.exp(-np.clip(distance * rate, 0.0, _CAP))


def _reach(n: int, whole: int, rate: float) -> tuple[int, int]:
    """Return the first row that matters and the one after the last."""
    reach = math.ceil(_CAP / rate) + 1
    return max(whole - reach, 0), min(whole + 1 + reach, n)


def _choose(
    window: np.ndarray,
    start: int,
    ends: tuple[int, int],
    target: tuple[int, float],
    rate: float,
    bits: RandomBits,
) -> int:
    """Return the number of the chosen grid point between ``ends``."""
    begin, count, below, upto = _segments(window, start, *ends)
    run = categorical(_weights(count, below, upto, target, rate), bits)
    return int(begin[run]) + uniform_integers(int(count[run]), None, bits)


def _middle(values: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return rows start, ..., stop - 1 in sorted order, without sorting the others."""
    if start > 0:
        values = np.partition(values, start)[start:]
    else:
        values = values.copy()
    if 0 < stop - start < values.size:
        values.partition(stop - start - 1)
    window = values[: stop - start]
    window.sort()
    return window


def release_quantile(
    values: np.ndarray,
    q: float,
    grid: Grid,
    epsilon: float,
    neighboring: Neighboring,
    bits: RandomBits,
) -> float:
    """Return a grid point near the quantile ``q`` of values without NaN.

    The exponential mechanism over all grid points: the utility of a point is minus the
    distance of q n to the ranks that the point has. Costs :func:`single_event`.
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    exact = Fraction(check_real(q, "q", low=0, high=1, closed="both"))
    rate = _single_rate(exact, epsilon, neighboring)
    target = split(exact * values.size)
    start, stop = _reach(values.size, target[0], rate)
    window = grid.cell(_middle(values, start, stop))
    ends = (0, grid.cells - 1)
    return grid.point(_choose(window, start, ends, target, rate, as_bits(bits)))


def single_event(epsilon: float, neighboring: Neighboring) -> events.BoundedRange:
    """Return the price of :func:`release_quantile`; refuses an epsilon too small."""
    check_real(epsilon, "epsilon", low=_LEAST_EPSILON, closed="left")
    return events.BoundedRange(epsilon, neighboring)


def rank_error(
    epsilon: float,
    q: float,
    grid: Grid,
    neighboring: Neighboring,
    confidence: float = 0.95,
) -> float:
    """Return a public bound of the released point's distance from rank q n.

    It holds with the given confidence, whatever the data.
    """
    exact = Fraction(check_real(q, "q", low=0, high=1, closed="both"))
    rate = _single_rate(exact, epsilon, neighboring)
    return math.log(grid.cells / (1 - check_confidence(confidence))) / rate


# --- Several quantiles in turn


def release_recursive(
    values: np.ndarray,
    qs: Sequence[float],
    grid: Grid,
    epsilon: float,
    neighboring: Neighboring,
    bits: RandomBits,
) -> np.ndarray:
    """Return a grid point near each of the increasing quantiles ``qs``.

    The middle quantile first, then those on either side from the rows and the points
    on that side. Costs :func:`recursive_event`. Many equal rows all go to one side:
    quantiles next to a large tie are less accurate than :func:`release_joint`'s.
    """
    exact, bits = check_quantiles(qs), as_bits(bits)
    factor = 2 if check_neighboring(neighboring) == "replace" else 1
    share = equal_share(epsilon, factor * _levels(len(exact)))
    rows = grid.cell(np.sort(np.asarray(values, dtype=np.float64).ravel()))
    chosen = np.empty(len(exact), dtype=np.int64)

    def release(part: slice, low: int, high: int, q_low: Any, q_high: Any) -> None:
        """Fill ``chosen[part]`` from the rows in cells low + 1, ..., high."""
        if part.start == part.stop:
            return
        middle = (part.start + part.stop) // 2
        q = (exact[middle] - q_low) / (q_high - q_low)
        rate = _single_rate(q, share, "add_remove")
        inside = slice(*np.searchsorted(rows, (low, high), side="right"))
        target = split(q * int(inside.stop - inside.start))
        start, stop = _reach(rows[inside].size, target[0], rate)
        ends = (max(low, 0), high)
        point = _choose(rows[inside][start:stop], start, ends, target, rate, bits)
        chosen[middle] = point
        release(slice(part.start, middle), low, point, q_low, exact[middle])
        release(slice(middle + 1, part.stop), point, high, exact[middle], q_high)

    release(slice(0, len(exact)), -1, grid.cells - 1, Fraction(0), Fraction(1))
    return grid.point(chosen)


def recursive_event(
    m: int, epsilon: float, neighboring: Neighboring
) -> events.Composed:
    """Return the price of :func:`release_recursive` for ``m`` quantiles."""
    levels = _levels(check_integer(m, "m", low=1))
    factor = 2 if check_neighboring(neighboring) == "replace" else 1
    single_event(equal_share(epsilon, factor * levels), neighboring)  # large enough
    part = events.BoundedRange(equal_share(epsilon, levels), neighboring)
    return events.Composed([part], [levels])
