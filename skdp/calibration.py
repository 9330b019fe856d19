"""From a privacy target to the smallest noise that meets it.

References
----------
Balle and Wang (2018). Improving the Gaussian mechanism for differential privacy.
Holohan, Antonatos, Braghin and Mac Aonghusa (2020). The bounded Laplace mechanism in
differential privacy.
"""

import math
from functools import lru_cache

from scipy.optimize import brentq

from skdp.divergences import DISCRETE_SLACK, gaussian_profile, zcdp_profile
from skdp.events import ObjectivePerturbation
from skdp.validation import (
    Neighboring,
    check_delta,
    check_epsilon,
    check_option,
    check_real,
)

__all__ = [
    "bounded_laplace_scale",
    "gaussian_shift",
    "gaussian_sigma",
    "objective_shifts",
    "zcdp_rho",
]

_SMALLEST_DELTA = 1e-22
_SMALLEST_OBJECTIVE_DELTA = 1e-20  # the slack for its grid is a third of it
_SAFETY = 1e-11  # relative; the profiles are accurate to 6e-12
_DESCENT = (1 - 1e-6, 0.999, 0.99, 0.97, *(0.9,) * 15, *(0.5,) * 4, *(0.1,) * 4)


def _check_target(epsilon: float) -> float:
    """Return an epsilon whose square and inverse float64 can hold."""
    epsilon = check_epsilon(epsilon)
    if not 1e-100 <= epsilon <= 1e100:
        raise ValueError(
            "The 'epsilon' parameter must be in the range [1e-100, 1e100]. "
            f"Got {epsilon!r}."
        )
    return epsilon


def _check_gaussian_delta(delta: float) -> float:
    delta = check_delta(delta, positive=True)
    if delta < _SMALLEST_DELTA:
        raise ValueError(
            f"The 'delta' parameter of Gaussian noise must be at least "
            f"{_SMALLEST_DELTA:g}. Got {delta!r}; use Laplace noise for delta = 0."
        )
    return delta


def _largest(profile, epsilon: float, delta: float, start: float) -> float:
    """Return the largest parameter whose profile at epsilon is at most delta."""

    def excess(log_parameter: float) -> float:
        value = profile(epsilon, math.exp(log_parameter))
        return math.log(max(value, 1e-300)) - math.log(delta)

    low = high = math.log(start)
    while excess(low) > 0:
        low -= 1
    while excess(high) < 0:
        high += 1
    root = brentq(excess, low, high, xtol=1e-15, rtol=1e-15)
    return math.exp(root) * (1 - _SAFETY)


def gaussian_shift(epsilon: float, delta: float) -> float:
    """Return the largest sensitivity/sigma that is (epsilon, delta)-DP.

    Examples
    --------
    >>> from skdp.calibration import gaussian_shift
    >>> round(gaussian_shift(1.0, 1e-6), 6)
    0.236704
    """
    epsilon, delta = _check_target(epsilon), _check_gaussian_delta(delta)
    start = epsilon / math.sqrt(2 * (epsilon - math.log(delta)))
    return _largest(gaussian_profile, epsilon, delta - DISCRETE_SLACK, start)


