"""Rows of norm at most one, as ridge regression needs them, never stored.

Gram matrix, cross moments and scores are computed block by block from the user's rows:
centring and scaling are applied around the products.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skdp.erm.rows import SparseRows, slices

__all__ = [
    "SAFE",
    "MappedRows",
    "UnitMap",
    "clip_rows",
    "tame",
    "tamed_rows",
]

_HUGE = 1e20  # in units of at most 1e50: the fourth power is still a float
SAFE = 1 + 1e-9  # above the rounding errors of norms


def tame(X: Any, unit: float) -> Any:
    """Return sparse X with values of at most 1e20 units, a copy where some are larger.

    Dense rows are tamed block by block, by ``tamed_rows``.
    """
    limit = _HUGE * unit
    if not sparse.issparse(X) or np.max(np.abs(X.data), initial=0) <= limit:
        return X
    X = X.astype(np.float64)
    np.clip(X.data, -limit, limit, out=X.data)
    return X


def tamed_rows(X: np.ndarray, unit: float) -> np.ndarray:
    """Return dense rows with values of at most 1e20 units.

    Each value by itself: neither other rows nor the place in a block matter, not even
    by a rounding error. The sum of squares only tells whether there is anything to do,
    and half of the limit leaves room for its own rounding.
    """
    limit, values = _HUGE * unit, X.ravel(order="K")
    with np.errstate(over="ignore"):
        if np.dot(values, values) <= limit**2 / 2:
            return X
    return np.clip(X, -limit, limit)


def clip_rows(rows: np.ndarray) -> np.ndarray:
    """Scale rows that are longer than one back to that length, in place."""
    if rows.shape[1] == 1:
        return np.clip(rows, -1, 1, out=rows)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * SAFE
    rows /= np.maximum(norms, 1)[:, None]
    return rows


@dataclass(frozen=True)
class UnitMap:
    """From the user's rows to rows of norm at most one; all of it public or released.

    A row becomes ``v = (x - center) * scale`` and a constant. ``weighted`` rows are
    divided by their norm, but by no less than ``floor``, constant and target included:
    weighted least squares. Others are clipped, constant left out, to norm ``limit``.
    """

    center: np.ndarray
    scale: np.ndarray
    constant: float | None
    weighted: bool
    floor: float = 0.25
    limit: float = 1.0

    @property
    def shift(self) -> np.ndarray:
        """The centre, scaled."""
        return self.center * self.scale

    @property
    def magnitude(self) -> float:
        """Bound of the terms that products add up, where a row has norm one."""
        return 1 + 2 * float(np.linalg.norm(self.shift)) / self.floor

    def factors(self, squares: np.ndarray) -> np.ndarray:
        """Return what each row is multiplied with, from its squared norm."""
        if self.weighted:
            norms = np.sqrt(squares + (self.constant or 0.0) ** 2)
            return 1 / (np.maximum(norms, self.floor) * SAFE)
        return self.limit / np.maximum(np.sqrt(squares) * SAFE, self.limit)

    def rows(self, X: Any, unit: float) -> "MappedRows":
        """Return the mapped rows; ``unit`` says which values are huge."""
        return MappedRows(self, X, unit)

    def to_user(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercept for the user's rows."""
        d = self.scale.size
        constant = 0.0 if self.constant is None else self.constant * w[d]
        return w[:d] * self.scale[:, None], constant - self.shift @ w[:d]


