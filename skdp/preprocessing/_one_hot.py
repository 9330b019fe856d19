"""Codes as indicator columns, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["codes_of", "indicators"]


def indicators(codes: np.ndarray, sizes: Sequence[int]) -> Any:
    """Return a CSR matrix with a column for every code of every feature.

    Parameters
    ----------
    codes : int array of shape (n_rows, n_features)
        Numbers below the size of their feature; -1 for none.
    sizes : sequence of int
        Number of codes of each feature.
    """
    starts = np.concatenate(([0], np.cumsum(sizes)))
    known = codes >= 0
    indices = (codes + starts[:-1])[known]
    indptr = np.concatenate(([0], np.cumsum(known.sum(axis=1))))
    shape = (len(codes), int(starts[-1]))
    return sparse.csr_matrix((np.ones(indices.size), indices, indptr), shape=shape)


def codes_of(X: Any, sizes: Sequence[int]) -> np.ndarray:
    """Return the codes of indicator columns: the largest, -1 where none is positive."""
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    codes = np.full((len(dense), len(sizes)), -1, dtype=np.int64)
    start = 0
    for j, size in enumerate(sizes):
        part = dense[:, start : start + size]
        start += size
        if size:
            codes[:, j] = np.where(part.max(axis=1) > 0, part.argmax(axis=1), -1)
    return codes
