"""What the linear models pass around: data, a plan, and what is assumed."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.base import PrivateEstimator
from skdp.erm.losses import Loss
from skdp.erm.plans import Planned

__all__ = ["Data", "Plan", "assumptions", "check_largest_c"]

_LEEWAY = 1 + 1e-8  # of the largest C, for round numbers; the noise is for C as it is


@dataclass(frozen=True)
class Data:
    """Validated data: rows as given, and encoded targets."""

    X: Any
    y: np.ndarray
    classes: np.ndarray | None = None

    def arrays(self) -> tuple[Any, ...]:
        """Return what tells one data set from another."""
        return self.X, self.y


@dataclass(frozen=True)
class Plan:
    """Everything about a fit that is fixed before the data is touched."""

    loss: Loss
    planned: Planned
    unit: float
    norm: float
    ridge: float
    n_features: int
    constant: bool
    n_rows: float
    look: str | None
    problems: int
    subtasks: int

    @property
    def width(self) -> int:
        """Number of columns, with the constant one if there is any."""
        return self.n_features + self.constant

    @property
    def size(self) -> int:
        """Number of coefficients, of all outputs and problems."""
        return self.width * self.loss.outputs * self.problems

    @property
    def event(self) -> Any:
        """What the fit costs."""
        return self.planned.event


def assumptions(estimator: PrivateEstimator, *chosen: str) -> tuple[str, ...]:
    """Return what a guarantee takes for granted, the bound of rows included."""
    found = ("every person is one row", *chosen)
    if estimator.neighboring == "add_remove":
        found += (f"there are at most {estimator._public_rows(0):,.0f} rows",)
    return found


def _down(value: float) -> str:
    """Return a number with six digits, rounded down."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    return f"{math.floor(value / unit * (1 - 1e-12)) * unit:.6g}"


def check_largest_c(C: float, most: float) -> None:
    """Refuse a C above what the theorem of objective perturbation allows."""
    if most * _LEEWAY < C:
        raise ValueError(
            f"The 'C' parameter must be at most {_down(most * _LEEWAY)} for "
            "method='objective' with these parameters: the proof needs that much "
            f"regularisation. Use a smaller C, or None. Got {C!r}."
        )
