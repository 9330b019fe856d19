"""Which values occur often: noisy counts above a threshold."""

import math
from dataclasses import dataclass

import numpy as np

from skdp import events
from skdp.noise import RandomBits, discrete_laplace

__all__ = ["Discovery", "plan_discovery"]

_SAFE = 1e-9  # relative; above the sampler's rounding of its scale, and ours


@dataclass(frozen=True)
class Discovery:
    """Noise and threshold of the counts of one feature.

    Parameters
    ----------
    scale : float
        Scale of the discrete Laplace noise on every count.
    threshold : int
        The smallest noisy count that is published.
    event : Event
        What it costs.
    """

    scale: float
    threshold: int
    event: events.Approximate

    def choose(self, counts: dict, bits: RandomBits) -> list:
        """Return the values with a noisy count of at least the threshold."""
        values = list(counts)
        exact = np.fromiter(counts.values(), dtype=np.int64, count=len(values))
        noisy = exact + discrete_laplace(self.scale, len(values), bits)
        return [values[i] for i in np.flatnonzero(noisy >= self.threshold)]


def tail(scale: float, least: int) -> float:
    """Return P(Z >= least) for discrete Laplace noise, for least >= 1."""
    return math.exp(-least / scale) / (1 + math.exp(-1 / scale))


def plan_discovery(epsilon: float, delta: float, neighboring: str) -> Discovery:
    """Return noise and threshold such that the values found are (epsilon, delta)-DP.

    One row has one value. Where it comes or goes, one count changes by one; where it is
    replaced, two do, and each gets half of both parameters.
    """
    changes = 2 if neighboring == "replace" else 1
    scale, failure = changes / epsilon, delta / changes
    wider = scale * (1 + _SAFE)
    # The smallest z >= 1 with tail(wider, z) <= failure.
    least = wider * (-math.log(failure) - math.log1p(math.exp(-1 / wider)))
    threshold = 1 + max(1, math.ceil(least * (1 + _SAFE)))
    event = events.Approximate(epsilon, delta, neighboring)
    return Discovery(scale, threshold, event)
