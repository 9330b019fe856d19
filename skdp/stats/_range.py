"""Bounds of unknown data: two private quartiles within wide public bounds."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdp import events
from skdp.inputs import feature_bounds
from skdp.noise import RandomBits, discrete_laplace
from skdp.stats._quantile_core import Grid, release_quantile, single_event

__all__ = ["RangePlan", "find_bounds", "plan_range"]

_SHARE = 0.3  # of epsilon, for the quartiles
_COUNT_SHARE = 0.02  # and for the number of rows, where it is private
_CELLS = 2**24  # of the public grid on which the quartiles lie
_ULPS = 2.0**-50  # smallest distance of found bounds, in terms of their size
_REACH = 4.5  # interquartile ranges on either side of the middle


@dataclass(frozen=True)
class RangePlan:
    """How bounds are found.

    Parameters
    ----------
    low, high : tuple of float
        Public outer bounds of every feature.
    quartile_epsilon : float
        Price of one quartile.
    count_epsilon : float
        Price of the number of valid values of one feature; 0 where n is public.
    neighboring : str
        Neighbour relation.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    quartile_epsilon: float
    count_epsilon: float
    neighboring: str

    @property
    def epsilon(self) -> float:
        """The price of all of it."""
        return len(self.low) * (2 * self.quartile_epsilon + self.count_epsilon)

    @property
    def events(self) -> tuple[events.Event, ...]:
        """What is released."""
        d = len(self.low)
        found = [single_event(self.quartile_epsilon, self.neighboring)] * (2 * d)
        if self.count_epsilon:
            found += [events.Pure(self.count_epsilon, self.neighboring)] * d
        return tuple(found)


def _check_size(n_rows: float, plan: RangePlan) -> None:
    """Refuse where the quartiles could be anywhere within the outer bounds."""
    needed = 8 * math.log(_CELLS) / (2 * plan.quartile_epsilon)
    if n_rows < needed:
        raise ValueError(
            "The bounds cannot be found privately: that takes about "
            f"{math.ceil(needed):,} rows for this 'epsilon' and these features, and "
            f"there are about {max(n_rows, 0):,.0f}. Give 'bounds', or a larger "
            "'epsilon'."
        )


def plan_range(
    outer_bounds: Any,
    n_samples: int,
    n_features: int,
    epsilon: float,
    neighboring: str,
    missing: bool,
    hint: int | None,
) -> RangePlan:
    """Return the plan; refuses too few rows where their number is public."""
    if outer_bounds is None:
        raise ValueError(
            "The 'bounds' parameter must be a pair (low, high); or None with "
            "'outer_bounds', wide public bounds within which bounds are found "
            "privately. Got bounds=None, outer_bounds=None."
        )
    low, high = feature_bounds(outer_bounds, n_features, "outer_bounds")
    if np.any((high - low) / _CELLS < _ULPS * np.maximum(np.abs(low), np.abs(high))):
        raise ValueError(
            "The 'outer_bounds' parameter must be wider, or nearer to zero, for "
            f"float64 to hold bounds between them. Got {outer_bounds!r}."
        )
    private = neighboring == "add_remove" or missing
    if private and hint is None:
        count_epsilon = _COUNT_SHARE * epsilon / n_features
    else:
        count_epsilon = 0.0
    plan = RangePlan(
        tuple(low.tolist()),
        tuple(high.tolist()),
        _SHARE * epsilon / (2 * n_features),
        count_epsilon,
        neighboring,
    )
    if not private:
        _check_size(n_samples, plan)
    elif hint is not None:
        _check_size(hint, plan)
    return plan


def find_bounds(
    plan: RangePlan, X: np.ndarray, bits: RandomBits
) -> tuple[np.ndarray, np.ndarray]:
    """Return released bounds; refuses after payment where the noisy n is too small."""
    low, high = np.array(plan.low), np.array(plan.high)
    for j in range(low.size):
        grid = Grid(float(low[j]), float(high[j]), _CELLS)
        column = X[:, j].astype(np.float64)
        column = column[~np.isnan(column)]
        if plan.count_epsilon:
            scale = 1 / Fraction(plan.count_epsilon)
            noise = discrete_laplace(scale, None, bits)
            _check_size(column.size + noise, plan)
        first, third = (
            release_quantile(
                column, q, grid, plan.quartile_epsilon, plan.neighboring, bits
            )
            for q in (0.25, 0.75)
        )
        middle, spread = (first + third) / 2, abs(third - first)
        reach = _REACH * max(spread, (high[j] - low[j]) / _CELLS)
        low[j], high[j] = max(low[j], middle - reach), min(high[j], middle + reach)
    return low, high
