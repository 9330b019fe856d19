"""Checks of arguments, with scikit-learn's manner of error message.

Every check returns the value in its canonical type, or raises a ``TypeError``
(wrong kind of thing) or ``ValueError`` (right kind, not acceptable) that names the
parameter, what was given and what would be accepted. Messages about data describe its
type and shape only: its values are private.
"""

import math
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

__all__ = [
    "Neighboring",
    "check_bool",
    "check_bounds",
    "check_confidence",
    "check_delta",
    "check_epsilon",
    "check_float_values",
    "check_integer",
    "check_integer_values",
    "check_neighboring",
    "check_option",
    "check_real",
    "set_fields",
]

Neighboring = Literal["replace", "add_remove"]

_MAX_EXACT_INTEGER = 2**53
_MAX_INTEGER = 2**62


def check_real(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    closed: str = "neither",
    none: bool = False,
) -> float | None:
    """Return ``value`` as a float inside the range, or raise.

    ``closed`` is one of "neither", "left", "right" and "both". NaN and infinities
    are never inside. With ``none``, None is accepted too.
    """
    if none and value is None:
        return None
    left = "[" if closed in ("left", "both") else "("
    right = "]" if closed in ("right", "both") else ")"
    wanted = f"a real number in the range {left}{low:g}, {high:g}{right}"
    wanted += ", or None" if none else ""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(
            f"The {name!r} parameter must be {wanted}. "
            f"Got {value!r} of type {type(value).__name__} instead."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    above = number >= low if left == "[" else number > low
    below = number <= high if right == "]" else number < high
    if not (math.isfinite(number) and above and below):
        raise ValueError(f"The {name!r} parameter must be {wanted}. Got {value!r}.")
    return number


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return a finite epsilon > 0."""
    return check_real(value, name, low=0)


def check_delta(value: Any, name: str = "delta", *, positive: bool = False) -> float:
    """Return a delta in [0, 1), or in (0, 1) where a mechanism needs ``positive``."""
    return check_real(
        value, name, low=0, high=1, closed="neither" if positive else "left"
    )


def check_confidence(value: Any) -> float:
    """Return a confidence level in (0, 1)."""
    return check_real(value, "confidence", low=0, high=1)


def check_integer(value: Any, name: str, *, low: int, high: float = math.inf) -> int:
    """Return ``value`` as an int in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(
            f"The {name!r} parameter must be an int >= {low}. "
            f"Got {value!r} of type {type(value).__name__} instead."
        )
    if not low <= value <= high:
        raise ValueError(
            f"The {name!r} parameter must be an int in the range [{low}, {high}]. "
            f"Got {value!r}."
        )
    return int(value)


def check_option(
    value: Any, name: str, options: tuple[str, ...], *, none: bool = False
) -> str | None:
    """Return ``value`` when it is one of ``options``, or None where that is allowed."""
    if none and value is None:
        return None
    if not isinstance(value, str) or value not in options:
        wanted = f"one of {options}" + (" or None" if none else "")
        raise ValueError(f"The {name!r} parameter must be {wanted}. Got {value!r}.")
    return value


def check_bool(value: Any, name: str) -> bool:
    """Return ``value`` when it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(
            f"The {name!r} parameter must be True or False. "
            f"Got {value!r} of type {type(value).__name__} instead."
        )
    return bool(value)


def check_neighboring(value: Any) -> Neighboring:
    """Return the neighbour relation, "replace" or "add_remove"."""
    return check_option(value, "neighboring", ("replace", "add_remove"))


def check_bounds(value: Any, name: str = "bounds") -> tuple[float, float]:
    """Return public scalar bounds (low, high) with low < high and a finite width."""
    try:
        low, high = value
    except (TypeError, ValueError):
        raise TypeError(
            f"The {name!r} parameter must be a pair (low, high). Got {value!r}."
        ) from None
    low, high = check_real(low, f"{name}[0]"), check_real(high, f"{name}[1]")
    if not low < high or not math.isfinite(high - low):
        raise ValueError(
            f"The {name!r} parameter must be a pair (low, high) with low < high and a "
            f"finite width. Got {value!r}."
        )
    return low, high


def _as_array(value: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"The {name!r} parameter must be a real number or an array of them. "
            f"Got {type(value).__name__} with dtype {array.dtype.type.__name__}."
        )
    if array.size == 0:
        raise ValueError(f"The {name!r} parameter must not be empty.")
    return array


def check_float_values(value: Any, name: str = "value") -> np.ndarray:
    """Return a non-empty float64 array, exactly equal to what was given."""
    array = _as_array(value, name)
    if array.dtype.kind in "iu":
        limit = _MAX_EXACT_INTEGER
        if array.dtype.itemsize == 8 and ((array > limit) | (array < -limit)).any():
            raise ValueError(
                f"The {name!r} parameter holds integers beyond 2**53, which float64 "
                "cannot hold exactly; use a discrete mechanism for them."
            )
    elif array.dtype.itemsize > 8:
        raise TypeError(f"The {name!r} parameter must fit float64. Got {array.dtype}.")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"The {name!r} parameter contains NaN or infinity.")
    return array


def check_integer_values(value: Any, name: str = "value") -> np.ndarray:
    """Return a non-empty int64 array of integers within +-2**62."""
    try:
        array = _as_array(value, name)
    except TypeError:
        if isinstance(value, Integral):
            raise ValueError(
                f"The {name!r} parameter must be integers within +-2**62."
            ) from None
        raise
    if array.dtype.kind == "f":
        raise TypeError(
            f"The {name!r} parameter must be integers. Got dtype {array.dtype}."
        )
    if array.dtype.itemsize == 8:
        if ((array > _MAX_INTEGER) | (array < -_MAX_INTEGER)).any():
            raise ValueError(f"The {name!r} parameter must be integers within +-2**62.")
    return array.astype(np.int64, copy=False)


def set_fields(frozen: Any, /, **values: Any) -> None:
    """Store canonical values on a frozen dataclass, during its construction."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
