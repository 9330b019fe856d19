"""Sums over clipped values: in one pass, by blocks, with bounded rounding errors.

A value x of a feature becomes ``t = (x - low)/(high - low)`` in [0, 1], clipped.
Released are Bernstein sums: for degree k the sums over the rows of the polynomials
``C(k, i) t^i (1-t)^(k-i)``, which are not negative and add up to one. So a row adds a
vector of L1 and L2 norm at most one for each feature, and two rows differ by at most 2
and sqrt(2) (docs, theory of statistics).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.erm.rows import rounding

__all__ = [
    "Sums",
    "as_table",
    "bernstein",
    "bernstein_sensitivities",
    "read_bernstein",
    "sum_error",
    "table_sums",
    "total_sensitivities",
]

_SAFE = 1 + 1e-14  # above the rounding of one row's own numbers
_BLOCK = 2**16  # values of a block, and most of its rows: half a megabyte
_NEAR = 8.0  # bounds within so many widths of zero: values are added as they are


@dataclass(frozen=True)
class Sums:
    """Sums over the valid values of every feature, in terms of t.

    Parameters
    ----------
    count : ndarray of shape (n_features,)
        Numbers of valid values.
    first, second : ndarray of shape (n_features,)
        Sums of t and of its square; ``second`` is None for degree 1.
    """

    count: np.ndarray
    first: np.ndarray
    second: np.ndarray | None


def _step(n_features: int) -> int:
    """Return the rows of a block."""
    return max(256, _BLOCK // n_features)


def sum_error(n_features: int, n_rows: float) -> float:
    """Return by how much Bernstein sums on two tables can be off together, a feature.

    In L1, and so in L2, for values in [0, 1]. On one table: values that are added as
    they are reach 8 widths and count in two sums; the sums of degree 2 combine errors
    of values below one with 8 at most. Two tables make twice as much.
    """
    step = _step(n_features)
    return 2 * 17 * rounding(step + n_rows / step + 16) * n_rows


def table_sums(
    X: np.ndarray, low: np.ndarray, high: np.ndarray, degree: int, missing: bool
) -> Sums:
    """Return the sums over a table, clipped to the bounds.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Numbers of any kind; NaN where ``missing``.
    low, high : ndarray of shape (n_features,)
        Bounds.
    degree : {1, 2}
        Whether squares are summed too.
    missing : bool
        Whether NaN may come and is left out.
    """
    n_rows, n_features = X.shape
    width = high - low
    first, second = np.zeros(n_features), np.zeros(n_features)
    count = np.full(n_features, n_rows, dtype=np.int64)
    near = degree == 1 and np.max(np.maximum(-low, high) / width) <= _NEAR
    step = min(_step(n_features), n_rows)
    buffer, every = np.empty((step, n_features)), np.ones(step)
    for start in range(0, n_rows, step):
        block = X[start : start + step]
        t, ones = buffer[: len(block)], every[: len(block)]
        np.clip(block, low, high, out=t)
        if missing:
            gone = np.isnan(t)
            count -= gone.sum(axis=0)
            t[gone] = np.broadcast_to(low, t.shape)[gone]
        if not near:
            t -= low
            t /= width
        first += ones @ t
        if degree == 2:
            np.multiply(t, t, out=t)
            second += ones @ t
    if near:
        first = (first - n_rows * low) / width
    return Sums(count, first, second if degree == 2 else None)


def bernstein(sums: Sums) -> np.ndarray:
    """Return the Bernstein sums, of shape (degree + 1, n_features)."""
    if sums.second is None:
        return np.stack([sums.count - sums.first, sums.first])
    inner = sums.first - sums.second
    return np.stack([sums.count - 2 * sums.first + sums.second, 2 * inner, sums.second])


def bernstein_sensitivities(
    n_features: int, n_rows: float, neighboring: str
) -> tuple[float, float]:
    """Return the L1 and L2 sensitivities of all Bernstein sums, rounding included."""
    rows = 2.0 if neighboring == "replace" else 1.0
    error = sum_error(n_features, n_rows)
    root = math.sqrt(n_features)
    return (
        n_features * (rows * _SAFE + error),
        root * (math.sqrt(rows) * _SAFE + error),
    )


def total_sensitivities(
    n_features: int, n_rows: float, magnitude: float = 1.0
) -> tuple[float, float]:
    """Return the L1 and L2 sensitivities of sums that one change moves by at most one.

    ``magnitude`` is the largest size of a summed value, for the rounding errors.
    """
    size = _SAFE + magnitude * sum_error(n_features, n_rows)
    return n_features * size, math.sqrt(n_features) * size


def read_bernstein(noisy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return count, mean and (for degree 2) variance of t from noisy Bernstein sums.

    Also the factor by which each is noisier than one of the sums.
    """
    count = np.maximum(noisy.sum(axis=0), 1.0)
    degree = len(noisy) - 1
    share = noisy / count
    i = np.arange(degree + 1)[:, None]
    mean = np.clip((i / degree * share).sum(axis=0), 0, 1)
    mean_gain = np.sqrt(np.sum((i / degree - mean) ** 2, axis=0)) / count
    if degree == 1:
        return count, mean, mean_gain
    square = np.clip(share[2], 0, 1)
    variance = np.clip(square - mean**2, 0, 0.25)
    unit = (i == 2) - square - 2 * mean * (i / 2 - mean)
    gain = np.sqrt(np.sum(unit**2, axis=0)) / count
    return count, mean, mean_gain, variance, gain


def as_table(x: Any) -> np.ndarray:
    """Return a 1-D array as a table with one column; its values are not in messages."""
    x = np.asarray(x)
    if x.ndim != 1:
        raise ValueError(
            f"The 'x' parameter must be one-dimensional. Got {x.ndim} dimensions; use "
            "the estimator for tables."
        )
    return x.reshape(-1, 1)
