"""Laplace, Gaussian and Gamma-norm noise on real values."""

import math
from dataclasses import dataclass, field
from typing import Any

from scipy.special import ndtri
from scipy.stats import gamma

from skdp import events, noise
from skdp.calibration import gaussian_sigma
from skdp.mechanisms._grid import Grid, plan
from skdp.validation import (
    Neighboring,
    check_confidence,
    check_delta,
    check_epsilon,
    check_float_values,
    check_integer,
    check_neighboring,
    check_option,
    check_real,
    set_fields,
)


class AdditiveMechanism:
    """What mechanisms that add noise of a fixed scale share."""

    @property
    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        return self.std * self.std

    def release(self, value: Any, random_state: Any = None) -> Any:
        """Return ``value`` plus noise.

        Parameters
        ----------
        value : float or array of float
            What to release. The sensitivity is that of the whole array.
        random_state : None, int, Generator or RandomState
            None for secure noise; anything else is reproducible, and not private
            against those who know it.

        Returns
        -------
        float or ndarray of float64
            Of the shape of ``value``, on a grid far below the noise.
        """
        values = check_float_values(value)
        grid = self._grid(values.size)
        shape = values.shape or None
        return grid.add(values, self._draw(grid, shape, random_state))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds that hold the noise on a coordinate with this probability."""
        width = self._quantile(check_confidence(confidence))
        return -width, width


@dataclass(frozen=True)
class Laplace(AdditiveMechanism):
    """Laplace noise, on a number or a vector.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    sensitivity : float, default=1.0
        L1 sensitivity of the released value under ``neighboring``.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.

    Attributes
    ----------
    scale : float
        sensitivity / epsilon. The noise drawn is larger by a relative 2**-33 or so,
        which pays for rounding to the grid.

    Guarantee
    ---------
    epsilon-DP, exactly, also in floating-point arithmetic: the value is
    rounded to a grid and the noise is discrete Laplace. Assumes that ``sensitivity``
    bounds the L1 distance of the float64 values on neighbouring data; sums of floats
    need care (docs, theory of noise).

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in
    private data analysis.

    Examples
    --------
    >>> from skdp.mechanisms import Laplace
    >>> mechanism = Laplace(epsilon=0.5, sensitivity=1.0)
    >>> mechanism.scale, mechanism.event.epsilon(0)
    (2.0, 0.5)
    >>> mechanism.release([3.0, 4.0], random_state=0).shape
    (2,)
    """

    epsilon: float
    sensitivity: float = 1.0
    neighboring: Neighboring = field(default="replace", kw_only=True)

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            sensitivity=check_real(self.sensitivity, "sensitivity", low=0),
            neighboring=check_neighboring(self.neighboring),
        )
        self._grid(1)

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        return self.sensitivity / self.epsilon

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one coordinate."""
        return math.sqrt(2) * self.scale

    @property
    def event(self) -> events.Laplace:
        """What a release costs."""
        return events.Laplace(1 / self.epsilon, self.neighboring)

    def _grid(self, size: int) -> Grid:
        return plan(self.epsilon, self.sensitivity, size)

    def _draw(self, grid: Grid, shape: Any, random_state: Any) -> Any:
        return noise.discrete_laplace(grid.scale, shape, random_state)

    def _quantile(self, confidence: float) -> float:
        return -self.scale * math.log1p(-confidence)


