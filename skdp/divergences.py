"""Privacy curves in closed form: hockey sticks, Renyi divergences, conversions.

A *profile* maps epsilon to the smallest delta, a *curve* maps Renyi orders (numbers
above one) to the Renyi divergence. Where float64 cannot give a value exactly, the
result is rounded up.

References
----------
Balle and Wang (2018). Improving the Gaussian mechanism for differential privacy.
Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy.
Dong, Durfee and Rogers (2020). Optimal differential privacy composition for
exponential mechanisms.
Mironov (2017). Renyi differential privacy.
Mironov, Talwar and Zhang (2019). Renyi differential privacy of the sampled Gaussian
mechanism.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, gammaln, log_ndtr, logsumexp, ndtr

__all__ = [
    "DEFAULT_ORDERS",
    "DISCRETE_SLACK",
    "bounded_range_profile",
    "bounded_range_rdp",
    "delta_from_rdp",
    "epsilon_from_profile",
    "epsilon_from_rdp",
    "gaussian_profile",
    "gaussian_profiles",
    "laplace_profile",
    "laplace_rdp",
    "pure_profile",
    "pure_rdp",
    "sampled_gaussian_rdp",
    "zcdp_profile",
]

#: The discrete Gaussian with at least 2**42 grid steps to its sigma has the profile of
#: the continuous one up to less than this (docs, theory of noise).
DISCRETE_SLACK = 2.0**-78

#: Renyi orders used where a conversion does not choose its own.
DEFAULT_ORDERS = np.concatenate(
    [
        1 + np.geomspace(1e-3, 1, 25),
        np.geomspace(2.2, 64, 40),
        np.geomspace(70, 1e6, 60),
    ]
)


_HOPELESS = 1e3  # an epsilon above is its own Renyi bound

# --- Profiles: epsilon -> delta


def pure_profile(epsilon: float, pure: float) -> float:
    """Return the profile of randomised response, the worst of all ``pure``-DP pairs."""
    if epsilon >= pure:
        return 0.0
    # (e^pure - e^epsilon) / (1 + e^pure)
    return -math.expm1(epsilon - pure) / (1 + math.exp(-pure))


def bounded_range_profile(epsilon: float, width: float) -> float:
    """Return the worst profile of a mechanism whose loss has range ``width``."""
    if epsilon >= width:
        return 0.0
    root = -math.expm1((epsilon - width) / 2)
    return root**2 / -math.expm1(-width)


def laplace_profile(epsilon: float, shift: float) -> float:
    """Return the profile of Laplace noise, ``shift`` = sensitivity / scale."""
    if epsilon >= shift:
        return 0.0
    if epsilon <= -shift:
        return -math.expm1(epsilon)
    return -math.expm1((epsilon - shift) / 2)


def gaussian_profile(epsilon: float, shift: float) -> float:
    """Return the profile of Gaussian noise, ``shift`` = sensitivity / sigma."""
    if shift == 0:
        return max(0.0, -math.expm1(epsilon))
    if shift < 1e-3 and epsilon >= 0:
        return float(_small_gaussian_profiles(np.float64(epsilon), shift))
    upper = shift / 2 - epsilon / shift
    lower = -shift / 2 - epsilon / shift
    if upper > 0:
        second = epsilon + float(log_ndtr(lower))
        return max(0.0, float(ndtr(upper)) - math.exp(min(second, 0.0)))
    # exp(epsilon) phi(lower) = phi(upper): with Mills ratios nothing overflows.
    root = math.sqrt(2)
    mills = float(erfcx(-upper / root) - erfcx(-lower / root))
    return max(0.0, 0.5 * math.exp(-(upper**2) / 2) * mills)


def gaussian_profiles(epsilons: np.ndarray, shift: float) -> np.ndarray:
    """Return the profile of Gaussian noise at each epsilon, negative ones included."""
    size = np.abs(epsilons)
    excess = np.where(epsilons < 0, -np.expm1(-size), 0.0)
    if shift == 0:
        return excess
    if shift < 0.02:
        delta = _small_gaussian_profiles(size, shift)
    else:
        upper, lower = shift / 2 - size / shift, shift / 2 + size / shift
        # The same Mills ratios as above; where `upper` is large, one would overflow.
        density = 0.5 * np.exp(-(upper**2) / 2)
        far = density * erfcx(np.maximum(-upper, 0.0) / math.sqrt(2))
        delta = np.where(upper > 0, ndtr(upper), far)
        delta = delta - density * erfcx(lower / math.sqrt(2))
    # The profile of any symmetric pair at -epsilon follows from that at epsilon.
    return excess + np.where(epsilons < 0, np.exp(-size), 1.0) * np.maximum(delta, 0.0)


def _small_gaussian_profiles(epsilons: np.ndarray, shift: float) -> np.ndarray:
    """Return the profiles by a Taylor series of the Mills ratio in the shift.

    The difference of two Mills ratios ``shift`` apart would lose all its digits. The
    epsilons are >= 0.
    """
    with np.errstate(over="ignore"):
        x = np.minimum(epsilons / shift, 50.0)  # its density is zero in float64
    mills = math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    first = x * mills - 1
    second = mills + x * first
    third = 2 * first + x * second
    fifth = 4 * third + x * (3 * second + x * third)
    series = shift * (first + shift**2 * third / 24 + shift**4 * fifth / 1920)
    density = np.exp(-((x - shift / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
    return np.maximum(-density * series, 0.0)


def _exp(log_delta: float) -> float:
    """Return a delta that is not 0: an underflow is no pure privacy."""
    return max(math.exp(log_delta), 5e-324)


def zcdp_profile(epsilon: float, rho: float) -> float:
    """Return the smallest delta that follows from rho-zCDP."""
    if rho == 0:
        return max(0.0, -math.expm1(epsilon))

    def log_delta(log_gap: np.ndarray) -> np.ndarray:
        gap = np.exp(log_gap)  # the order less one
        exponent = gap * ((1 + gap) * rho - epsilon)
        return exponent - log_gap - (1 + gap) * np.log1p(1 / gap)

    # Every order gives a bound. A grid finds the best one roughly, then a search.
    largest = min(max(1 / math.sqrt(rho), epsilon / rho, 1.0), 1e150)
    grid = np.linspace(-7.0, math.log(largest) + 3, 200)
    best = grid[np.argmin(log_delta(grid))]
    step = grid[1] - grid[0]
    found = minimize_scalar(
        log_delta, bounds=(best - step, best + step), method="bounded"
    )
    return _exp(min(0.0, float(found.fun), float(log_delta(best))))


# --- Renyi divergences: orders -> epsilon


def pure_rdp(orders: np.ndarray, pure: float) -> np.ndarray:
    """Return the Renyi curve of randomised response with parameter ``pure``."""
    orders = np.asarray(orders, dtype=float)
    if pure > _HOPELESS:
        return np.full(orders.shape, pure)
    log_keep = -math.log1p(math.exp(-pure))
    # Both answers: keep^a flip^(1-a) + flip^a keep^(1-a), flip = keep exp(-pure).
    log_sum = np.logaddexp((orders - 1) * pure, -orders * pure)
    return _renyi(orders, log_keep + log_sum, pure)


def laplace_rdp(orders: np.ndarray, shift: float) -> np.ndarray:
    """Return the Renyi curve of Laplace noise, ``shift`` = sensitivity / scale."""
    orders = np.asarray(orders, dtype=float)
    if shift > _HOPELESS:
        return np.full(orders.shape, shift)
    log_sum = np.logaddexp(
        np.log(orders) + (orders - 1) * shift, np.log(orders - 1) - orders * shift
    )
    return _renyi(orders, log_sum - np.log(2 * orders - 1), shift)


def bounded_range_rdp(orders: np.ndarray, width: float) -> np.ndarray:
    """Return the worst Renyi curve of a mechanism whose loss has range ``width``."""
    orders = np.asarray(orders, dtype=float)
    if width > _HOPELESS:
        return np.full(orders.shape, width)
    limit = np.minimum(orders * width**2 / 8, width)
    if width < 1e-2:  # tight, and free of cancellation
        return limit
    gap = orders - 1
    # The loss is t or t - width; with u = e^t the moment is
    # u^gap ((e^width - c) - u (1 - c)) / (e^width - 1), c = e^(-gap width).
    log_total = width + np.log1p(-np.exp(-width - gap * width))  # log(e^width - c)
    log_rest = np.log(-np.expm1(-gap * width))  # log(1 - c)
    log_u = np.clip(np.log(gap / orders) + log_total - log_rest, 0.0, width)
    inner = -np.expm1(log_u + log_rest - log_total)
    log_moment = (
        gap * log_u + log_total + np.log(inner) - width - math.log(-math.expm1(-width))
    )
    return np.minimum(_renyi(orders, log_moment, width), limit)


def _renyi(orders: np.ndarray, log_moment: np.ndarray, pure: float) -> np.ndarray:
    """Divide a log moment by (order - 1), within what pure DP allows.

    For a small epsilon the moment is a difference of nearly equal numbers: its
    rounding error is added to it.
    """
    rounding = 4e-15 * (1 + orders * pure + np.log(orders))
    curve = np.maximum(log_moment + rounding, 0.0) / (orders - 1)
    return np.minimum(curve, np.minimum(pure, orders * pure**2 / 2))


def sampled_gaussian_rdp(
    orders: np.ndarray, noise_multiplier: float, sampling_probability: float
) -> np.ndarray:
    """Return the Renyi curve of one Poisson-sampled Gaussian step (add or remove)."""
    orders = np.asarray(orders, dtype=float)
    moments = [
        _sampled_gaussian_log_moment(a, noise_multiplier, sampling_probability)
        for a in orders.ravel()
    ]
    return np.array(moments).reshape(orders.shape) / (orders - 1)


def _sampled_gaussian_log_moment(order: float, sigma: float, q: float) -> float:
    """Return log E ((1 - q) + q N(1, sigma^2)/N(0, sigma^2))^order under N(0, sigma^2).

    A binomial sum at integer orders and the trapezoidal rule, which converges
    geometrically for such integrands, between them. The log moment is convex in the
    order: where that costs too much, the chord between integers is an upper bound.
    """
    if q == 0:
        return 0.0
    if q == 1 or order > 20_000:  # no amplification is claimed at huge orders
        return order * (order - 1) / (2 * sigma**2)
    if order == int(order):
        return _binomial_log_moment(int(order), sigma, q)
    if order > 256 or sigma < 0.05:
        low, high = (_binomial_log_moment(int(order) + i, sigma, q) for i in (0, 1))
        return low + (order - int(order)) * (high - low)
    x = np.arange(-20 * sigma, order + 20 * sigma, sigma / 40)
    shift = (2 * x - 1) / (2 * sigma**2)
    ratio = np.logaddexp(math.log1p(-q), math.log(q) + shift)
    log_weight = -0.5 * (x / sigma) ** 2 - math.log(40 * math.sqrt(2 * math.pi))
    if order * ratio.max() > 600:
        return max(0.0, float(logsumexp(order * ratio + log_weight)))
    # The ratio has mean 1; without it the sum is accurate when it is near 0, too.
    small = np.log1p(q * np.expm1(np.minimum(shift, 700)))
    series = small**2 * (
        order * (order - 1) / 2
        + small * (order**3 - order) / 6
        + small**2 * (order**4 - order) / 24
        + small**3 * (order**5 - order) / 120
    )
    excess = np.expm1(order * small) - order * np.expm1(small)
    excess = np.where(np.abs(order * small) < 1e-3, series, excess)
    return math.log1p(max(0.0, float(np.sum(np.exp(log_weight) * excess))))


def _binomial_log_moment(order: int, sigma: float, q: float) -> float:
    """Return log(1 + sum over k >= 2 of the binomial weights times e^(...) - 1)."""
    if order < 2:
        return 0.0
    k = np.arange(2, order + 1)
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms = log_binomial + k * math.log(q) + (order - k) * math.log1p(-q)
    exponent = k * (k - 1) / (2 * sigma**2)
    growth = exponent + np.log(-np.expm1(-exponent))  # log(e^exponent - 1)
    return float(np.logaddexp(0.0, logsumexp(terms + growth)))


# --- Conversions


def epsilon_from_rdp(orders: np.ndarray, curve: np.ndarray, delta: float) -> float:
    """Return the smallest epsilon that a Renyi curve gives at ``delta``."""
    orders, curve = np.asarray(orders, dtype=float), np.asarray(curve, dtype=float)
    if delta == 0:
        return math.inf
    epsilon = (
        curve
        + np.log1p(-1 / orders)
        - (math.log(delta) + np.log(orders)) / (orders - 1)
    )
    return max(0.0, float(np.min(epsilon)))


def delta_from_rdp(orders: np.ndarray, curve: np.ndarray, epsilon: float) -> float:
    """Return the smallest delta that a Renyi curve gives at ``epsilon``."""
    orders, curve = np.asarray(orders, dtype=float), np.asarray(curve, dtype=float)
    exponent = (orders - 1) * (curve - epsilon + np.log1p(-1 / orders))
    return _exp(min(0.0, float(np.min(exponent - np.log(orders)))))


def epsilon_from_profile(profile: Callable[[float], float], delta: float) -> float:
    """Return the smallest epsilon >= 0 with profile(epsilon) <= delta, or inf.

    The result is rounded up, so that the profile there is at most ``delta``.
    """
    if profile(0.0) <= delta:
        return 0.0
    high = 1.0
    while profile(high) > delta:
        high *= 2
        if high > 1e12:
            return math.inf
    while high <= 1.0 and high > 1e-15 and profile(high / 2) <= delta:
        high /= 2
    low = high / 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if profile(middle) <= delta:
            high = middle
        else:
            low = middle
    return high
