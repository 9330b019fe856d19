"""Data as scikit-learn validates it, with messages that quote none of it."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from skdp.validation import check_bounds, check_real

__all__ = ["as_floats", "feature_bounds", "validated"]

_LARGEST = 1e100  # of bounds: their squares are still floats


def validated(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Validate as scikit-learn does, without values in the messages.

    ``options`` are those of ``validate_data``; CSR and floats if they do not say.
    """
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], **options}
    try:
        found = validate_data(estimator, X, y, **options)
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


def feature_bounds(
    bounds: Any, n_features: int, name: str = "bounds"
) -> tuple[np.ndarray, np.ndarray]:
    """Return public lower and upper bounds of every feature.

    Parameters
    ----------
    bounds : pair of numbers, or of arrays with one value for each feature
        As the user gave them.
    n_features : int
        Number of features.
    name : str, default="bounds"
        The parameter, for messages.
    """
    try:
        low, high = bounds
        low, high = (np.atleast_1d(np.asarray(v)) for v in (low, high))
        low, high = (np.broadcast_to(v, n_features).tolist() for v in (low, high))
    except (TypeError, ValueError):
        raise ValueError(
            f"The {name!r} parameter must be a pair (low, high) of numbers, or of "
            f"arrays with one value for each of {n_features} feature(s). "
            f"Got {bounds!r}."
        ) from None
    for pair in zip(low, high, strict=True):
        check_bounds(pair, name)
        check_real(max(map(abs, pair)), f"{name} (largest size)", high=_LARGEST)
    return np.array(low, dtype=float), np.array(high, dtype=float)
