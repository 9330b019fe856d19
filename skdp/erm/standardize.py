"""Private centring and scaling: a look at the moments, and the map that follows.

Raw rows waste their norm, and with it the budget, on means and on units. The look
releases noisy sums over all rows; everything made of them is post-processing.

Each row x contributes ``(u, u (1/unit - u), x not in {0, 1}, 1)``, ``u = x / unit``,
scaled to norm ``sqrt(0.96)``, and 0.2 to a count. The second part vanishes for 0/1
columns, which therefore cost nothing twice; the third tells them from the others.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdp.erm.rows import DenseRows, Rows, SparseRows, row_norms, slices

__all__ = [
    "Moments",
    "RowMap",
    "column_variances",
    "look_size",
    "look_sums",
    "moments_map",
    "plain_map",
    "read_moments",
]

# Recipes: chosen on the data sets named in docs/linear_models.rst; they change accuracy
# only, never the guarantee.
_FLOOR = 1e-4  # smallest variance, in squared units
_DOUBT = 2.0  # standard errors below which a mean counts as noise
_NUMERIC = 2.25  # standard errors above 0 at which a column counts as numeric
_INTERCEPT = 1 / 3  # the constant column, in terms of the norm of the others

_COUNT = 0.2  # a row's contribution to the count
_HUGE = 1e70  # in units: beyond, sums of squares of squares would overflow
_TAILS = 12.0  # standard deviations above a noisy count that bound the true one
# Largest factors by which normalising stretches a row. Around a centre a short row is
# a difference of large numbers, whose rounding errors are stretched with it; without
# one only an underflow of its norm must be kept out.
_STRETCH, _PLAIN_STRETCH = 10.0, 1e6
_SAFE = 1 + 1e-9  # above the rounding errors of norms


class Moments(NamedTuple):
    """What a look at the rows found, noise included."""

    mean: np.ndarray
    variance: np.ndarray
    error: float
    count: float
    count_bound: float
    binary: np.ndarray


def look_size(n_features: int) -> int:
    """Return the number of sums that a look releases."""
    return 3 * n_features + 2


def _contributions(X: Any, unit: float) -> tuple[Any, Any, Any]:
    """Return the three parts of every row, as dense or sparse as the rows."""
    if sparse.issparse(X):
        parts = [X.astype(np.float64) for _ in range(3)]
        for part, values in zip(parts, _values(parts[0].data, unit), strict=True):
            part.data = values
        return tuple(parts)
    return _values(np.asarray(X, dtype=np.float64), unit)


def _values(x: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    u = np.clip(x, -_HUGE * unit, _HUGE * unit) / unit
    return u, u * (1 / unit - u), ((x != 0) & (x != 1)).astype(np.float64)


def _row_sums(parts: tuple, order: int) -> np.ndarray:
    total = 1.0
    for part in parts:
        if sparse.issparse(part):
            powers = abs(part) if order == 1 else part.multiply(part)
            total = total + np.ravel(powers.sum(axis=1))
        elif order == 1:
            total = total + np.abs(part).sum(axis=1)
        else:
            total = total + np.einsum("ij,ij->i", part, part)
    return total


def look_sums(X: Any, unit: float, order: int = 2) -> np.ndarray:
    """Return the sums of a look; a row contributes a vector of norm at most one.

    ``order`` is 2 for the L2 norm, and 1 for the L1 norm, as Laplace noise needs it.
    """
    n_rows, width = X.shape
    total = np.zeros(look_size(width))
    share = 1 - _COUNT if order == 1 else math.sqrt(1 - _COUNT**2)
    for rows in slices(n_rows, 8 if sparse.issparse(X) else width):
        parts = _contributions(X[rows], unit)
        size = _row_sums(parts, order)
        weights = share / (size if order == 1 else np.sqrt(size)) / _SAFE
        sums = [np.ravel(part.T @ weights) for part in parts]
        total += np.concatenate(
            [*sums, [weights.sum()], [_COUNT * (rows.stop - rows.start)]]
        )
    return total


def read_moments(sums: np.ndarray, std: float, unit: float) -> Moments:
    """Return the moments that noisy sums tell.

    Parameters
    ----------
    sums : ndarray
        Noisy sums of a look.
    std : float
        Standard deviation of the noise on each of them.
    unit : float
        Unit of the rows.
    """
    width = (sums.size - 2) // 3
    first, second, numeric = sums[: 3 * width].reshape(3, width)
    weight = max(float(sums[-2]), std)
    error = std / weight
    count = max(float(sums[-1]), std) / _COUNT
    mean = np.clip(first / weight, -_HUGE, _HUGE)
    # Shrunk where it may be noise (James and Stein): a wrong centre wastes norm.
    least = _DOUBT * error
    mean *= 1 - (least / np.maximum(np.abs(mean), least)) ** 2
    square = mean / unit - second / weight
    binary = numeric < _NUMERIC * std
    share = np.clip(mean * unit, 0, 1)
    variance = np.where(binary, share * (1 - share) / unit**2, square - mean**2)
    return Moments(
        unit * mean,
        unit**2 * np.maximum(variance, 0),
        error,
        count,
        (max(float(sums[-1]), 0.0) + _TAILS * std) / _COUNT + 1,
        binary,
    )


@dataclass(frozen=True)
class RowMap:
    """From the user's rows to rows of bounded norm.

    ``z = (x - center) * scale`` is clipped to norm ``radius`` (or always scaled to it,
    for ``normalize``), multiplied with ``norm / radius``, and gets a constant column.

    Parameters
    ----------
    center, scale : ndarray of shape (n_features,)
        Public, or released.
    radius : float
        Where rows are clipped.
    norm : float
        Bound of the norm without the constant column.
    intercept : float or None
        The constant column.
    normalize : bool
        Whether shorter rows are stretched to the radius.
    stretch : float
        The largest factor by which they are.
    """

    center: np.ndarray
    scale: np.ndarray
    radius: float
    norm: float
    intercept: float | None
    normalize: bool = False
    stretch: float = _STRETCH

    @property
    def bound(self) -> float:
        """Bound of the norm of a row, constant column included."""
        return math.hypot(self.norm, self.intercept or 0.0) * _SAFE

    def _factors(self, norms: np.ndarray) -> np.ndarray:
        shortest = self.radius / self.stretch if self.normalize else self.radius
        return self.norm / np.maximum(norms, shortest)

    @property
    def _largest_factor(self) -> float:
        return self.norm / self.radius * (self.stretch if self.normalize else 1.0)

    def with_magnitude(self, limit: float) -> "RowMap":
        """Return the map with a centre so near that sparse rows keep to a magnitude."""
        length = float(np.linalg.norm(self.scale * self.center))
        room = (limit - self.bound) / (2 * self._largest_factor)
        if length <= room:
            return self
        return replace(self, center=self.center * (room / length / _SAFE))

    def rows(self, X: Any) -> Rows:
        """Return bounded rows for training."""
        if sparse.issparse(X):
            return self._sparse(X)
        n_rows, width = X.shape
        Z = np.empty((n_rows, width + (self.intercept is not None)))
        for part in slices(n_rows, width):
            inner = Z[part, :width]
            np.subtract(X[part], self.center, out=inner)
            with np.errstate(over="ignore"):
                inner *= self.scale
                norms = np.sqrt(np.einsum("ij,ij->i", inner, inner))
            # Each value by itself: a row must not change another one, and its own norm
            # is rounded otherwise at another place. Nothing to do for smaller norms.
            if not np.max(norms, initial=0) <= _HUGE / 2:
                np.clip(inner, -_HUGE, _HUGE, out=inner)
                norms = np.sqrt(np.einsum("ij,ij->i", inner, inner))
            inner *= self._factors(norms)[:, None]
        if self.intercept is not None:
            Z[:, width] = self.intercept
        return DenseRows(Z, self.bound)

    def _sparse(self, X: Any) -> Rows:
        X = X.astype(np.float64, copy=False)
        limit = _HUGE / max(1.0, float(np.max(self.scale, initial=0.0)))
        if X.nnz and np.max(np.abs(X.data)) > limit:
            X = X.copy()
            np.clip(X.data, -limit, limit, out=X.data)
        center = self.scale * self.center
        norms = self._sparse_norms(X, center)
        factors = self._factors(norms)
        return SparseRows(
            X,
            factors,
            self.scale,
            center,
            self.intercept,
            self.bound,
            self._largest_factor,
            np.hypot(factors * norms, self.intercept or 0.0),
        )

    def _sparse_norms(self, X: Any, center: np.ndarray) -> np.ndarray:
        """Return upper bounds of |x * scale - center|, tight to rounding errors."""
        if not np.any(center) and np.all(self.scale == 1):
            return row_norms(X)
        norms = np.empty(X.shape[0])
        constant, mixed = float(center @ center), self.scale * center
        for part in slices(X.shape[0], 8):
            block = X[part]
            total = block.multiply(block) @ self.scale**2 + constant
            slack = 4 * (X.shape[1] + 4) * 2.0**-53 * total
            squares = np.maximum(total - 2 * (block @ mixed), 0) + slack
            norms[part] = np.sqrt(squares)
        return norms

    def scores(self, X: Any, w: np.ndarray) -> np.ndarray:
        """Return the mapped rows times w."""
        rows = self.rows(X)
        scores = np.empty((X.shape[0],) + w.shape[1:])
        for part in rows.parts():
            scores[part] = rows.scores(part, w)
        return scores

    def to_user(self, w: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return coefficients and intercept in the user's units."""
        width = self.scale.size
        scale = self.scale * (self.norm / self.radius)
        coefficients = w[:width] * (scale if w.ndim == 1 else scale[:, None])
        shift = self.center @ coefficients
        constant = 0.0 if self.intercept is None else self.intercept * w[width]
        return coefficients, constant - shift


