"""Data as scikit-learn validates it, with messages that quote none of it."""

import contextlib
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from skdp.validation import check_bounds

__all__ = [
    "as_floats",
    "as_rows",
    "canonical",
    "feature_bounds",
    "validated",
    "without_values",
]

_LARGEST = 1e100  # of bounds: their squares are still floats
_NARROW = 1e-13  # smallest width of bounds, in terms of their size


def validated(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Validate as scikit-learn does, without values in the messages.

    ``options`` are those of ``validate_data``; CSR and floats if they do not say.
    """
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], **options}
    _refuse_dates(X)
    message = None
    try:
        with np.errstate(all="ignore"):  # whether sums overflow is private
            found = validate_data(estimator, X, y, **options)
    except ValueError as error:
        message = without_values(str(error))
    if message is not None:  # here, so that the exception has no context with data
        raise ValueError(message)
    if isinstance(found, tuple):
        return canonical(found[0]), *found[1:]
    return canonical(found)


def _refuse_dates(X: Any) -> None:
    """Refuse dates and durations, which numpy would take for numbers of its own."""
    kinds = getattr(X, "dtypes", None)  # of the columns of a frame
    if kinds is None:
        if isinstance(X, (list, tuple)):
            try:
                X = np.asarray(X)
            except ValueError:  # rows of different lengths, for validate_data to refuse
                return
        kinds = [getattr(X, "dtype", None)]
    if any(getattr(kind, "kind", "") in ("m", "M") for kind in kinds):
        raise ValueError(
            "X must hold numbers. Got dates or durations: convert them to numbers "
            "first, by a public rule."
        )


def without_values(message: str) -> str:
    """Return a message of scikit-learn or numpy without the data that it quotes."""
    if "contains NaN" in message and "Input X" in message:
        return (
            "Input X contains NaN. Use missing='drop' where the estimator has it, or "
            "DPSimpleImputer before it. Rows that you leave out yourself tell how many "
            "have missing values."
        )
    if "could not convert" in message or "bytes/strings" in message:
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


def as_rows(X: Any, width: int, **options: Any) -> Any:
    """Return a fresh array of transformed rows, for ``inverse_transform``.

    ``options`` are those of ``check_array``; ``width`` is the number of columns.
    """
    options = {"dtype": [np.float64, np.float32], "copy": True, **options}
    message = None
    try:
        with np.errstate(all="ignore"):
            X = check_array(X, **options)
    except ValueError as error:
        message = without_values(str(error))
    if message is not None:
        raise ValueError(message)
    if X.shape[1] != width:
        raise ValueError(f"X must have {width} column(s) here. Got {X.shape[1]}.")
    return X


def as_floats(y: np.ndarray) -> np.ndarray:
    """Return targets as float64; errors do not quote them."""
    with contextlib.suppress(TypeError, ValueError):
        return y.astype(np.float64)
    # Here, so that the exception has no context with a target in it.
    raise ValueError("The targets 'y' must be numbers.")


def canonical(X: Any) -> Any:
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
        if max(map(abs, pair)) >= _LARGEST:
            raise ValueError(
                f"The {name!r} parameter must lie within +-1e100, so that squares are "
                f"floats. Got {bounds!r}."
            )
        if pair[1] - pair[0] <= max(_NARROW * max(map(abs, pair)), 1 / _LARGEST):
            raise ValueError(
                f"The {name!r} parameter must be wider, for float64 to tell values "
                f"between them apart. Got {bounds!r}."
            )
    return np.array(low, dtype=float), np.array(high, dtype=float)
