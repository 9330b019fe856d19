"""Several private quantiles of one column at once: JointExp.

One exponential mechanism over non-decreasing tuples of points of a public grid. Weights
are float64 with a small relative error, which a slack pays for; the choice among them
is exact. The proofs are in the theory section of the documentation.

References
----------
Gillenwater, Joseph and Kulesza (2021). Differentially private quantiles.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from skdp import events
from skdp.noise import RandomBits, as_bits, categorical, uniform_integers
from skdp.stats._quantile_core import Grid, check_quantiles, distance_rate, split
from skdp.validation import Neighboring, check_integer, check_neighboring, check_real

__all__ = [
    "LEAST_EPSILON",
    "MOST_CELLS",
    "MOST_QUANTILES",
    "joint_event",
    "release_joint",
]

_JOINT_CAP = 118.0  # of each of the m + 1 exponents of a tuple's weight
_JOINT_SLACK = 1e-9
LEAST_EPSILON = 1e-3
MOST_QUANTILES = 9
MOST_CELLS = 2**24
_FINE_POINTS = 2**32
_START = 2.0**720  # keeps all weights between 2**-985 and 2**992
_FLOOR = math.exp(-_JOINT_CAP)
_BLOCK = 64


def _proximity(ranks: Any, target: tuple[int, float], rate: float) -> Any:
    """Return exp(-rate * distance of a number of rows to its target) + _FLOOR."""
    return np.exp(-rate * np.abs((ranks - target[0]) - target[1])) + _FLOOR


def _prefix_sums(x: np.ndarray) -> np.ndarray:
    """Return cumulative sums in blocks, of a relative error below 2**-44."""
    if x.size <= _BLOCK:
        return np.cumsum(x)
    blocks = np.zeros(-(-x.size // _BLOCK) * _BLOCK)
    blocks[: x.size] = x
    sums = np.cumsum(blocks.reshape(-1, _BLOCK), axis=1)
    sums[1:] += _prefix_sums(sums[:-1, -1])[:, None]
    return sums.ravel()[: x.size]


def _decayed_sums(x: np.ndarray, rate: float, length: int) -> np.ndarray:
    """Return sum_t exp(-rate t) x[i + t] over t < length, by doubling.

    Terms that are tiny beside _FLOOR are left out.
    """
    length = min(length, x.size, int((_JOINT_CAP + 60) / rate) + 1)
    power, total, done, span = x.copy(), np.zeros_like(x), 0, 1
    while span <= length:
        if length & span:
            total[: x.size - done] += math.exp(-rate * done) * power[done:]
            done += span
        if 2 * span <= length:
            power[:-span] += math.exp(-rate * span) * power[span:]
        span *= 2
    return total


def _step(mass: np.ndarray, target: tuple[int, float], rate: float) -> np.ndarray:
    """Return sum over i' < i of mass[i'] * _proximity(i - i')."""
    whole, rest = target
    out = np.zeros_like(mass)
    out[1:] = _FLOOR * _prefix_sums(mass[:-1])
    beyond = _decayed_sums(mass[::-1], rate, mass.size)[::-1]
    out[whole + 1 :] += (
        math.exp(-rate * (1 - rest)) * beyond[: max(mass.size - whole - 1, 0)]
    )
    padded = np.concatenate((np.zeros(whole), mass))
    within = _decayed_sums(padded, rate, whole)[: mass.size]
    return out + math.exp(-rate * rest) * within


def _forward(
    counts: np.ndarray, targets: list[tuple[int, float]], rate: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the weights of all tuples by their last rank (sum-product).

    ``masses[j][i]`` sums over quantiles 0, ..., j with number j the last at rank i, and
    ``heads[j][i]`` with number j the first at rank i, up to how many points it has; it
    is multiplied by the proximities of those that could follow at the same rank.
    """
    heads, masses = [], []
    ranks = np.arange(counts.size)
    for j, target in enumerate(targets[:-1]):
        for head in heads:
            head *= _proximity(0, target, rate)
        heads.append(
            _step(masses[-1], target, rate)
            if masses
            else _START * _proximity(ranks, target, rate)
        )
        many, mass = np.ones(counts.size), np.zeros(counts.size)
        for r in range(1, j + 2):
            many *= (counts + (r - 1)) / r  # non-decreasing r-tuples of points
            mass += many * heads[j + 1 - r]
        masses.append(mass)
    return heads, masses


def _group_weights(count: int, heads: list[np.ndarray], rank: int) -> np.ndarray:
    """Return the weights of 1, 2, ... quantiles at ``rank``, the last of them given."""
    many, weights = 1.0, []
    for r in range(1, len(heads) + 1):
        many *= (count + (r - 1)) / r
        weights.append(many * heads[len(heads) - r][rank])
    return np.array(weights)


def _multiset(count: int, size: int, bits: RandomBits) -> list[int]:
    """Return a uniform non-decreasing tuple of numbers below ``count``."""
    drawn: set[int] = set()
    while len(drawn) < size:
        drawn.add(uniform_integers(count + size - 1, None, bits))
    return [value - i for i, value in enumerate(sorted(drawn))]


def _fine_points(
    rows: np.ndarray,
    points: int,
    targets: list[tuple[int, float]],
    rate: float,
    bits: RandomBits,
) -> list[int]:
    """Return a tuple of points, drawn in proportion to its weight; rows are sorted."""
    begin = np.concatenate(([0], rows))
    counts = np.append(rows, points) - begin
    heads, masses = _forward(counts.astype(np.float64), targets, rate)
    chosen: list[int] = []
    j, i = len(heads), rows.size + 1
    while j > 0:
        steps = (i if chosen else rows.size) - np.arange(i)
        i = categorical(masses[j - 1][:i] * _proximity(steps, targets[j], rate), bits)
        r = categorical(_group_weights(int(counts[i]), heads[:j], i), bits) + 1
        group = _multiset(int(counts[i]), r, bits)
        chosen = [int(begin[i]) + k for k in group] + chosen
        j -= r
    return chosen


def _joint_plan(
    qs: Any, n: int, epsilon: float, neighboring: Neighboring
) -> tuple[list[tuple[int, float]], float]:
    """Return how many rows should lie between the quantiles, and the rate."""
    exact = [Fraction(0), *check_quantiles(qs, MOST_QUANTILES), Fraction(1)]
    parts = [b - a for a, b in pairwise(exact)]
    replace = check_neighboring(neighboring) == "replace"
    sensitivity = 2 * (1 if replace else 1 - min(parts))
    rate = distance_rate(epsilon, sensitivity, LEAST_EPSILON, _JOINT_SLACK)
    return [split(n * part) for part in parts], rate


def release_joint(
    values: np.ndarray,
    qs: Sequence[float],
    grid: Grid,
    epsilon: float,
    neighboring: Neighboring,
    bits: RandomBits,
) -> np.ndarray:
    """Return a grid point near each of up to 9 increasing quantiles ``qs``.

    One exponential mechanism over all non-decreasing tuples of points: the utility of
    a tuple is minus how far the numbers of rows between its points are from what they
    should be. Every row is first moved by a random fraction of its cell, which breaks
    ties. Costs :func:`joint_event`.
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    targets, rate = _joint_plan(qs, values.size, epsilon, neighboring)
    check_integer(grid.cells, "cells", low=2, high=MOST_CELLS)
    bits = as_bits(bits)
    fine = _FINE_POINTS // grid.cells
    rows = grid.cell(values) * fine + uniform_integers(fine, values.size, bits)
    rows.sort()
    points = _fine_points(rows, grid.cells * fine, targets, rate, bits)
    return grid.point(np.array(points) // fine)


def joint_event(epsilon: float, neighboring: Neighboring) -> events.Pure:
    """Return the price of :func:`release_joint`; refuses an epsilon too small.

    The random move of the rows keeps epsilon but not the range of the privacy loss.
    """
    check_real(epsilon, "epsilon", low=LEAST_EPSILON, closed="left")
    return events.Pure(epsilon, neighboring)