def gaussian_sigma(
    epsilon: float, delta: float, sensitivity: float = 1.0, method: str = "exact"
) -> float:
    """Return the standard deviation of Gaussian noise for an L2 sensitivity.

    Parameters
    ----------
    epsilon, delta : float
        Privacy target.
    sensitivity : float
        L2 sensitivity.
    method : {"exact", "classic"}
        "exact" is the smallest possible sigma. "classic" is the textbook's
        sqrt(2 ln(1.25/delta))/epsilon, valid for epsilon < 1 only, and larger.

    Examples
    --------
    >>> from skdp.calibration import gaussian_sigma
    >>> round(gaussian_sigma(0.5, 1e-6), 3)
    8.058
    >>> round(gaussian_sigma(0.5, 1e-6, method="classic"), 3)
    10.598
    """
    sensitivity = check_real(sensitivity, "sensitivity", low=0)
    if check_option(method, "method", ("exact", "classic")) == "exact":
        return sensitivity / gaussian_shift(epsilon, delta)
    epsilon, delta = _check_target(epsilon), _check_gaussian_delta(delta)
    if epsilon >= 1:
        raise ValueError(
            "The 'epsilon' parameter of the classic calibration must be in the range "
            f"(0, 1): its proof does not hold above. Got {epsilon!r}; use 'exact'."
        )
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP.

    Examples
    --------
    >>> from skdp.calibration import zcdp_rho
    >>> round(zcdp_rho(1.0, 1e-6), 5)
    0.02436
    """
    epsilon, delta = _check_target(epsilon), check_delta(delta, positive=True)
    if delta < 1e-200:
        raise ValueError(
            f"The 'delta' parameter must be at least 1e-200. Got {delta!r}."
        )
    start = epsilon**2 / (4 * (epsilon - math.log(delta)))
    return _largest(zcdp_profile, epsilon, delta, start)


def bounded_laplace_scale(
    epsilon: float, delta: float, sensitivity: float, width: float, size: int = 1
) -> float:
    """Return the smallest scale of Laplace noise cut off to an interval of integers.

    The output k in {0, ..., width} has probability proportional to
    ``exp(-|k - q|/t)``. The normaliser depends on q, which costs privacy: the scale t
    is the smallest with
    ``s/t + size * log(Z(s/size)/Z(0)) <= epsilon - log(1 - delta)``, where Z(q) is the
    normaliser and s the L1 sensitivity over ``size`` coordinates. log Z is concave, so
    that equal shares from the edge are the worst change.

    Examples
    --------
    >>> from skdp.calibration import bounded_laplace_scale
    >>> round(bounded_laplace_scale(1.0, 0.0, 2**40, 2**42) / 2**40, 3)
    1.567
    """
    target = _check_target(epsilon) - math.log1p(-check_delta(delta))

    def loss(scale: float) -> float:
        share = sensitivity / size
        # Z(share)/Z(0) - 1 as a product: no cancellation, however small epsilon is.
        inner, outer = math.expm1(-share / scale), math.expm1(-(width - share) / scale)
        gain = math.exp(-1 / scale) * inner * outer / -math.expm1(-(width + 1) / scale)
        return sensitivity / scale + size * math.log1p(gain)

    goal = target * (1 - 1e-12)
    low = sensitivity / target
    high = brentq(lambda t: loss(t) - goal, low, 2.1 * low, xtol=1e-300, rtol=1e-14)
    while loss(high) > goal:
        high *= 1 + 1e-13
    return high


def objective_shifts(
    epsilon: float,
    delta: float,
    curvature: float,
    *,
    loss: str = "logistic",
    classes: int = 2,
    gaussian_share: float = 0.0,
    neighboring: Neighboring = "replace",
) -> tuple[float, float]:
    """Return the largest shifts of objective perturbation and of Gaussian releases.

    They are ``shift`` and ``gaussian_shift`` of
    :class:`~skdp.events.ObjectivePerturbation`, whose other parameters are as here.

    Parameters
    ----------
    epsilon, delta : float
        Privacy target.
    curvature, loss, classes, neighboring
        See :class:`~skdp.events.ObjectivePerturbation`.
    gaussian_share : float
        Share in [0, 1) of the Gaussian releases in the sum of the squared shifts. For
        "softmax" the squared shift of the objective counts twice.

    Examples
    --------
    >>> from skdp.calibration import objective_shifts
    >>> shift, gaussian = objective_shifts(1.0, 1e-6, 0.5, gaussian_share=0.2)
    >>> round(shift, 4), round(gaussian, 4)
    (0.1054, 0.0527)
    """
    epsilon, delta = _check_target(epsilon), check_delta(delta, positive=True)
    if delta < _SMALLEST_OBJECTIVE_DELTA:
        raise ValueError(
            "The 'delta' parameter of objective perturbation must be at least "
            f"{_SMALLEST_OBJECTIVE_DELTA:g}. Got {delta!r}."
        )
    share = check_real(gaussian_share, "gaussian_share", low=0, high=1, closed="left")
    return _objective_shifts(
        epsilon, delta, curvature, loss, classes, share, neighboring
    )


@lru_cache(maxsize=256)
def _objective_shifts(
    epsilon: float,
    delta: float,
    curvature: float,
    loss: str,
    classes: int,
    share: float,
    neighboring: Neighboring,
) -> tuple[float, float]:
    weight = 2 if loss == "softmax" else 1

    def shifts(total: float) -> tuple[float, float]:
        return total * math.sqrt((1 - share) / weight), total * math.sqrt(share)

    def profile(log_total: float) -> float:
        m, g = shifts(math.exp(log_total))
        event = ObjectivePerturbation(m, curvature, loss, classes, g, neighboring)
        return event.profile(epsilon)

    def excess(log_total: float) -> float:
        return math.log(profile(log_total)) - math.log(delta)

    # No shift is larger than that of the Gaussian mechanism. A larger shift may pass
    # where a smaller one does not (it leaves less curvature): the search goes down.
    high = math.log(gaussian_shift(epsilon, delta))
    high -= math.log(2) if neighboring == "replace" else 0.0
    for factor in _DESCENT:
        low = high + math.log(factor)
        if excess(low) <= 0:
            break
        high = low
    else:
        raise ValueError(
            f"The 'curvature' parameter must be smaller for epsilon = {epsilon!r}: "
            f"alone it costs more than that. Got {curvature!r}; use more "
            "regularisation."
        )
    root = low
    if excess(high) > 0:
        root = brentq(excess, low, high, xtol=1e-13, rtol=1e-15)
    step = 1e-12
    while profile(root) > delta:
        root, step = root - step, 2 * step
    return shifts(math.exp(root))
