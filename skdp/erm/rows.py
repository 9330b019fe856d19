"""The rows that a solver sees: of bounded norm, dense or sparse, in blocks.

A block is small enough for the cache, and its sums are short enough that their
rounding errors have a useful bound. Sparse rows are never made dense: centring and
clipping are applied around the product with the sparse matrix.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from scipy import sparse

__all__ = [
    "BLOCK",
    "DenseRows",
    "Rows",
    "SparseRows",
    "rounding",
    "row_norms",
    "slices",
]

BLOCK = 2**14  # most rows of a block
_ENTRIES = 2**17  # of a dense block: one megabyte
_UNIT = 2.0**-53


def rounding(terms: float) -> float:
    """Return the relative error bound of a float64 sum of so many products."""
    share = (terms + 2) * _UNIT
    return share / (1 - share)


def slices(n_rows: int, width: int) -> Iterator[slice]:
    """Yield slices of at most ``BLOCK`` rows that fit the cache."""
    step = int(min(BLOCK, max(256, 2 * width, _ENTRIES // max(width, 1))))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_norms(X: Any) -> np.ndarray:
    """Return the L2 norm of every row, without overflow, as float64."""
    n_rows, width = X.shape
    norms = np.empty(n_rows)
    for part in slices(n_rows, width):
        if sparse.issparse(X):
            block = X[part].astype(np.float64)
            largest = np.ravel(abs(block).max(axis=1).toarray())
            safe = np.where(largest > 0, largest, 1.0)
            block.data /= np.repeat(safe, np.diff(block.indptr))
            squares = np.ravel(block.multiply(block).sum(axis=1))
        else:
            block = np.asarray(X[part], dtype=np.float64)
            with np.errstate(over="ignore", under="ignore"):
                squares = np.einsum("ij,ij->i", block, block)
            norms[part] = np.sqrt(squares)
            hard = ~((squares > 1e-200) & (squares < 1e200))  # row by row
            if hard.any():
                largest = np.max(np.abs(block[hard]), axis=1, initial=0.0)
                safe = np.where(largest > 0, largest, 1.0)
                scaled = block[hard] / safe[:, None]
                norms[part][hard] = safe * np.linalg.norm(scaled, axis=1)
            continue
        norms[part] = safe * np.sqrt(squares)
    return norms


class Rows(Protocol):
    """What solvers and perturbations need of rows: see :class:`DenseRows`."""

    shape: tuple[int, int]
    magnitude: float

    def parts(self) -> Iterator[slice]:
        """Yield the slices of the blocks."""

    def scores(self, part: slice, w: np.ndarray) -> np.ndarray:
        """Return the block times w."""

    def gather(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the block's rows."""

    def gram(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """Return the weighted second-moment matrix of the block."""

    def take(self, index: np.ndarray) -> "Rows":
        """Return some of the rows."""

    def norms(self, part: slice) -> np.ndarray:
        """Return the norms of the block's rows."""


class DenseRows:
    """A float64 array.

    Parameters
    ----------
    Z : ndarray of shape (n_rows, width)
        The rows, with the intercept column.
    norm : float
        Bound of their norms.

    Attributes
    ----------
    magnitude : float
        ``magnitude * |w|`` bounds the sum of absolute terms that a score adds up.
    """

    def __init__(self, Z: np.ndarray, norm: float) -> None:
        self.Z, self.shape, self.magnitude = Z, Z.shape, norm

    def parts(self) -> Iterator[slice]:
        """Yield the slices of the blocks."""
        return slices(*self.shape)

    def scores(self, part: slice, w: np.ndarray) -> np.ndarray:
        """Return the block times w."""
        return self.Z[part] @ w

    def gather(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the block's rows."""
        return self.Z[part].T @ weights

    def gram(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """Return the weighted second-moment matrix of the block."""
        block = self.Z[part]
        root = block * np.sqrt(weights)[:, None]
        return root.T @ root

    def take(self, index: np.ndarray) -> "DenseRows":
        """Return some of the rows."""
        return DenseRows(self.Z[index], self.magnitude)

    def norms(self, part: slice) -> np.ndarray:
        """Return the norms of the block's rows."""
        block = self.Z[part]
        return np.sqrt(np.einsum("ij,ij->i", block, block))


class SparseRows:
    """``factor * (x * scale - center)`` and a constant, for the rows x of a CSR matrix.

    Parameters
    ----------
    X : CSR matrix or array
        The raw rows.
    factor : ndarray of shape (n_rows,)
        What clipping multiplies each row with.
    scale, center : ndarray of shape (n_features,)
        Public, or released.
    intercept : float or None
        The constant column; None for no such column.
    norm : float
        Bound of the norms of the transformed rows.
    largest : float
        Bound of ``factor``.
    lengths : ndarray of shape (n_rows,), default=None
        Norms of the transformed rows, or a little above; None for ``norm``.
    """

    def __init__(
        self,
        X: Any,
        factor: np.ndarray,
        scale: np.ndarray,
        center: np.ndarray,
        intercept: float | None,
        norm: float,
        largest: float,
        lengths: np.ndarray | None = None,
    ) -> None:
        self.X, self.factor, self.scale, self.center = X, factor, scale, center
        self._bounds = norm, largest
        self.intercept = intercept
        self.shape = (X.shape[0], X.shape[1] + (intercept is not None))
        # |factor (x * scale)| <= norm + factor |center|, and the centre comes on top.
        self.magnitude = norm + 2 * largest * float(np.linalg.norm(center))
        self._lengths = np.full(X.shape[0], norm) if lengths is None else lengths
        self._blocks = {}
        for part in self.parts():
            self._blocks[part.start] = _view(X, part)

    def parts(self) -> Iterator[slice]:
        """Yield the slices of the blocks."""
        return slices(self.shape[0], 8)

    def scores(self, part: slice, w: np.ndarray) -> np.ndarray:
        """Return the block times w."""
        inner = w[: self.X.shape[1]]
        factor = _column(self.factor[part], w)
        scores = self._blocks[part.start] @ (_column(self.scale, w) * inner)
        scores = factor * (scores - self.center @ inner)
        return scores if self.intercept is None else scores + self.intercept * w[-1]

    def gather(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the block's rows."""
        used = _column(self.factor[part], weights) * weights
        total = _column(self.scale, weights) * (self._blocks[part.start].T @ used)
        total -= np.multiply.outer(self.center, used.sum(axis=0))
        if self.intercept is None:
            return total
        return np.concatenate([total, [self.intercept * weights.sum(axis=0)]])

    def gram(self, part: slice, weights: np.ndarray) -> np.ndarray:
        """Return the weighted second-moment matrix of the block."""
        block = self._blocks[part.start]
        used = weights * self.factor[part] ** 2
        weighted = sparse.csr_matrix(block.multiply(used[:, None]))
        matrix = (block.T @ weighted).toarray() * np.outer(self.scale, self.scale)
        mixed = np.outer(self.scale * (block.T @ used), self.center)
        matrix += used.sum() * np.outer(self.center, self.center) - mixed - mixed.T
        if self.intercept is None:
            return matrix
        edge = weights * self.factor[part]
        edge = self.scale * (block.T @ edge) - edge.sum() * self.center
        total = np.empty((self.shape[1],) * 2)
        total[:-1, :-1] = matrix
        total[-1, :-1] = total[:-1, -1] = self.intercept * edge
        total[-1, -1] = self.intercept**2 * weights.sum()
        return total

    def take(self, index: np.ndarray) -> "SparseRows":
        """Return some of the rows."""
        return SparseRows(
            self.X[index],
            self.factor[index],
            self.scale,
            self.center,
            self.intercept,
            *self._bounds,
            self._lengths[index],
        )

    def norms(self, part: slice) -> np.ndarray:
        """Return the norms of the block's rows."""
        return self._lengths[part]


def _view(X: Any, part: slice) -> Any:
    """Return some rows of a CSR matrix, without copying them."""
    low, high = X.indptr[part.start], X.indptr[part.stop]
    indptr = X.indptr[part.start : part.stop + 1] - low
    shape = (part.stop - part.start, X.shape[1])
    data = (X.data[low:high], X.indices[low:high], indptr)
    return sparse.csr_matrix(data, shape=shape, copy=False)


def _column(vector: np.ndarray, like: np.ndarray) -> np.ndarray:
    return vector if like.ndim == 1 else vector[:, None]
