"""How linear models adapt to their noise: regularisation, clipping, margins.

All of it is made of public or released numbers. Recipes: chosen on the data sets named
in docs/linear_models.rst; they change accuracy only, never the guarantee.
"""

import math

import numpy as np

from skdp.erm.losses import Loss
from skdp.erm.plans import Budget

__all__ = [
    "LARGEST_MARGIN",
    "chosen_margin",
    "clipping_reach",
    "column_ridge",
    "output_ridge",
    "plain_ridge",
    "scaling_power",
]

_CURVATURE = 0.6  # typical second derivative of a loss, in terms of the largest
_EFFECT, _INTERCEPT = 1.5, 4.0  # typical coefficients, of rows of norm one
_OUTPUT_EFFECT = 5.0  # and of all coefficients together, for method="output"
_UNKNOWN_ROWS = 10_000.0  # where there is no public number
_NOISE_PULL = 20.0  # how far the linear term may pull coefficients, without scaling
_MOST_RIDGE = 1e6  # of a column, in terms of the smallest
_REACH, _LEAST_REACH, _REACH_LEVEL = 1.25, 0.7, 0.002  # clipping, and at which noise
_POWER, _MORE_POWER, _POWER_LEVEL = 0.25, 0.15, 0.0012  # scaling of 0/1 columns
LARGEST_MARGIN = 1.5  # that is chosen,
_LOW_NOISE, _HIGH_NOISE = 0.005, 0.05  # and the noise levels where it begins and ends


# --- Before the data is touched


def plain_ridge(loss: Loss, norm: float, budget: Budget, width: int) -> float:
    """Return a regularisation that keeps the noise small, without private scaling."""
    sigma = loss.lipschitz(norm) * (
        1 / budget.shift() if budget.delta else width / budget.epsilon
    )
    return sigma * math.sqrt(width) / (_NOISE_PULL * norm)


def output_ridge(
    loss: Loss,
    norm: float,
    budget: Budget,
    width: int,
    problems: int,
    count: float | None,
) -> float:
    """Balance the bias of the ridge with the noise on the minimiser."""
    if budget.delta:
        spread = 1 / budget.shift() ** 2
    else:
        spread = 2 * width * (budget.rows / budget.epsilon) ** 2
    noise = spread * width * loss.outputs * problems * loss.lipschitz(norm) ** 2
    expected = _CURVATURE * loss.smoothness(norm) * (count or _UNKNOWN_ROWS)
    return (expected * noise / (_OUTPUT_EFFECT / norm) ** 2) ** (1 / 3)


# --- After a look at the rows; level is the norm of the noise, in terms of the largest
# summed gradient


def clipping_reach(level: float) -> float:
    """Return where to clip, in root-mean-square norms: lower for more noise."""
    return min(max(_REACH * (level / _REACH_LEVEL) ** -0.2, _LEAST_REACH), _REACH)


def scaling_power(level: float) -> float:
    """Return how far 0/1 columns are standardised: rare ones are mostly noise."""
    doublings = math.log2(_POWER_LEVEL / max(level, 1e-12))
    return _POWER + _MORE_POWER * min(max(doublings, 0.0), 1.0)


def chosen_margin(level: float) -> float:
    """Return the margin of a logistic loss: larger for more noise."""
    rise = math.log(max(level / _LOW_NOISE, 1.0)) / math.log(_HIGH_NOISE / _LOW_NOISE)
    return LARGEST_MARGIN * min(rise, 1.0)


def column_ridge(
    least: float,
    bend: float,
    std: float,
    count: float,
    variances: np.ndarray,
    constant: bool,
) -> np.ndarray:
    """Return the regularisation of each column: more where there is less signal.

    Parameters
    ----------
    least : float
        Smallest regularisation, which the guarantee is about.
    bend : float
        Largest second derivative of the loss.
    std : float
        Noise on the summed gradient.
    count : float
        Number of rows.
    variances : ndarray
        Variances of the columns.
    constant : bool
        Whether the last column is the constant.
    """
    curvature = _CURVATURE * bend * count * variances
    effect = np.full(variances.size, _EFFECT)
    if constant:
        effect[-1] = _INTERCEPT
    wanted = std**2 / (np.maximum(curvature, 1e-12) * effect**2)
    return np.clip(wanted, least, _MOST_RIDGE * least)
