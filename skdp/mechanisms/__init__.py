"""Mechanisms: sensitivity and noise in, a private value and its event out.

Every mechanism is an immutable value. Its constructor validates; ``release`` adds the
noise; ``event`` says what a release costs, before or after it.
"""

from skdp.mechanisms import sensitivity
from skdp.mechanisms._additive import GammaNorm, Gaussian, Laplace
from skdp.mechanisms._bounded_laplace import BoundedLaplace
from skdp.mechanisms._discrete import DiscreteGaussian, DiscreteLaplace
from skdp.mechanisms._mixed import MixedNoise
from skdp.mechanisms._randomized_response import CountEstimate, RandomizedResponse
from skdp.mechanisms._selection import Exponential, ReportNoisyMax
from skdp.mechanisms._smooth import SmoothSensitivity
from skdp.mechanisms._smooth_median import median_rank, smooth_sensitivity_median

__all__ = [
    "BoundedLaplace",
    "CountEstimate",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "GammaNorm",
    "Gaussian",
    "Laplace",
    "MixedNoise",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SmoothSensitivity",
    "median_rank",
    "sensitivity",
    "smooth_sensitivity_median",
]
