"""Data as scikit-learn validates it, with messages that quote none of it."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

__all__ = ["as_floats", "validated"]


def validated(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Validate as scikit-learn does, without values in the messages."""
    try:
        found = validate_data(
            estimator,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            **options,
        )
    except ValueError as error:
        raise ValueError(_without_values(str(error))) from None
    return (_canonical(found[0]), *found[1:]) if isinstance(found, tuple) else found


def _without_values(message: str) -> str:
    """Return a message of scikit-learn or numpy without the data that it quotes."""
    if "could not convert" in message:
        return (
            "The data could not be converted to float: it holds text. Encode "
            "categories with public categories first."
        )
    if "Complex data not supported" in message:
        return "Complex data not supported."
    start, quoted, _ = message.partition("array=")
    if quoted:
        return f"{start.rstrip()} Reshape your data: one row for each sample."
    return message


def as_floats(y: np.ndarray) -> np.ndarray:
    """Return targets as float64; errors do not quote them."""
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("The targets 'y' must be numbers.") from None


def _canonical(X: Any) -> Any:
    """Return a sparse matrix with each entry once; the caller's own is not changed."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