class MappedRows:
    """Rows under a map, never stored: ``weight * (factor * v, constant)``.

    Parameters
    ----------
    mapped : UnitMap
        The map.
    X : ndarray or CSR matrix
        The user's rows.
    unit : float
        Their unit.

    Attributes
    ----------
    magnitude : float
        Bound of the terms that ``gather`` and ``scores`` add up, for a norm of one.
    gram_magnitude : float
        The same for ``products``.
    scales : ndarray of shape (width,) or None
        What the columns of ``products`` are still to be multiplied with.
    """

    def __init__(self, mapped: UnitMap, X: Any, unit: float) -> None:
        self.map, self.X, self.magnitude = mapped, X, mapped.magnitude
        self.shape = X.shape[0], X.shape[1] + (mapped.constant is not None)
        self.sparse = sparse.issparse(X)
        self.gram_magnitude = self.magnitude**2 if self.sparse else 1.0
        self.scales = None
        if not self.sparse:
            constant = [] if mapped.constant is None else [mapped.constant]
            self.scales = np.append(mapped.scale, constant)
        self.factors = np.ones(X.shape[0])
        self._unit = unit
        self._tamed: dict[int, np.ndarray] = {}
        self._buffers, self._centers = np.empty((2, 0)), np.empty(0)

    def parts(self) -> Any:
        """Yield slices of rows."""
        return slices(self.shape[0], 8 if self.sparse else self.shape[1])

    def weights(self, part: slice) -> np.ndarray | float:
        """Return what targets are multiplied with; known after ``products``."""
        return self.factors[part, None] if self.map.weighted else 1.0

    def products(
        self, part: slice, y: np.ndarray, gram: np.ndarray, cross: np.ndarray
    ) -> np.ndarray:
        """Add to Gram matrix and cross moments, not scaled; return the targets used."""
        return (self._sparse if self.sparse else self._dense)(part, y, gram, cross)

    def _dense(
        self, part: slice, y: np.ndarray, gram: np.ndarray, cross: np.ndarray
    ) -> np.ndarray:
        mapped = self.map
        raw = self.X[part].astype(np.float64, copy=False)
        X = tamed_rows(raw, self._unit)
        if X is not raw:
            self._tamed[part.start] = X
        if self._buffers.shape[1] < X.size:
            self._buffers = np.empty((2, X.size))
        X, squares = self._squares(X)
        factors = self.factors[part] = mapped.factors(squares)
        if mapped.weighted or factors.min(initial=1) < 1:
            X = np.multiply(X, factors[:, None], out=self._buffer(0, X.shape))
        used = clip_rows(self.weights(part) * y)
        width = X.shape[1]
        gram[:width, :width] += X.T @ X
        cross[:width] += X.T @ used
        if mapped.constant is not None:
            ones = factors if mapped.weighted else np.ones(len(factors))
            edge = X.T @ ones
            gram[width, :width] += edge
            gram[:width, width] += edge
            gram[width, width] += ones @ ones
            cross[width] += ones @ used
        return used

    def _buffer(self, number: int, shape: tuple[int, int]) -> np.ndarray:
        return self._buffers[number, : shape[0] * shape[1]].reshape(shape)

    def _squares(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the centred rows, not scaled, and their squared norms, scaled."""
        if self.map.weighted:
            X = self._centered(X)
        squares = np.multiply(X, X, out=self._buffer(1, X.shape))
        return X, squares @ self.map.scale**2

    def _centered(self, X: np.ndarray) -> np.ndarray:
        """Return X - center; as one long vector where possible, which is faster."""
        out = self._buffer(0, X.shape)
        if not X.flags.c_contiguous:
            return np.subtract(X, self.map.center, out=out)
        if self._centers.size < X.size:
            self._centers = np.tile(self.map.center, len(X))
        np.subtract(X.ravel(), self._centers[: X.size], out=out.ravel())
        return out

    def _sparse(
        self, part: slice, y: np.ndarray, gram: np.ndarray, cross: np.ndarray
    ) -> np.ndarray:
        mapped, X = self.map, self.X[part].astype(np.float64)
        shift, scale = mapped.shift, mapped.scale
        squares = X.multiply(X) @ scale**2 + float(shift @ shift)
        # An upper bound of |x * scale - shift|^2, tight to rounding errors.
        slack = 4 * (X.shape[1] + 4) * 2.0**-53 * squares
        squares -= 2 * (X @ (scale * shift))
        factors = mapped.factors(np.maximum(squares, 0) + slack)
        self.factors[part] = factors
        used = clip_rows(self.weights(part) * y)
        inner, outer = np.ones(len(factors)), factors
        if mapped.weighted:
            inner, outer = outer**2, inner
        rows = SparseRows(X, outer, scale, shift, mapped.constant, 1.0, 1.0)
        gram += rows.gram(slice(0, len(factors)), inner)
        cross += self.gather(part, used)
        return used

    def _block(self, part: slice) -> Any:
        """Return some of the user's rows, huge ones tamed; after ``products``."""
        return self._tamed.get(part.start, self.X[part])

    def gather(self, part: slice, values: np.ndarray) -> np.ndarray:
        """Return the sum of rows times values."""
        used = self.factors[part, None] * values
        total = np.asarray(self._block(part).T @ used) * self.map.scale[:, None]
        total -= np.outer(self.map.shift, used.sum(axis=0))
        if self.map.constant is None:
            return total
        edge = (used if self.map.weighted else values).sum(axis=0)
        return np.vstack([total, self.map.constant * edge])

    def scores(self, part: slice, w: np.ndarray) -> np.ndarray:
        """Return rows times w."""
        width, constant = self.X.shape[1], self.map.constant
        scores = np.asarray(self._block(part) @ (w[:width] * self.map.scale[:, None]))
        scores -= self.map.shift @ w[:width]
        if not self.map.weighted:
            scores *= self.factors[part, None]
        if constant is not None:
            scores += constant * w[width]
        return scores * self.weights(part)
