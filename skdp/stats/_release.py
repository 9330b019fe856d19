"""Noise on a vector of sums, planned from public numbers."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from skdp import events, noise
from skdp.calibration import gaussian_shift
from skdp.mechanisms._grid import Grid
from skdp.mechanisms._grid import plan as plan_grid
from skdp.noise import RandomBits

__all__ = ["Release", "half_width", "plan_release"]


@dataclass(frozen=True)
class Release:
    """Noise of one kind on a vector.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        Laplace noise is for an L1 sensitivity, Gaussian noise for an L2 sensitivity.
    rate : float
        Sensitivity divided by the scale of the noise.
    sensitivity : float
        What one change can do to the vector, in the norm of the kind.
    neighboring : str
        Neighbour relation of the sensitivity.
    """

    kind: str
    rate: float
    sensitivity: float
    neighboring: str

    @property
    def scale(self) -> float:
        """Scale of the noise on one coordinate."""
        return self.sensitivity / self.rate

    @property
    def std(self) -> float:
        """Standard deviation of the noise on one coordinate."""
        return self.scale * (math.sqrt(2) if self.kind == "laplace" else 1.0)

    @property
    def event(self) -> events.Event:
        """What the release costs."""
        kind = events.Laplace if self.kind == "laplace" else events.Gaussian
        return kind(1 / self.rate, self.neighboring)

    def grid(self, size: int) -> Grid:
        """Return the grid for so many coordinates; refuses what float64 cannot hold."""
        steps = size if self.kind == "laplace" else math.isqrt(size - 1) + 1
        return plan_grid(self.rate, self.sensitivity, steps)

    def add(self, values: np.ndarray, bits: RandomBits) -> np.ndarray:
        """Return the values plus noise, on a grid."""
        grid, laplace = self.grid(values.size), self.kind == "laplace"
        draw = noise.discrete_laplace if laplace else noise.discrete_gaussian
        return grid.add(values, draw(grid.scale, values.shape, bits))


def plan_release(
    l1: float,
    l2: float,
    epsilon: float,
    delta: float,
    method: str,
    neighboring: str,
    size: int = 1,
) -> Release:
    """Return the noise for a vector with these sensitivities and so many coordinates.

    ``method`` is "laplace", "gaussian" or "auto", which takes the one with less noise.
    """
    if method == "gaussian" and delta == 0:
        raise ValueError(
            "method='gaussian' needs delta > 0. Got delta=0. Use method='laplace', or "
            "a delta far below one over the number of rows, such as 1e-6."
        )
    release = pure = Release("laplace", epsilon, l1, neighboring)
    if method != "laplace" and delta > 0:
        shift = gaussian_shift(epsilon, delta)
        gaussian = Release("gaussian", shift, l2, neighboring)
        if method == "gaussian" or gaussian.std < pure.std:
            release = gaussian
    release.grid(size)  # raises now, before anything is paid
    return release


# --- Intervals


def _log_tail(t: float, scale: float, std: float) -> float:
    """Return log P(L + N > t), L Laplace of this scale, N normal with this std."""
    z, r = t / std, std / scale
    terms = [
        log_ndtr(-z),
        r * r / 2 - z * r + log_ndtr(z - r) - math.log(2),
    ]
    last = r * r / 2 + z * r + log_ndtr(-z - r) - math.log(2)
    top = np.logaddexp(*terms)
    return float(top + np.log1p(-min(math.exp(last - top), 1 - 1e-16)))


def half_width(kind: str, noise_std: float, other_std: float, level: float) -> float:
    """Return t with P(|noise + other| <= t) = level; the other part is normal."""
    both = math.hypot(noise_std, other_std)
    if both == 0:
        return 0.0
    normal = -float(ndtri((1 - level) / 2))
    if kind == "gaussian":
        return both * normal
    scale, log_half = noise_std / math.sqrt(2), math.log((1 - level) / 2)
    if other_std < 1e-3 * noise_std:
        return -scale * math.log1p(-level) + other_std * normal
    if noise_std < 1e-3 * other_std:
        return other_std * normal - scale * math.log1p(-level)
    top = -scale * math.log1p(-level) + other_std * normal + both
    return float(
        brentq(lambda t: _log_tail(t, scale, other_std) - log_half, 0.0, 10 * top)
    )
