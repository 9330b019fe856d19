"""Categories: text and numbers, each read by itself.

What a value counts as must not depend on other rows. (numpy turns [1, "a"] into text,
so that one person's text would change everybody's number.) Numbers are read as floats,
text as text; None, NaN and the like are missing.
"""

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp.inputs import validated

__all__ = [
    "as_categories",
    "as_objects",
    "check_categories",
    "column_counts",
    "encoded",
    "is_missing",
    "validate_cells",
]

_MISSING = ("NAType", "NaTType")  # of pandas, which need not be installed


def as_objects(X: Any) -> Any:
    """Return a list as an array that keeps the types of its values; else X."""
    if not isinstance(X, (list, tuple)):
        return X
    try:
        return np.asarray(X, dtype=object)
    except ValueError:
        raise ValueError("The rows must all have the same length.") from None


def validate_cells(estimator: BaseEstimator, X: Any, **options: Any) -> np.ndarray:
    """Return a table of text and numbers; lists keep the types of their values."""
    options = {"accept_sparse": False, "ensure_all_finite": "allow-nan", **options}
    X = validated(estimator, as_objects(X), dtype=None, **options)
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
        try:
            number = float(value) + 0.0  # -0.0 is 0.0, and not one person's sign
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        return number if number == number else None
    raise TypeError(
        "Each category argument must be a string or a real number. Got a value of "
        f"type {type(value).__name__}."
    )


def _distinct(column: np.ndarray) -> tuple[list, np.ndarray]:
    """Return the values of a column, each once, and where each row's is."""
    if column.dtype != object:
        kind = np.str_ if column.dtype.kind == "U" else np.float64
        column = column.astype(kind)
        if kind is np.float64:
            column += 0.0  # -0.0 is 0.0
        values, place = np.unique(column, return_inverse=True)
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


def encoded(
    column: np.ndarray, categories: Iterable, other: int = -1, missing: int = -1
) -> np.ndarray:
    """Return the number of each row's category.

    ``other`` is for values that are none of them, ``missing`` for missing ones.
    """
    table = {_read(value): i for i, value in enumerate(categories)}
    values, place = _distinct(column)
    codes = [missing if one is None else table.get(one, other) for one in values]
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


def _read_list(values: Any) -> list | None:
    """Return a public list of categories, each as it is read; None if it is wrong."""
    if isinstance(values, str):
        return None
    try:
        read = [_read(value) for value in values]
    except TypeError:
        return None
    odd = not read or len(set(read)) < len(read)
    return None if odd or not {None, math.inf, -math.inf}.isdisjoint(read) else read


def _as_array(values: Any) -> np.ndarray:
    """Return a public list as an array; with text in it one of objects."""
    values = list(values)
    if not any(isinstance(value, str) for value in values):
        return np.array(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def check_categories(
    categories: Any, n_features: int | None = None, *, none: bool = False
) -> list:
    """Return the public categories of every feature, in the given order.

    ``none`` allows None in place of a list: a feature without categories.
    """
    given = None
    if not isinstance(categories, str) and hasattr(categories, "__iter__"):
        given = list(categories)
    good = given is not None and n_features in (None, len(given))
    for values in given or ():
        good = good and ((none and values is None) or _read_list(values) is not None)
    if not good:
        many = "feature" if n_features is None else f"of {n_features} feature(s)"
        raise ValueError(
            f"The 'categories' parameter must be a list with, for each {many}, "
            f"{'None or ' if none else ''}a list of different texts or finite numbers. "
            f"Got {categories!r}."
        )
    return [None if values is None else _as_array(values) for values in given]
