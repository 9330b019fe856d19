"""The smooth sensitivity of the median."""

import math
from typing import Any

import numpy as np

from skdp.validation import check_bounds, check_float_values, check_real


def median_rank(n_samples: int) -> int:
    """Return the 1-based rank of the lower median, ceil(n/2)."""
    return (n_samples + 1) // 2


def _rising(values: np.ndarray) -> np.ndarray:
    """Return the indices at which a new maximum is reached."""
    best = np.maximum.accumulate(values)
    return np.flatnonzero(np.r_[True, values[1:] > best[:-1]])


def _best_lines(heights: np.ndarray, slopes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return max_b heights[b] + slopes[b] * at[a] for each a.

    ``at`` rises and ``slopes`` falls, so that the best b falls as a rises: each level
    halves the distance between solved positions and scans only what lies between the
    answers of their neighbours.
    """
    n, last = at.size, heights.size - 1
    best = np.full(n, -np.inf)
    answer = np.empty(n + 2, dtype=np.int64)
    answer[0], answer[n + 1] = last, 0  # sentinels at positions -1 and n
    stride = 1 << max(n.bit_length(), 1)
    while stride > 1:
        half = stride // 2
        middle = np.arange(half, n + 1, stride)  # positions + 1
        from_ = answer[np.minimum(middle + half, n + 1)]
        to = answer[middle - half]
        length = to - from_ + 1
        start = np.r_[0, np.cumsum(length)[:-1]]
        lines = np.arange(length.sum()) - np.repeat(start - from_, length)
        owner = np.repeat(np.arange(middle.size), length)
        values = heights[lines] + slopes[lines] * at[middle - 1][owner]
        top = np.maximum.reduceat(values, start)
        best[middle - 1] = top
        hits = np.flatnonzero(values == top[owner])
        answer[middle[owner[hits]]] = lines[hits]
        stride = half
    return best


def smooth_sensitivity_median(
    x: Any, beta: float, bounds: tuple[float, float]
) -> float:
    """Return the beta-smooth sensitivity of the median under "replace".

    The median is the order statistic of rank ceil(n/2), not the mean of the middle two
    (whose local sensitivity this does not bound). The result is private data: hand it
    to :class:`SmoothSensitivity`, never publish it.

    Parameters
    ----------
    x : array of float
        The data, clipped to ``bounds`` here.
    beta : float
        Smoothness > 0; take it from ``SmoothSensitivity.beta``.
    bounds : tuple of float
        Public (low, high).

    Returns
    -------
    float
        max over k of exp(-beta k) times the largest local sensitivity at distance k.

    References
    ----------
    Nissim, Raskhodnikova and Smith (2007). Smooth sensitivity and sampling in private
    data analysis.

    Examples
    --------
    >>> from skdp.mechanisms import smooth_sensitivity_median
    >>> smooth_sensitivity_median([0.0, 0.0, 0.0, 8.0], beta=1.0, bounds=(0.0, 8.0))
    2.943...
    """
    beta = min(check_real(beta, "beta", low=0), 600.0)  # smoother where exp overflows
    low, high = check_bounds(bounds)
    values = np.sort(np.clip(check_float_values(x, "x").ravel(), low, high))
    rank = median_rank(values.size)
    middle = values[rank - 1]
    # down[a] and up[b]: distances from the median to the a-th and b-th value beside it,
    # where the bounds follow the last one.
    down = middle - np.r_[values[rank - 1 :: -1], low]
    up = np.r_[values[rank - 1 :], high] - middle
    # max over a, b with a + b >= 1 of exp(-beta (a + b - 1)) (down[a] + up[b])
    known = max(_alone(down, beta), _alone(up, beta), 1e-300)
    farthest = max(0.0, math.log(high - low) - math.log(known)) / beta
    reach = math.ceil(min(values.size, 1 + farthest)) + 1
    down, up = down[: reach + 1], up[: reach + 1]
    weight_down = np.exp(-beta * np.arange(down.size))
    weight_up = np.exp(-beta * np.arange(up.size))
    keep_up, keep_down = _rising(weight_up * up), _rising(weight_down * down)
    best = _best_lines((weight_up * up)[keep_up], weight_up[keep_up], down[keep_down])
    return float(max(known, math.exp(beta) * np.max(best * weight_down[keep_down])))


def _alone(distance: np.ndarray, beta: float) -> float:
    """Return the maximum over the pairs that have the median as one end."""
    k = np.arange(distance.size - 1)
    return float(np.max(np.exp(-beta * k) * distance[1:]))
