"""Categories: text and numbers, each read by itself.

What a value counts as must not depend on other rows. (numpy turns [1, "a"] into text,
so that one person's text would change everybody's number.) Numbers are read as floats,
text as text; None, NaN and the like are missing.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp.inputs import validated

__all__ = [
    "Cells",
    "as_categories",
    "check_categories",
    "column_counts",
    "encoded",
    "is_missing",
    "validate_cells",
]

_MISSING = ("NAType", "NaTType")  # of pandas, which need not be installed


@dataclass(frozen=True)
class Cells:
    """A validated table of text and numbers."""

    X: np.ndarray

    def arrays(self) -> tuple[Any]:
        """Return what tells one data set from another."""
        return (self.X if self.X.dtype != object else repr(self.X.tolist()),)


def validate_cells(estimator: BaseEstimator, X: Any, **options: Any) -> np.ndarray:
    """Return a table of text and numbers; lists keep the types of their values."""
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X, dtype=object)
        except ValueError:
            raise ValueError("The rows must all have the same length.") from None
    options = {"accept_sparse": False, "ensure_all_finite": "allow-nan", **options}
    X = validated(estimator, X, dtype=None, **options)
    if X.dtype.kind not in "biufUO":
        raise ValueError(
            "Categories must be text or numbers. Got an array of dtype "
            f"{X.dtype.type.__name__}."
        )
    return X


def _read(value: Any) -> Any:
    """Return a value as text or float; None where it is missing."""
    if isinstance(value, str):
        return str(value)
    if value is None or type(value).__name__ in _MISSING:
        return None
    if isinstance(value, (Real, np.bool_)):
        number = float(value)
        return number if number == number else None
    raise TypeError(
        "Each category argument must be a string or a real number. Got a value of "
        f"type {type(value).__name__}."
    )


def _distinct(column: np.ndarray) -> tuple[list, np.ndarray]:
    """Return the values of a column, each once, and where each row's is."""
    if column.dtype != object:
        kind = np.str_ if column.dtype.kind == "U" else np.float64
        values, place = np.unique(column.astype(kind), return_inverse=True)
        return [_read(value) for value in values.tolist()], place
    places: dict[Any, int] = {}
    found = [places.setdefault(_read(value), len(places)) for value in column]
    return list(places), np.array(found, dtype=np.int64)


def column_counts(column: np.ndarray) -> dict[Any, int]:
    """Return how often each value that is not missing occurs."""
    values, place = _distinct(column)
    counts = np.bincount(place, minlength=len(values)).tolist()
    pairs = zip(values, counts, strict=True)
    return {value: count for value, count in pairs if value is not None}


def encoded(column: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Return the number of each row's category; -1 where it is none of them."""
    table = {_read(value): i for i, value in enumerate(categories.tolist())}
    values, place = _distinct(column)
    codes = [-1 if value is None else table.get(value, -1) for value in values]
    return np.array(codes, dtype=np.int64)[place]


def is_missing(X: np.ndarray) -> np.ndarray:
    """Return where values are missing."""
    if X.dtype.kind == "f":
        return np.isnan(X)
    if X.dtype != object:
        return np.zeros(X.shape, dtype=bool)
    missing = [_read(value) is None for value in X.ravel()]
    return np.array(missing, dtype=bool).reshape(X.shape)


def as_categories(values: list) -> np.ndarray:
    """Return values in a fixed order, as an array of the simplest type.

    Numbers come first; whole numbers are integers.
    """
    values = sorted(values, key=lambda value: (isinstance(value, str), value))
    if any(isinstance(value, str) for value in values):
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    numbers = np.array(values, dtype=np.float64)
    whole = np.all(np.abs(numbers) < 2**53) and np.all(numbers == np.rint(numbers))
    return numbers.astype(np.int64) if whole and numbers.size else numbers


def check_categories(categories: Any, n_features: int | None = None) -> list:
    """Return the public categories of every feature, in the given order."""
    try:
        given = [list(values) for values in categories]
        wrong = any(isinstance(values, str) for values in categories)
        read = [[_read(value) for value in values] for values in given]
    except TypeError:
        wrong = True
    if not wrong:
        wrong = any(
            not values or None in values or len(set(values)) < len(values)
            for values in read
        )
    if wrong or n_features not in (None, len(read)):
        many = "each" if n_features is None else f"each of {n_features}"
        raise ValueError(
            f"The 'categories' parameter must be a list with, for {many} feature(s), "
            "a list of different texts or numbers; missing values are none. "
            f"Got {categories!r}."
        )
    found = []
    for values in given:
        text = any(isinstance(value, str) for value in values)
        array = np.empty(len(values), dtype=object)
        array[:] = values
        found.append(array if text else np.array(values))
    return found
