"""Whole-number noise on counts."""

import math
from dataclasses import dataclass

import numpy as np

from skdp import events
from skdp.mechanisms import DiscreteLaplace
from skdp.noise import RandomBits
from skdp.stats._release import Release, half_width, plan_release

__all__ = ["CountNoise", "RoundedGaussian", "count_noise", "plan_counts"]


@dataclass(frozen=True)
class RoundedGaussian:
    """Gaussian noise on a fine grid, and the noisy counts rounded to integers.

    Parameters
    ----------
    noise : Release
        The noise before rounding, which is post-processing.
    """

    noise: Release

    @property
    def event(self) -> events.Event:
        """What a release costs."""
        return self.noise.event

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one count."""
        return math.sqrt(self.noise.std**2 + 1 / 12)

    def release(self, counts: np.ndarray, bits: RandomBits) -> np.ndarray:
        """Return noisy counts."""
        noisy = self.noise.add(counts.astype(np.float64), bits)
        return np.rint(noisy).astype(np.int64)

    def interval(self, confidence: float) -> tuple[int, int]:
        """Return bounds that hold the noise on a count with this probability."""
        width = half_width("gaussian", self.noise.std, 0.0, confidence)
        width = math.ceil(width - 0.5)  # as far as what is rounded to it
        return -width, width


CountNoise = DiscreteLaplace | RoundedGaussian


def plan_counts(
    l1: int,
    l2: float,
    epsilon: float,
    delta: float,
    method: str,
    neighboring: str,
    size: int,
) -> Release:
    """Return the noise for so many counts with these sensitivities."""
    release = plan_release(l1, l2, epsilon, delta, method, neighboring)
    if release.kind == "gaussian":  # discrete Laplace noise needs no finer grid
        release.grid(size)
    return release


def count_noise(release: Release) -> CountNoise:
    """Return the noise on whole numbers that stands for planned noise."""
    if release.kind == "gaussian":
        return RoundedGaussian(release)
    norm, neighboring = int(release.sensitivity), release.neighboring
    return DiscreteLaplace(release.rate, norm, neighboring=neighboring)
