"""Noise in proportion to a smooth bound of the local sensitivity."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdp import events, noise
from skdp.mechanisms._grid import Grid
from skdp.validation import (
    Neighboring,
    check_bounds,
    check_delta,
    check_float_values,
    check_integer,
    check_neighboring,
    check_option,
    check_real,
    set_fields,
)

_FLOOR = 2.0**-20  # smallest smooth sensitivity, as a share of the bounds' width
_TOP = 50  # bits of the largest noise scale in grid steps
_SLACK = 2.0**-27  # of beta, for rounding the scale to the grid


def _laplace(epsilon: float, delta: float, exponent: int) -> tuple[float, float]:
    """Return beta and noise scale / smooth sensitivity (Nissim et al. 2007)."""
    log_tail = _log_tail(epsilon, delta)
    return epsilon / (2 * log_tail), 2 / epsilon


def _gaussian(epsilon: float, delta: float, exponent: int) -> tuple[float, float]:
    log_tail = _log_tail(epsilon, delta)
    return epsilon / (4 * (1 + log_tail)), 5 * math.sqrt(2 * log_tail) / epsilon


def _log_tail(epsilon: float, delta: float) -> float:
    """Return ln(2/d') where delta = (d'/2)(e^{epsilon/2} + 1)."""
    return math.log(math.exp(epsilon / 2) + 1) - math.log(delta)


def _cauchy(epsilon: float, delta: float, exponent: int) -> tuple[float, float]:
    # With h = 1/(1 + |z|^g): |d log h/dz| <= (g-1)^((g-1)/g), and the log density of
    # s z changes by at most (g - 1) |log s|. Half of epsilon goes to each.
    slide = (exponent - 1) ** ((exponent - 1) / exponent)
    return epsilon / (2 * (exponent - 1)), 2 * slide / epsilon


_NOISES = {"laplace": _laplace, "cauchy": _cauchy, "gaussian": _gaussian}
_LARGEST_EPSILON = 10.0  # up to here the constants are also checked by quadrature


@dataclass(frozen=True)
class SmoothSensitivity:
    """Noise scaled to a beta-smooth upper bound of the local sensitivity.

    Compute the bound with this mechanism's ``beta``, for instance by
    :func:`smooth_sensitivity_median`, and hand it to :meth:`release` with the value.
    Noise in proportion to the local sensitivity itself would not be private.

    Parameters
    ----------
    epsilon : float
        Privacy parameter in (0, 10].
    bounds : tuple of float
        Public (low, high) of the value. Releases are clamped to them.
    noise : {"cauchy", "laplace", "gaussian"}, default="cauchy"
        "cauchy" has a density in proportion to ``1/(1 + |z|^exponent)`` and gives pure
        DP; the other two need ``delta``.
    delta : float, default=0.0
        Privacy parameter in [0, 1); 0 for "cauchy", positive for the others.
    exponent : int, default=4
        Tail exponent of "cauchy" noise, at least 2. Above 3 its variance is finite.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the smooth sensitivity; that of
        :func:`smooth_sensitivity_median` is "replace".

    Attributes
    ----------
    beta : float
        How smooth the bound must be: it may change by a factor e^beta at most between
        neighbours.
    multiplier : float
        Scale of the noise divided by the smooth sensitivity.

    Guarantee
    ---------
    (epsilon, delta)-DP, pure for "cauchy". The grid and the smallest
    smooth sensitivity (2**-20 of the width of the bounds) are public, and the noise is
    discrete and exact. Neither the smooth sensitivity nor the scale of the noise is
    published: both depend on the data, so that there is no ``std``.

    References
    ----------
    Nissim, Raskhodnikova and Smith (2007). Smooth sensitivity and sampling in private
    data analysis.

    Examples
    --------
    >>> from skdp.mechanisms import SmoothSensitivity, smooth_sensitivity_median
    >>> mechanism = SmoothSensitivity(epsilon=1.0, bounds=(0.0, 100.0))
    >>> ages = list(range(20, 80))
    >>> smooth = smooth_sensitivity_median(ages, mechanism.beta, mechanism.bounds)
    >>> 0 <= mechanism.release(49.0, smooth) <= 100
    True
    """

    epsilon: float
    bounds: tuple[float, float]
    noise: str = "cauchy"
    delta: float = 0.0
    exponent: int = field(default=4, kw_only=True)
    neighboring: Neighboring = field(default="replace", kw_only=True)
    beta: float = field(init=False, repr=False)
    multiplier: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_option(self.noise, "noise", tuple(_NOISES))
        set_fields(
            self,
            epsilon=check_real(
                self.epsilon, "epsilon", low=0, high=_LARGEST_EPSILON, closed="right"
            ),
            bounds=check_bounds(self.bounds),
            delta=check_delta(self.delta, positive=self.noise != "cauchy"),
            exponent=check_integer(self.exponent, "exponent", low=2, high=16),
            neighboring=check_neighboring(self.neighboring),
        )
        if self.noise == "cauchy" and self.delta > 0:
            raise ValueError(
                "The 'delta' parameter must be 0 for 'cauchy' noise, which gives pure "
                f"DP. Got {self.delta!r}."
            )
        beta, multiplier = _NOISES[self.noise](self.epsilon, self.delta, self.exponent)
        if beta <= 2 * _SLACK:
            raise ValueError(
                f"The 'epsilon' parameter is too small. Got {self.epsilon!r}."
            )
        set_fields(self, beta=beta - _SLACK, multiplier=multiplier)
        self._grid()

    def _grid(self) -> Grid:
        """Return the grid, with the noise scale of the largest smooth sensitivity."""
        low, high = self.bounds
        log_scale = math.log2(high - low) + math.log2(self.multiplier)
        exponent = math.ceil(log_scale) - _TOP
        reach = math.log2(max(abs(low), abs(high)))
        if exponent < -1074 or reach - exponent > 61:
            raise ValueError(
                "The 'bounds' parameter is too narrow, or too far from zero, for "
                f"float64. Got {self.bounds!r}."
            )
        return Grid(exponent, 2**_TOP)

    @property
    def event(self) -> events.Pure | events.Approximate:
        """What a release costs."""
        if self.delta == 0:
            return events.Pure(self.epsilon, self.neighboring)
        return events.Approximate(self.epsilon, self.delta, self.neighboring)

    def release(
        self, value: float, smooth_sensitivity: float, random_state: Any = None
    ) -> float:
        """Return the value plus noise, clamped to the bounds.

        Parameters
        ----------
        value : float
            What to release, within the bounds.
        smooth_sensitivity : float
            Its beta-smooth sensitivity on the same data, >= 0; raised to 2**-20 of the
            width of the bounds where it is smaller.
        random_state : None, int, Generator or RandomState
            None for secure noise; anything else is reproducible, and not private
            against those who know it.
        """
        array = check_float_values(value)
        low, high = self.bounds
        if array.ndim != 0:
            raise ValueError(
                f"The 'value' parameter must be a number. Got shape {array.shape}."
            )
        if not low <= float(array) <= high:
            raise ValueError(
                f"The 'value' parameter must lie within the bounds {self.bounds}."
            )
        smooth = check_float_values(smooth_sensitivity, "smooth_sensitivity")
        if smooth.ndim != 0 or not 0 <= float(smooth):
            raise ValueError(
                "The 'smooth_sensitivity' parameter must be a number >= 0."
            )
        grid = self._grid()
        width = high - low
        bounded = min(max(float(smooth), _FLOOR * width), width)
        # One step more pays for rounding the value to the grid.
        scale = math.ceil((bounded / grid.step + 1) * self.multiplier)
        drawn = self._draw(scale, random_state)
        return float(np.clip(grid.add(array, drawn), low, high))

    def _draw(self, scale: int, random_state: Any) -> int:
        if self.noise == "laplace":
            return noise.discrete_laplace(scale, None, random_state)
        if self.noise == "gaussian":
            return noise.discrete_gaussian(scale, None, random_state)
        drawn = noise.discrete_cauchy(scale, self.exponent, None, random_state)
        return max(-(2**62), min(drawn, 2**62))
