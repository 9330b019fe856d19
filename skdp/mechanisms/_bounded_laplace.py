"""Laplace noise that stays within public bounds."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from skdp import events, noise
from skdp.calibration import bounded_laplace_scale
from skdp.noise import RandomBits, as_bits
from skdp.validation import (
    Neighboring,
    check_bounds,
    check_confidence,
    check_delta,
    check_epsilon,
    check_float_values,
    check_neighboring,
    check_real,
    set_fields,
)

_CHUNK = 2**15  # values drawn at a time


@dataclass(frozen=True)
class _Plan:
    """Bounds and noise scale in steps of 2**exponent."""

    exponent: int
    low: int
    high: int
    scale: int


def _truncated_laplace(steps: np.ndarray, plan: _Plan, bits: RandomBits) -> np.ndarray:
    """Draw k in [low, high] with probability proportional to exp(-|k - step|/scale)."""
    width = plan.high - plan.low
    if steps.size > _CHUNK:  # the work arrays stay small
        parts = range(0, steps.size, _CHUNK)
        return np.concatenate(
            [_truncated_laplace(steps[i : i + _CHUNK], plan, bits) for i in parts]
        )
    out = np.empty_like(steps)
    open_ = np.arange(steps.size)
    while open_.size:
        centre = steps[open_]
        if plan.scale >= width:
            drawn = plan.low + noise.uniform_integers(width + 1, open_.size, bits)
            keep = noise.bernoulli_exp(np.abs(drawn - centre), plan.scale, bits)
        else:
            drawn = centre + noise.discrete_laplace(plan.scale, open_.size, bits)
            keep = (drawn >= plan.low) & (drawn <= plan.high)
        out[open_[keep]] = drawn[keep]
        open_ = open_[~keep]
    return out


@dataclass(frozen=True)
class BoundedLaplace:
    """Laplace noise cut off to public bounds: no output outside, none piled up there.

    Parameters
    ----------
    epsilon : float
        Privacy parameter > 0.
    sensitivity : float
        L1 sensitivity of the released value under ``neighboring``, at most the width of
        the bounds (for an array, of all its coordinates together).
    bounds : tuple of float
        Public (low, high) of every coordinate.
    delta : float, default=0.0
        Privacy parameter in [0, 1).
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the sensitivity.

    Attributes
    ----------
    scale : float
        Scale of the noise for a single value. It is larger than sensitivity/epsilon:
        cutting off makes the density depend on where the value lies.

    Guarantee
    ---------
    (epsilon, delta)-DP, exactly, also in floating-point arithmetic. The
    scale is the smallest for which the proof holds.

    References
    ----------
    Holohan, Antonatos, Braghin and Mac Aonghusa (2020). The bounded Laplace mechanism
    in differential privacy.

    Examples
    --------
    >>> from skdp.mechanisms import BoundedLaplace
    >>> mechanism = BoundedLaplace(epsilon=1.0, sensitivity=1.0, bounds=(0.0, 4.0))
    >>> round(mechanism.scale, 3)
    1.567
    >>> 0 <= mechanism.release(3.5) <= 4
    True
    """

    epsilon: float
    sensitivity: float
    bounds: tuple[float, float]
    delta: float = 0.0
    neighboring: Neighboring = field(default="replace", kw_only=True)

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=check_epsilon(self.epsilon),
            sensitivity=check_real(self.sensitivity, "sensitivity", low=0),
            bounds=check_bounds(self.bounds),
            delta=check_delta(self.delta),
            neighboring=check_neighboring(self.neighboring),
        )
        low, high = self.bounds
        if self.sensitivity > high - low:
            raise ValueError(
                "The 'sensitivity' parameter must be at most the width of the bounds, "
                f"{high - low!r}. Got {self.sensitivity!r}."
            )
        self._plan(1)

    def _plan(self, size: int) -> _Plan:
        low, high = self.bounds
        log_width = math.log2(high - low)
        log_scale = math.log2(self.sensitivity) - math.log2(self.epsilon)
        if log_scale > 1000:
            raise ValueError(
                "The 'sensitivity' parameter divided by 'epsilon' is outside what "
                f"float64 noise can represent. Got sensitivity={self.sensitivity!r}."
            )
        # Values fit int64, and a scale below the width fits the sampler.
        reach = math.log2(max(abs(low), abs(high)))
        finest = max(log_width - 52, reach - 60)
        exponent = math.ceil(max(min(log_scale, log_width) - 42, finest, -1074))
        step = Fraction(2) ** exponent
        lowest, highest = (
            math.ceil(Fraction(low) / step),
            math.floor(Fraction(high) / step),
        )
        steps = math.ceil(Fraction(self.sensitivity) / step) + size
        width = highest - lowest
        if width < 2**30 or steps < 2**20 * size:
            raise ValueError(
                "The 'sensitivity' parameter is too small beside the bounds, or for "
                f"the number of coordinates, for float64. Got {self.sensitivity!r}."
            )
        scale = bounded_laplace_scale(
            self.epsilon, self.delta, steps, max(width, steps), size
        )
        return _Plan(exponent, lowest, highest, math.ceil(scale))

    @property
    def scale(self) -> float:
        """Scale of the noise for a single value."""
        plan = self._plan(1)
        return math.ldexp(plan.scale, plan.exponent)

    @property
    def event(self) -> events.Pure | events.Approximate:
        """What a release costs."""
        if self.delta == 0:
            return events.Pure(self.epsilon, self.neighboring)
        return events.Approximate(self.epsilon, self.delta, self.neighboring)

    def release(self, value: Any, random_state: Any = None) -> Any:
        """Return a noisy value within the bounds.

        Parameters
        ----------
        value : float or array of float
            What to release, within the bounds: clip first.
        random_state : None, int, Generator or RandomState
            None for secure noise; anything else is reproducible, and not private
            against those who know it.

        Returns
        -------
        float or ndarray of float64
            Of the shape of ``value``.
        """
        values = check_float_values(value)
        low, high = self.bounds
        if (values < low).any() or (values > high).any():
            raise ValueError(
                f"The 'value' parameter must lie within the bounds {self.bounds}; clip "
                "it to them before the release."
            )
        plan = self._plan(values.size)
        steps = np.rint(np.ldexp(values.ravel(), -plan.exponent)).astype(np.int64)
        steps = np.clip(steps, plan.low, plan.high)
        drawn = _truncated_laplace(steps, plan, as_bits(random_state))
        out = np.clip(np.ldexp(drawn.astype(float), plan.exponent), low, high)
        return float(out[0]) if values.ndim == 0 else out.reshape(values.shape)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds of the noise on a single value.

        They hold with at least this probability, wherever the value lies: noise is
        largest for a value at one of the bounds.
        """
        confidence = check_confidence(confidence)
        scale, width = self.scale, self.bounds[1] - self.bounds[0]
        reach = -scale * math.log1p(confidence * math.expm1(-width / scale))
        return -reach, reach
