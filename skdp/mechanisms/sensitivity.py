"""How much one row can change a bounded statistic, under either neighbour relation.

A sensitivity always belongs to a relation: under "replace" one row takes another
value and n is public, under "add_remove" one row comes or goes and n is private.

Examples
--------
>>> from skdp.mechanisms import sensitivity
>>> (
...     sensitivity.histogram("replace", norm=1),
...     sensitivity.histogram("add_remove", norm=1),
... )
(2.0, 1.0)
>>> sensitivity.mean((0.0, 100.0), n_samples=50)
2.0
"""

import math

from skdp.validation import (
    Neighboring,
    check_bounds,
    check_integer,
    check_neighboring,
)

__all__ = ["count", "histogram", "mean", "total"]


def count(neighboring: Neighboring = "replace") -> float:
    """Return the sensitivity of the number of rows with some property."""
    check_neighboring(neighboring)
    return 1.0


def histogram(neighboring: Neighboring = "replace", norm: int = 1) -> float:
    """Return the L1 or L2 sensitivity of counts over disjoint bins."""
    moved = 2 if check_neighboring(neighboring) == "replace" else 1
    norm = check_integer(norm, "norm", low=1, high=2)
    return float(moved) if norm == 1 else math.sqrt(moved)


def total(bounds: tuple[float, float], neighboring: Neighboring = "replace") -> float:
    """Return the sensitivity of an exact sum of values within the bounds."""
    low, high = check_bounds(bounds)
    if check_neighboring(neighboring) == "replace":
        return high - low
    return max(abs(low), abs(high))


def mean(
    bounds: tuple[float, float], n_samples: int, neighboring: Neighboring = "replace"
) -> float:
    """Return the sensitivity of a mean of values within the bounds.

    Under "add_remove" n is private: release the sum of the values, centred on the
    middle of the bounds, and the number of rows, each with a share of the budget.
    """
    if check_neighboring(neighboring) == "add_remove":
        raise ValueError(
            "The 'neighboring' parameter of a mean must be 'replace': under "
            "'add_remove' the number of rows is private. Release a sum and a count."
        )
    return total(bounds) / check_integer(n_samples, "n_samples", low=1)
