"""Sums over the clipped values of a sparse table, without its zeros being stored."""

from typing import Any

import numpy as np

from skdp.stats import _sums
from skdp.stats._sums import Sums

__all__ = ["sparse_sums"]


def sparse_sums(
    X: Any, low: np.ndarray, high: np.ndarray, degree: int, missing: bool
) -> Sums:
    """Return what :func:`skdp.stats._sums.table_sums` does, for a CSR table.

    Rows are taken in the same blocks, so that the chains of roundings are no longer:
    a block's stored values are added up one after the other, the zeros are counted.
    """
    n_rows, n_features = X.shape
    width = high - low
    zero = np.clip(-low / width, 0, 1)
    first, second = np.zeros(n_features), np.zeros(n_features)
    count = np.full(n_features, n_rows, dtype=np.int64)
    step = _sums._step(n_features)
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        part = slice(X.indptr[start], X.indptr[stop])
        column = X.indices[part]
        t = np.clip(X.data[part].astype(np.float64), low[column], high[column])
        if missing:
            gone = np.isnan(t)
            count -= np.bincount(column[gone], minlength=n_features)
            t[gone] = low[column[gone]]
        t -= low[column]
        t /= width[column]
        zeros = (stop - start) - np.bincount(column, minlength=n_features)
        first += np.bincount(column, t, n_features) + zeros * zero
        if degree == 2:
            second += np.bincount(column, t * t, n_features) + zeros * zero**2
    return Sums(count, first, second if degree == 2 else None)
