"""Rows of bounded L2 norm, dense or sparse, for certain: rounding included."""

from typing import Any

import numpy as np
from scipy import sparse

from skdp.erm.rows import row_norms

__all__ = ["box_norm", "clip_rows"]

_UNIT = 2.0**-53
_HUGE = 1e100  # rows this long are made shorter first, without rounding
_SHORTER = 2.0**-700


def _times(X: Any, factor: np.ndarray) -> Any:
    """Return the rows times their factors, of the type and dtype of X."""
    if not sparse.issparse(X):
        return (X * factor[:, None]).astype(X.dtype, copy=False)
    found = X.copy()
    found.data = (X.data * np.repeat(factor, np.diff(X.indptr))).astype(X.dtype)
    return found


def clip_rows(X: Any, norm: float) -> Any:
    """Return X with the rows that are longer than ``norm`` scaled back.

    The norm of a returned row, in exact arithmetic, is at most ``norm``. Rows at the
    limit are made shorter by the rounding error of their norm.

    Parameters
    ----------
    X : ndarray or CSR of float64 or float32
        The rows; not changed.
    norm : float
        Between 1e-30 and 1e30.
    """
    # Relative: of a sum of squares and its root, and of the product below.
    error = (X.shape[1] + 16) * _UNIT
    norms = row_norms(X)
    huge = ~(norms < _HUGE)
    if huge.any():
        X = _times(X, np.where(huge, _SHORTER, 1.0))
        norms = row_norms(X)
    longer = (norms > norm * (1 - error)) | huge
    if not longer.any():
        return X
    target = norm * (1 - 4 * error - 2 * float(np.finfo(X.dtype).eps))
    factor = np.ones(len(norms))
    np.divide(target, norms, out=factor, where=longer)
    return _times(X, factor)


def box_norm(low: Any, high: Any, n_features: int) -> float:
    """Return the norm of the farthest corner of a box, rounded up."""
    far = np.broadcast_to(np.maximum(np.abs(low), np.abs(high)), n_features)
    return float(np.linalg.norm(far)) * (1 + (n_features + 16) * _UNIT)