@dataclass(frozen=True)
class Gaussian(AdditiveMechanism):
    """Gaussian noise, on a number or a vector.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    delta : float
        Privacy parameter in (0, 1), at least 1e-22.
    sensitivity : float, default=1.0
        L2 sensitivity of the released value under ``neighboring``.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.
    calibration : {"exact", "classic"}, default="exact"
        "exact" is the smallest possible noise. "classic" is the textbook's formula,
        for lessons: larger, and refused for epsilon >= 1, where it has no proof.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise. The noise drawn is larger by a relative 2**-33
        or so, which pays for rounding to the grid.

    Guarantee
    ---------
    (epsilon, delta)-DP, also in floating-point arithmetic: the value is
    rounded to a grid, the noise is discrete Gaussian, and delta covers the difference
    between its profile and the continuous one. Assumes that ``sensitivity`` bounds the
    L2 distance of the float64 values on neighbouring data.

    References
    ----------
    Balle and Wang (2018). Improving the Gaussian mechanism for differential privacy.
    Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy.

    Examples
    --------
    >>> from skdp.mechanisms import Gaussian
    >>> mechanism = Gaussian(epsilon=1.0, delta=1e-6)
    >>> round(mechanism.sigma, 4)
    4.2247
    >>> mechanism.release([[3.0], [4.0]], random_state=0).shape
    (2, 1)
    """

    epsilon: float
    delta: float
    sensitivity: float = 1.0
    neighboring: Neighboring = field(default="replace", kw_only=True)
    calibration: str = field(default="exact", kw_only=True)
    sigma: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_option(self.calibration, "calibration", ("exact", "classic"))
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            delta=check_delta(self.delta, positive=True),
            sensitivity=check_real(self.sensitivity, "sensitivity", low=0),
            neighboring=check_neighboring(self.neighboring),
        )
        multiplier = gaussian_sigma(self.epsilon, self.delta, 1.0, self.calibration)
        set_fields(self, _multiplier=multiplier, sigma=multiplier * self.sensitivity)
        self._grid(1)

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one coordinate."""
        return self.sigma

    @property
    def event(self) -> events.Gaussian:
        """What a release costs."""
        return events.Gaussian(self._multiplier, self.neighboring)

    def _grid(self, size: int) -> Grid:
        rounding = math.isqrt(size - 1) + 1
        return plan(1 / self._multiplier, self.sensitivity, rounding)

    def _draw(self, grid: Grid, shape: Any, random_state: Any) -> Any:
        return noise.discrete_gaussian(grid.scale, shape, random_state)

    def _quantile(self, confidence: float) -> float:
        return self.sigma * float(-ndtri((1 - confidence) / 2))


@dataclass(frozen=True)
class GammaNorm(AdditiveMechanism):
    """Noise for pure DP in L2: density ``exp(-epsilon |z|/sensitivity)``.

    The direction of the noise is uniform, its norm is Gamma distributed. For a vector
    of length d its error is smaller by about sqrt(2) than that of Laplace noise at the
    L1 sensitivity sqrt(d) * sensitivity.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    n_features : int
        Number of coordinates of the released vector.
    sensitivity : float, default=1.0
        L2 sensitivity of the released vector under ``neighboring``.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.

    Attributes
    ----------
    scale : float
        sensitivity / epsilon.

    Guarantee
    ---------
    epsilon-DP in real arithmetic. The vector is rounded to a public grid of 2**-20 to
    2**-27 scales before the noise, and the sum to the same grid after it, so that
    outputs do not betray inputs by their last digits; but no exact sampler of this
    distribution is known to us: its probabilities on the grid carry the float64
    rounding of a square root and a product, and a norm on a grid of 2**-45 scales.
    Where that matters, use :class:`Laplace` with the L1 sensitivity
    sqrt(d) * sensitivity.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical risk
    minimization.

    Examples
    --------
    >>> from skdp.mechanisms import GammaNorm
    >>> mechanism = GammaNorm(epsilon=1.0, n_features=3)
    >>> mechanism.std
    2.0
    >>> mechanism.release([1.0, 2.0, 3.0], random_state=0).shape
    (3,)
    """

    epsilon: float
    n_features: int
    sensitivity: float = 1.0
    neighboring: Neighboring = field(default="replace", kw_only=True)

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            n_features=check_integer(self.n_features, "n_features", low=1),
            sensitivity=check_real(self.sensitivity, "sensitivity", low=0),
            neighboring=check_neighboring(self.neighboring),
        )
        self._grid(self.n_features)

    @property
    def scale(self) -> float:
        """Scale of the norm of the noise."""
        return self.sensitivity / self.epsilon

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one coordinate."""
        return math.sqrt(self.n_features + 1) * self.scale

    @property
    def event(self) -> events.Pure:
        """What a release costs."""
        return events.Pure(self.epsilon, self.neighboring)

    def _grid(self, size: int) -> Grid:
        if size != self.n_features:
            raise ValueError(
                f"The 'value' parameter must have n_features={self.n_features} "
                f"elements. Got {size}."
            )
        rounding = math.isqrt(size - 1) + 1
        return plan(self.epsilon, self.sensitivity, rounding, fine=20, finest=26)

    def _draw(self, grid: Grid, shape: Any, random_state: Any) -> Any:
        if self.n_features == 1:  # Laplace noise, for which there is an exact sampler
            return noise.discrete_laplace(grid.scale, 1, random_state)
        return noise.gamma_norm(grid.scale, self.n_features, None, random_state)

    def _quantile(self, confidence: float) -> float:
        return self.scale * float(gamma.ppf(confidence, self.n_features))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds that hold the noise on all coordinates at once."""
        return super().interval(confidence)