def _parts(fit_intercept: bool, intercept_scaling: float) -> tuple[float, float | None]:
    """Share a norm of one between the columns and the constant."""
    if not fit_intercept:
        return 1.0, None
    ratio = intercept_scaling * _INTERCEPT
    norm = 1 / math.hypot(1, ratio)
    return norm, ratio * norm


def plain_map(
    n_features: int, data_norm: float, intercept: float | None, normalize: bool
) -> RowMap:
    """Return the map that only clips rows to a public norm."""
    return RowMap(
        np.zeros(n_features),
        np.ones(n_features),
        data_norm,
        data_norm,
        intercept,
        normalize,
        _PLAIN_STRETCH,
    )


def _typical_variances(moments: Moments, unit: float) -> np.ndarray:
    """Return variances with their noise; rows of one unit where there is only noise."""
    doubt = min(moments.error, 1 / max(moments.mean.size, 1))
    return moments.variance + doubt * unit**2


def moments_map(
    moments: Moments,
    unit: float,
    fit_intercept: bool,
    intercept_scaling: float,
    normalize: bool,
    reach: float = 1.0,
    power: float = 0.25,
) -> RowMap:
    """Return the map that centres and scales by released moments.

    Rows are clipped at ``reach`` root-mean-square norms. Columns of 0 and 1 are divided
    by their variance to the ``power``, others by their standard deviation.
    """
    spread = moments.variance + (_FLOOR + moments.error) * unit**2
    mild = (spread / unit**2) ** -power
    scale = np.where(moments.binary, mild, 1 / np.sqrt(spread))
    typical = _typical_variances(moments, unit)
    radius = reach * math.sqrt(float(np.sum(scale**2 * typical)))
    norm, intercept = _parts(fit_intercept, intercept_scaling)
    return RowMap(moments.mean, scale, radius, norm, intercept, normalize)


def column_variances(moments: Moments, rows: RowMap, unit: float) -> np.ndarray:
    """Return the variance of each column of the mapped rows, constant included."""
    typical = _typical_variances(moments, unit)
    inner = typical * (rows.scale * rows.norm / rows.radius) ** 2
    return inner if rows.intercept is None else np.append(inner, rows.intercept**2)
