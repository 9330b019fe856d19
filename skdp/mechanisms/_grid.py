"""The grid on which every real-valued release lives.

A value is rounded to a multiple of the step 2**exponent, integer noise is added, and
the exact sum becomes a float64 again. The sum is exact whatever its size: it is int64
where that is enough and a Python int elsewhere. Rounding moves neighbouring values
apart by up to one step a coordinate; ``plan`` pays for it in the scale of the noise.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.noise import MAX_SCALE

_ROUNDING = 34  # bits of the sensitivity above all the rounding together
_SAFE = 2.0**62
_LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True)
class Grid:
    """Multiples of 2**exponent, and the noise scale in such steps."""

    exponent: int
    scale: int

    @property
    def step(self) -> float:
        """The distance of neighbouring points."""
        return math.ldexp(1.0, self.exponent)

    def add(self, values: np.ndarray, noise: Any) -> Any:
        """Return values plus noise (in steps); a float for a 0-d array."""
        flat, noise = values.ravel(), np.atleast_1d(noise).ravel()
        with np.errstate(over="ignore"):
            steps = np.rint(np.ldexp(flat, -self.exponent))
        small = np.abs(steps) < _SAFE
        total = np.where(small, steps, 0).astype(np.int64) + noise
        with np.errstate(over="ignore"):
            out = np.ldexp(total.astype(np.float64), self.exponent)
        for i in np.flatnonzero(~small):
            out[i] = self._add_large(float(flat[i]), int(noise[i]))
        out = np.clip(out, -_LARGEST, _LARGEST)
        return float(out[0]) if values.ndim == 0 else out.reshape(values.shape)

    def _add_large(self, value: float, noise: int) -> float:
        step = Fraction(2) ** self.exponent
        total = (round(Fraction(value) / step) + noise) * step
        try:
            return float(total)
        except OverflowError:
            return _LARGEST if total > 0 else -_LARGEST


def plan(
    rate: float,
    sensitivity: float,
    rounding: int,
    *,
    fine: int = 42,
    finest: int = 51,
) -> Grid:
    """Return a grid and the noise scale for sensitivity/rate on it.

    Parameters
    ----------
    rate : float
        Largest allowed sensitivity/scale: epsilon for Laplace noise, the shift of
        ``calibration.gaussian_shift`` for Gaussian noise.
    sensitivity : float
        Sensitivity of the values in the norm of the noise.
    rounding : int
        Steps by which rounding can raise the sensitivity: the number of coordinates
        for L1, the root of it, rounded up, for L2.
    fine, finest : int
        The noise scale is at least 2**fine steps, more where rounding would cost more
        than a relative 2**-34 of the sensitivity, but not more than 2**finest.
    """
    log_sensitivity = math.log2(sensitivity)
    log_scale = log_sensitivity - math.log2(rate)
    if not -1074 + fine <= log_scale <= 1000:  # quantiles of the noise fit, too
        raise ValueError(
            "The 'sensitivity' parameter divided by 'epsilon' is outside what float64 "
            f"noise can represent. Got sensitivity={sensitivity!r}."
        )
    wanted = log_sensitivity - _ROUNDING - math.log2(rounding)
    exponent = math.floor(max(min(log_scale - fine, wanted), log_scale - finest))
    exponent = max(exponent, -1074)
    # One step more than rounding needs: it pays for the difference between discrete
    # and continuous noise in the profile (docs, theory of noise).
    steps = math.ceil(Fraction(sensitivity) / Fraction(2) ** exponent) + rounding + 1
    scale = math.ceil(Fraction(steps) / Fraction(rate))
    dear = finest > 20 and steps < 1024 * (rounding + 1)  # below 20: coarse by choice
    if dear or scale > min(MAX_SCALE, 2 ** (finest + 2)):
        raise ValueError(
            "The 'epsilon' parameter is too small for this number of coordinates: "
            "rounding to a grid of 64-bit integers would add to the noise."
        )
    return Grid(exponent, scale)
