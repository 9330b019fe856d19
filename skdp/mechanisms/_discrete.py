"""Discrete Laplace and Gaussian noise on integers, such as counts."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from skdp import events, noise
from skdp.calibration import zcdp_rho
from skdp.validation import (
    Neighboring,
    check_confidence,
    check_delta,
    check_epsilon,
    check_integer,
    check_integer_values,
    check_neighboring,
    check_real,
    set_fields,
)


class _IntegerMechanism:
    """What mechanisms on integers share."""

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one coordinate."""
        return math.sqrt(self.variance)

    def release(self, value: Any, random_state: Any = None) -> Any:
        """Return ``value`` plus integer noise.

        Parameters
        ----------
        value : int or array of int
            Integers within +-2**62. The sensitivity is that of the whole array.
        random_state : None, int, Generator or RandomState
            None for secure noise; anything else is reproducible, and not private
            against those who know it.

        Returns
        -------
        int or ndarray of int64
            Of the shape of ``value``.
        """
        values = check_integer_values(value)
        drawn = self._draw(values.shape or None, random_state)
        return int(values) + drawn if values.ndim == 0 else values + drawn

    def interval(self, confidence: float = 0.95) -> tuple[int, int]:
        """Return bounds that hold the noise on a coordinate with this probability."""
        width = self._quantile(check_confidence(confidence))
        return -width, width


def _check_scale(scale: Fraction) -> Fraction:
    if scale > noise.MAX_SCALE:
        raise ValueError(
            "The 'epsilon' parameter is too small for this 'sensitivity': the noise "
            "would not fit 64-bit integers."
        )
    return scale


@dataclass(frozen=True)
class DiscreteLaplace(_IntegerMechanism):
    """Discrete Laplace (two-sided geometric) noise on integers.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    sensitivity : int, default=1
        L1 sensitivity of the released integers under ``neighboring``.
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.

    Guarantee
    ---------
    epsilon-DP, exactly. At sensitivity 1 the privacy loss is that of
    randomised response, so that the event is :class:`skdp.events.Pure`.

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2012). Universally utility-maximizing privacy
    mechanisms.

    Examples
    --------
    >>> from skdp.mechanisms import DiscreteLaplace
    >>> mechanism = DiscreteLaplace(epsilon=1.0)
    >>> round(mechanism.std, 3), mechanism.interval(0.95)
    (1.357, (-3, 3))
    >>> type(mechanism.release(17))
    <class 'int'>
    """

    epsilon: float
    sensitivity: int = 1
    neighboring: Neighboring = field(default="replace", kw_only=True)

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            sensitivity=check_integer(self.sensitivity, "sensitivity", low=1),
            neighboring=check_neighboring(self.neighboring),
        )
        scale = _check_scale(Fraction(self.sensitivity) / Fraction(self.epsilon))
        set_fields(self, _scale=scale)

    @property
    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        rate = float(1 / self._scale)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    @property
    def event(self) -> events.Pure:
        """What a release costs."""
        return events.Pure(self.epsilon, self.neighboring)

    def _draw(self, shape: Any, random_state: Any) -> Any:
        return noise.discrete_laplace(self._scale, shape, random_state)

    def _quantile(self, confidence: float) -> int:
        # P(|noise| > w) = 2 p^(w+1) / (1 + p)
        rate = float(1 / self._scale)
        tail = math.log1p(-confidence) + math.log1p(math.exp(-rate)) - math.log(2)
        return max(0, math.ceil(-tail / rate - 1))


@dataclass(frozen=True)
class DiscreteGaussian(_IntegerMechanism):
    """Discrete Gaussian noise on integers.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    delta : float
        Privacy parameter in (0, 1).
    sensitivity : float, default=1.0
        L2 sensitivity of the released integers under ``neighboring``: sqrt(2) for a
        histogram under "replace", 1 under "add_remove".
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.

    Attributes
    ----------
    sigma : float
        Parameter of the noise, which is at least its standard deviation.

    Guarantee
    ---------
    rho-zCDP with rho = sensitivity^2/(2 sigma^2), exactly, and thereby
    (epsilon, delta)-DP. The conversion costs about 7 % in sigma over what the
    continuous Gaussian needs; it holds for vectors of any length and any small sigma.

    References
    ----------
    Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy.

    Examples
    --------
    >>> from skdp.mechanisms import DiscreteGaussian
    >>> mechanism = DiscreteGaussian(epsilon=1.0, delta=1e-6)
    >>> round(mechanism.sigma, 3)
    4.531
    >>> mechanism.release([1, 2, 3], random_state=0).dtype
    dtype('int64')
    """

    epsilon: float
    delta: float
    sensitivity: float = 1.0
    neighboring: Neighboring = field(default="replace", kw_only=True)
    sigma: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            delta=check_delta(self.delta, positive=True),
            sensitivity=check_real(self.sensitivity, "sensitivity", low=0),
            neighboring=check_neighboring(self.neighboring),
        )
        rho = zcdp_rho(self.epsilon, self.delta)
        # A little more than the formula: rho must cover the rounding of sigma.
        sigma = self.sensitivity / math.sqrt(2 * rho) * (1 + 1e-14)
        if not math.isfinite(sigma):
            raise ValueError(
                f"The 'sensitivity' parameter is too large. Got {self.sensitivity!r}."
            )
        _check_scale(Fraction(sigma))
        set_fields(self, sigma=sigma, _rho=rho)

    @property
    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        if self.sigma > 20:
            return self.sigma**2  # equal to float64 precision
        k, weights = self._weights()
        return float((k**2 * weights).sum())

    @property
    def event(self) -> events.ZeroConcentrated:
        """What a release costs."""
        return events.ZeroConcentrated(self._rho, self.neighboring)

    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        width = math.ceil(12 * self.sigma) + 2
        k = np.arange(-width, width + 1)
        weights = np.exp(-0.5 * (k / max(self.sigma, 1e-6)) ** 2)
        return k, weights / weights.sum()

    def _draw(self, shape: Any, random_state: Any) -> Any:
        return noise.discrete_gaussian(self.sigma, shape, random_state)

    def _quantile(self, confidence: float) -> int:
        from scipy.special import ndtri

        if self.sigma > 1e4:
            return math.ceil(-self.sigma * float(ndtri((1 - confidence) / 2)) + 1)
        k, weights = self._weights()
        width = k[-1]
        inside = weights[width] + 2 * np.cumsum(np.r_[0.0, weights[width + 1 :]])
        return int(np.searchsorted(inside, min(confidence, inside[-1])))
