"""Objective perturbation: its bounds against brute force, quadrature and audits."""

import itertools
import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr

from skdp import events
from skdp.accounting import BudgetAccountant
from skdp.calibration import gaussian_shift, objective_shifts
from skdp.divergences import (
    DEFAULT_ORDERS,
    DISCRETE_SLACK,
    epsilon_from_rdp,
    gaussian_profile,
    gaussian_profiles,
)
from skdp.events import ObjectivePerturbation
from skdp.exceptions import BudgetExceededError, UnsupportedEventError

RELATIONS = ("replace", "add_remove")
GLM = ("logistic", "one_sided", "two_sided")
SLACK = 2**10 * DISCRETE_SLACK


def event_of(m, q, loss="logistic", classes=2, g=0.0, neighboring="add_remove"):
    return ObjectivePerturbation(m, q, loss, classes, g, neighboring)


# --- The bound of the loss, written down once more


def logistic_bound(v, m, q):
    """Return max over s in [0, 1] of s v + s^2 m^2/2 + s (1 - s) q."""
    kappa = q - m**2 / 2
    ends = max(0.0, v + m**2 / 2)
    if kappa <= 0:
        return ends
    best = min(max((v + q) / (2 * kappa), 0.0), 1.0)
    return max(ends, best * (v + q) - best**2 * kappa)


def bound(loss, v, m, q):
    if loss == "logistic":
        return logistic_bound(v, m, q)
    size = abs(v) if loss == "two_sided" else max(0.0, v + m**2 / 2) - m**2 / 2
    return math.log1p(q) + m**2 / 2 + size


def replaced_bound(loss, v, m, q):
    if loss == "logistic":
        after = logistic_bound(v + m**2, m, q)
        return max(logistic_bound(v, m, q), v + m**2 / 2 + after)
    if loss == "one_sided":
        return math.log1p(q) + max(0.0, 2 * v + 2 * m**2)
    return math.log1p(q) + 2 * abs(v) + 2 * m**2


def kinks(m, q):
    found = [-q - m**2, -q, q - 2 * m**2, q - m**2, -(m**2) / 2, -(m**2), 0.0]
    return [v for v in found if abs(v) < 14 * m]


def expectation(function, m, points):
    """Return E function(v) for v ~ N(0, m^2), by many short integrals."""
    cuts = np.unique([*np.arange(-14, 15) * m, *points])
    cuts = cuts[np.abs(cuts) <= 14 * m]
    return math.fsum(
        quad(
            lambda v: function(v) * math.exp(-((v / m) ** 2) / 2),
            low,
            high,
            epsabs=0,
            epsrel=1e-10,
            limit=100,
        )[0]
        for low, high in itertools.pairwise(cuts)
    ) / (m * math.sqrt(2 * math.pi))


def removal_delta(loss, m, q, g, epsilon):
    """Return E d_G(epsilon - F; g), by adaptive integration."""

    def inner(v):
        return gaussian_profile(epsilon - bound(loss, v, m, q), g)

    level, points = epsilon, kinks(m, q)
    grid = np.linspace(-14 * m, 14 * m, 4001)
    above = np.array([bound(loss, v, m, q) for v in grid]) > level
    for i in np.nonzero(np.diff(above))[0]:  # where the loss crosses epsilon
        low, high = grid[i], grid[i + 1]
        for _ in range(60):
            middle = (low + high) / 2
            same = (bound(loss, middle, m, q) > level) == above[i]
            low, high = (middle, high) if same else (low, middle)
        points += [low + k * g for k in range(-8, 9)]
    return expectation(inner, m, points)


def union_parts(classes, m, q):
    kappa = max(0.0, q - m**2 / 2)
    parts = [(classes - 1, m**2, math.sqrt(2) * m)]
    if q > 0:
        pairs = (classes - 1) * (classes - 2) / 2
        parts.append((pairs, kappa + m**2, math.sqrt(1.5) * m))
    return 2 * kappa, parts


def union_expectation(function, classes, m, q, points=()):
    """Return E function(T) for an increasing function: by parts, over T's tail."""
    start, parts = union_parts(classes, m, q)

    def tail(t):
        return min(1.0, sum(w * ndtr((mean - t) / std) for w, mean, std in parts))

    def density(t):
        rises = tail(t) < 1
        return rises * sum(
            w * math.exp(-(((t - mean) / std) ** 2) / 2) / (std * math.sqrt(2 * mp.pi))
            for w, mean, std in parts
        )

    low, high = start, start + 20 * m + 2 * m**2
    if tail(start) == 1:
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(middle) == 1 else (low, middle)
        start = high
    end = start + 20 * m + 2 * m**2
    cuts = np.unique([*np.linspace(start, end, 60), *points])
    cuts = cuts[(cuts >= start) & (cuts <= end)]
    smooth = math.fsum(
        quad(lambda t: function(t) * density(t), a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in itertools.pairwise(cuts)
    )
    return (1 - tail(start)) * function(start) + smooth


# --- Profiles


@pytest.mark.parametrize("g", [0.0, 0.01, 0.15, 1.0])
@pytest.mark.parametrize("loss", GLM)
@pytest.mark.parametrize(
    ("m", "q", "epsilon"),
    [(0.2, 0.5, 1.0), (0.2, 1.5, 0.5), (0.5, 0.1, 1.0), (1.5, 2.0, 3.0), (0.3, 0, 0)],
)
def test_removal_is_the_integral(loss, m, q, epsilon, g):
    truth = removal_delta(loss, m, q, g, epsilon)
    value = event_of(m, q, loss, g=g).profile(epsilon)
    assert value == pytest.approx(truth, rel=1e-7, abs=2 * SLACK)
    assert value >= truth * (1 - 1e-9)


@pytest.mark.parametrize("g", [0.0, 0.2])
@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize(
    ("m", "q", "epsilon"), [(0.15, 0.2, 1.0), (0.15, 0.6, 1.0), (0.8, 0.1, 2.0)]
)
def test_removal_of_softmax_is_the_integral(classes, m, q, epsilon, g):
    points = [epsilon + k * max(g, 0.01) for k in range(-8, 9)]
    truth = union_expectation(
        lambda t: gaussian_profile(epsilon - t, g), classes, m, q, points
    )
    value = event_of(m, q, "softmax", classes, g).profile(epsilon)
    assert value == pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize("loss", (*GLM, "softmax"))
@pytest.mark.parametrize("g", [0.0, 0.1])
@pytest.mark.parametrize(("m", "q", "epsilon"), [(0.2, 0.3, 1.0), (0.1, 0.4, 0.5)])
def test_replacement_is_the_best_split(loss, m, q, g, epsilon):
    classes = 3 if loss == "softmax" else 2
    one = event_of(m, q, loss, classes, g)
    none = event_of(m, 0.0, loss, classes, g)
    splits = np.linspace(0, epsilon, 601)
    best = min(
        none.profile(first) + math.exp(first) * one.profile(epsilon - first)
        for first in splits
    )
    value = event_of(m, q, loss, classes, g, "replace").profile(epsilon)
    assert best * (1 - 1e-3) <= value <= best * (1 + 1e-6)


@pytest.mark.parametrize("m", [1e-9, 1e-3, 0.2, 2.0])
@pytest.mark.parametrize("level", [0.0, 0.5, 3.0])
def test_a_removed_row_of_logistic_loss_is_a_gaussian(m, level):
    """Up to a curvature of epsilon, the profile is that of Gaussian noise."""
    epsilon = level * m + m**2 / 2
    for share in (0.0, 0.5, 1.0):
        value = event_of(m, share * epsilon).profile(epsilon)
        exact = gaussian_profile(epsilon, m)
        assert value == pytest.approx(exact, rel=1e-8, abs=2 * SLACK)
        assert value >= exact


@pytest.mark.parametrize(("m", "epsilon"), [(0.1, 0.5), (0.3, 1.0), (0.05, 0.2)])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_replaced_row_of_logistic_loss_is_a_gaussian(m, epsilon, share):
    q = share * (epsilon + m**2) / 2
    value = event_of(m, q, neighboring="replace").profile(epsilon)
    exact = gaussian_profile(epsilon, 2 * m)
    assert exact <= value <= exact * (1 + 1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e-9, 1e-4, 0.0199, 0.0201, 0.5, 3.0, 40.0])
def test_gaussian_profiles_are_exact(shift):
    scale = shift + shift**2 if shift else 1.0
    epsilons = np.array([-9, -3, -1, -0.5, -0.1, 0, 0.1, 0.5, 1, 3, 9]) * scale
    with mp.workdps(60):

        def exact(epsilon):
            if shift == 0:
                return max(mp.mpf(0), -mp.expm1(epsilon))
            s, e = mp.mpf(shift), mp.mpf(epsilon)
            return mp.ncdf(s / 2 - e / s) - mp.exp(e) * mp.ncdf(-s / 2 - e / s)

        truth = [float(exact(float(epsilon))) for epsilon in epsilons]
    values = gaussian_profiles(epsilons, shift)
    np.testing.assert_allclose(values, truth, rtol=1e-10, atol=1e-40)


# --- The bound itself, by brute force


@pytest.mark.parametrize(("m", "q"), [(0.3, 0.01), (0.3, 0.5), (1.0, 5.0), (2.0, 1.0)])
def test_logistic_bound_covers_every_slope(m, q):
    s = np.linspace(0, 1, 2001)
    for v in np.linspace(-8, 8, 161) * m:
        loss = s * v + s**2 * m**2 / 2 + np.log1p(s * (1 - s) * q)
        assert loss.max() <= logistic_bound(v, m, q) + 1e-12
        assert (s * v + s**2 * m**2 / 2).max() <= logistic_bound(v, m, 0.0) + 1e-12


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize(("m", "q"), [(0.3, 0.01), (0.3, 0.5), (1.0, 5.0), (2.0, 1.0)])
def test_softmax_bound_covers_every_prediction(classes, m, q):
    """For every noise and all probabilities: no random failure is possible."""
    rng = np.random.default_rng(0)
    start, _ = union_parts(classes, m, q)
    p = np.vstack(
        [rng.dirichlet(np.full(classes, a), 300) for a in (0.05, 0.3, 1, 5)]
        + [np.eye(classes)]
    )
    change = p - np.eye(classes)[0]
    blocks = p[:, :, None] * (np.eye(classes) - p[:, None, :])
    volume = np.linalg.slogdet(np.eye(classes) + q * blocks)[1]
    base = (change**2).sum(axis=1) * m**2 / 2
    for v in rng.standard_normal((200, classes)) * m * rng.choice([1, 3], (200, 1)):
        a = v[1:] - v[0] + m**2
        pairs = [(x + y + start) / 2 for x, y in itertools.combinations(a, 2)]
        loss = change @ v + base
        assert (loss + volume).max() <= max(start, *a, *pairs, 0.0) + 1e-12
        assert (loss - volume).max() <= max(0.0, *a) + 1e-12


# --- Renyi curves

ORDERS = np.array([1.01, 1.5, 2.0, 8.0, 40.0])


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("loss", GLM)
@pytest.mark.parametrize(
    ("m", "q", "g"), [(0.2, 0.5, 0.0), (0.2, 0.01, 0.3), (1.0, 2.0, 0.1), (0.1, 3, 0)]
)
def test_renyi_curve_is_the_integral(loss, m, q, g, neighboring):
    law = bound if neighboring == "add_remove" else replaced_bound
    shift = g if neighboring == "add_remove" else 2 * g
    v = np.linspace(-1, 1, 200_001) * (100 * m**2 + 14 * m)  # the tilt included
    losses = np.array([law(loss, x, m, q) for x in v])
    log_density = -((v / m) ** 2) / 2 - math.log(m * math.sqrt(2 * math.pi))
    curve = event_of(m, q, loss, g=g, neighboring=neighboring).rdp(ORDERS)
    for order, value in zip(ORDERS, curve, strict=True):
        exponent = (order - 1) * losses + log_density
        top = exponent.max()
        moment = math.log(np.trapezoid(np.exp(exponent - top), v)) + top
        truth = order * shift**2 / 2 + moment / (order - 1)
        assert value == pytest.approx(truth, rel=2e-7)


@pytest.mark.parametrize("loss", GLM)
@pytest.mark.parametrize(("m", "q"), [(0.4, 0.5), (1.0, 2.0), (0.5, 0.05)])
def test_opposite_rows_are_the_worst_to_replace(loss, m, q):
    """Moments at every correlation of the two rows' noise, over all slopes."""
    x = np.linspace(-12, 12, 161)
    log_weight = -(x[:, None] ** 2 + x**2) / 2 + 2 * math.log(x[1] - x[0])
    log_weight = log_weight - math.log(2 * math.pi)
    ends = (-1.0, 1.0) if loss == "two_sided" else (0.0, 1.0)
    middle = np.linspace(0, 1, 31) if loss == "logistic" else ends
    orders = np.array([1.5, 4.0])
    claimed = event_of(m, q, loss, neighboring="replace").rdp(orders)
    for r in (-1.0, -0.6, 0.0, 0.4, 0.9, 1.0):
        v, z = m * x[:, None], m * (r * x[:, None] + math.sqrt(1 - r**2) * x)
        worst = np.full(z.shape, -np.inf)
        for s, t in itertools.product(middle, ends):
            volume = math.log1p(q * (s * (1 - s) if loss == "logistic" else 1))
            square = (s**2 + t**2 + 2 * r * s * t) * m**2 / 2
            worst = np.maximum(worst, s * v + t * z + square + volume)
        for order, most in zip(orders, claimed, strict=True):
            moment = np.exp((order - 1) * worst + log_weight).sum()
            assert math.log(moment) / (order - 1) <= most * (1 + 1e-3)  # the grid's


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize(("m", "q"), [(0.15, 0.2), (0.5, 0.1)])
def test_renyi_curve_of_softmax_is_the_integral(classes, m, q):
    curve = event_of(m, q, "softmax", classes, 0.1).rdp(ORDERS[:-1])
    for order, value in zip(ORDERS, curve, strict=False):
        moment = union_expectation(
            lambda t, order=order: math.exp((order - 1) * t), classes, m, q
        )
        truth = order * 0.1**2 / 2 + math.log(moment) / (order - 1)
        assert value == pytest.approx(truth, rel=1e-7)


def test_renyi_curve_of_replaced_softmax_is_a_triangle():
    event = event_of(0.2, 0.3, "softmax", 4, 0.1, "replace")
    one, none = (event_of(0.2, q, "softmax", 4) for q in (0.3, 0.0))
    orders = np.array([40.0, 1000.0])
    share = (orders - 0.5) / (orders - 1)
    truth = share * none.rdp(2 * orders) + one.rdp(2 * orders - 1)
    gaussian = orders * 0.2**2 / 2
    np.testing.assert_allclose(event.rdp(orders), truth + gaussian, rtol=1e-8)
    assert event.rdp([1.01])[0] <= event.rdp([1.5])[0] * (1 + 1e-9)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("loss", (*GLM, "softmax"))
def test_renyi_epsilon_covers_the_profile(loss, neighboring):
    event = event_of(0.2, 0.3, loss, g=0.1, neighboring=neighboring)
    for delta in (1e-9, 1e-5, 1e-2):
        renyi = epsilon_from_rdp(DEFAULT_ORDERS, event.rdp(DEFAULT_ORDERS), delta)
        assert event.epsilon(delta) <= renyi * (1 + 1e-9)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("loss", (*GLM, "softmax"))
def test_extremes_are_finite_and_ordered(loss, neighboring):
    values = (1e-9, 1e-3, 1.0, 1e4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for m, q, g in itertools.product(values, (0.0, *values), (0.0, 1e-9, 1e4)):
            event = event_of(m, q, loss, g=g, neighboring=neighboring)
            curve = event.rdp([1.001, 2.0, 1e6])
            assert not np.isnan(curve).any() and (curve >= 0).all()
            deltas = [event.profile(e) for e in (0.0, 1e-6, 1.0, 100.0, 1e5)]
            assert all(0 < d <= 1 for d in deltas)
            assert all(b <= a * (1 + 1e-6) for a, b in itertools.pairwise(deltas))


@pytest.mark.parametrize("field", ["shift", "curvature", "gaussian_shift"])
def test_huge_parameters_have_no_privacy(field):
    values = {"shift": 1.0, "curvature": 1.0} | {field: 1e300}
    event = ObjectivePerturbation(**values)
    assert event.profile(1.0) == 1
    assert np.isinf(event.rdp([2.0])).all()


# --- Calibration


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("loss", (*GLM, "softmax"))
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-6), (1.0, 0.1)]
)
def test_shifts_are_the_largest(loss, share, epsilon, delta, neighboring):
    q, classes = 0.2 * epsilon, 3 if loss == "softmax" else 2
    m, g = objective_shifts(
        epsilon,
        delta,
        q,
        loss=loss,
        classes=classes,
        gaussian_share=share,
        neighboring=neighboring,
    )
    weight = 2 if loss == "softmax" else 1
    assert g**2 == pytest.approx(share * (weight * m**2 + g**2), rel=1e-12)
    event = event_of(m, q, loss, classes, g, neighboring)
    assert event.profile(epsilon) <= delta
    more = event_of(m * (1 + 1e-5), q, loss, classes, g * (1 + 1e-5), neighboring)
    assert more.profile(epsilon) > delta


def test_shifts_are_those_of_the_gaussian_where_that_is_proved():
    ideal = gaussian_shift(1.0, 1e-6)
    m, _ = objective_shifts(1.0, 1e-6, 0.99, neighboring="add_remove")
    assert m == pytest.approx(ideal, rel=1e-9)
    m, _ = objective_shifts(1.0, 1e-6, 0.5)
    assert m == pytest.approx(ideal / 2, rel=1e-9)
    # A Gaussian release beside it costs next to nothing.
    for share, curvature, loss in (
        (0.2, 0.9, 3e-3),
        (0.1, 0.9, 1.5e-3),
        (0.2, 0.8, 1e-3),
    ):
        shifts = objective_shifts(
            1.0, 1e-6, curvature, gaussian_share=share, neighboring="add_remove"
        )
        assert ideal * (1 - loss) <= math.hypot(*shifts) <= ideal


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize(
    ("loss", "most"),
    [
        ("logistic", 4.0),
        ("softmax", 0.5),
        ("one_sided", math.e - 1),
        ("two_sided", math.e - 1),
    ],
)
def test_too_much_curvature_is_refused(loss, most, neighboring):
    options = {"loss": loss, "neighboring": neighboring}
    assert objective_shifts(1.0, 1e-6, 0.95 * most, **options)[0] > 0
    with pytest.raises(ValueError, match="'curvature' parameter must be smaller"):
        objective_shifts(1.0, 1e-6, 1.05 * most, **options)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1e-21}, "delta"),
        ({"curvature": -1.0}, "curvature"),
        ({"loss": "hinge"}, "loss"),
        ({"classes": 3}, "classes"),
        ({"gaussian_share": 1.0}, "gaussian_share"),
        ({"neighboring": "both"}, "neighboring"),
    ],
)
def test_bad_targets_are_named(changes, name):
    arguments = {"epsilon": 1.0, "delta": 1e-6, "curvature": 0.1} | changes
    with pytest.raises(ValueError, match=f"'{name}'"):
        objective_shifts(**arguments)


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_the_accountant_accepts_one(neighboring):
    m, g = objective_shifts(1.0, 1e-6, 0.4, gaussian_share=0.1, neighboring=neighboring)
    event = event_of(m, 0.4, g=g, neighboring=neighboring)
    accountant = BudgetAccountant(1.0, 1e-6, neighboring=neighboring)
    accountant.spend(event)
    with pytest.raises(BudgetExceededError):
        accountant.spend(event)


# --- Audits: the exact law of the minimiser, in one dimension


def log_minimiser_density(w, sigma, lam, rows, slope, curvature):
    """Return the log density at w of the minimiser, by a change of variables.

    ``rows`` are signed: the loss of a row x is l(x w), of slope and curvature given.
    """
    gradient = lam * w + sum(x * slope(x * w) for x in rows)
    hessian = lam + sum(x**2 * curvature(x * w) for x in rows)
    log_density = -((gradient / sigma) ** 2) / 2 - math.log(sigma)
    return log_density - math.log(2 * math.pi) / 2 + np.log(hessian)


WIDTH = 0.5  # of the smoothed parts of hinge and Huber loss

LOSSES = {  # slope, curvature, its supremum
    "logistic": (lambda z: -expit(-z), lambda z: expit(z) * expit(-z), 1.0),
    "one_sided": (
        lambda z: -np.clip((1 + WIDTH - z) / (2 * WIDTH), 0, 1),
        lambda z: (np.abs(1 - z) <= WIDTH) / (2 * WIDTH),
        1 / (2 * WIDTH),
    ),
    "two_sided": (
        lambda z: np.clip((z - 1) / WIDTH, -1, 1),
        lambda z: (np.abs(z - 1) <= WIDTH) / WIDTH,
        1 / WIDTH,
    ),
}


def exact_deltas(p, r, weights, epsilons):
    """Return the larger direction's hockey stick at each epsilon."""
    return [
        max(
            weights @ np.maximum(p - math.exp(epsilon) * r, 0),
            weights @ np.maximum(r - math.exp(epsilon) * p, 0),
        )
        for epsilon in epsilons
    ]


def audit(loss, m, q, before, after, epsilons, neighboring):
    """Return the exact divided by the claimed deltas, and Renyi divergences."""
    slope, curvature, sup = LOSSES[loss]
    sigma, lam = 1 / m, sup / q
    reach = (20 * sigma + len(before) + len(after) + 1) / lam
    fine = np.linspace(-5, 5, 100_001)  # where curvatures jump
    w = np.unique(np.append(np.linspace(-reach, reach, 30_001), fine))
    weights = np.convolve(np.diff(w), [0.5, 0.5])  # the trapezoidal rule
    log_p, log_r = (
        log_minimiser_density(w, sigma, lam, rows, slope, curvature)
        for rows in (before, after)
    )
    p, r = np.exp(log_p), np.exp(log_r)
    assert weights @ p == pytest.approx(1, abs=1e-4)
    claim = event_of(m, q, loss, neighboring=neighboring)
    exact = exact_deltas(p, r, weights, epsilons)
    deltas = [d / claim.profile(e) for d, e in zip(exact, epsilons, strict=True)]
    orders = np.array([1.5, 4.0])
    renyi = [
        math.log(weights @ np.exp(a * x + (1 - a) * y)) / (a - 1) / claimed
        for a, claimed in zip(orders, claim.rdp(orders), strict=True)
        for x, y in ((log_p, log_r), (log_r, log_p))
    ]
    return deltas, renyi


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("neighboring", "pairs"),
    [
        (
            "add_remove",
            [([], [1.0]), ([], [-0.6]), ([1.0], [1.0, 1.0]), ([1.0, -1.0], [1.0])],
        ),
        (
            "replace",
            [([1.0], [-1.0]), ([1.0], [0.5]), ([1.0, 1.0, -1.0], [1.0, -1.0, -1.0])],
        ),
    ],
)
@pytest.mark.parametrize(("m", "q"), [(0.3, 0.5), (0.5, 1.0), (1.0, 0.2), (1.0, 8.0)])
def test_the_exact_delta_is_never_above(loss, neighboring, pairs, m, q):
    for before, after in pairs:
        epsilons = (0.0, 0.3, 1.0, 2.0)
        deltas, renyi = audit(loss, m, q, before, after, epsilons, neighboring)
        assert max(*deltas, *renyi) <= 1 + 1e-3  # the grid's error, where slopes jump


@pytest.mark.parametrize(
    ("loss", "neighboring", "before", "after", "m", "q", "epsilon"),
    [
        ("logistic", "add_remove", [], [1.0], 0.5, 1.0, 1.0),
        ("one_sided", "add_remove", [], [1.0], 1.0, 0.5, 1.0),
        ("one_sided", "replace", [1.0], [-1.0], 1.0, 0.2, 1.0),
        ("two_sided", "add_remove", [], [1.0], 2.0, 0.2, 1.0),
        ("two_sided", "replace", [1.0], [-1.0], 1.0, 0.2, 1.0),
    ],
)
def test_the_exact_delta_is_at_least_half(
    loss, neighboring, before, after, m, q, epsilon
):
    assert audit(loss, m, q, before, after, [epsilon], neighboring)[0][0] >= 0.5


def log_plane_density(w, sigma, lam, rows, counts):
    """Return the log density of the minimiser of logistic loss in two dimensions."""
    gradient, h11, h22, h12 = lam * w, lam, lam, 0.0
    for x, count in zip(rows, counts, strict=True):
        z = w @ x
        gradient = gradient - count * expit(-z)[..., None] * x
        bend = count * expit(z) * expit(-z)
        h11, h22 = h11 + bend * x[0] ** 2, h22 + bend * x[1] ** 2
        h12 = h12 + bend * x[0] * x[1]
    square = (gradient**2).sum(axis=-1) / sigma**2
    return np.log(h11 * h22 - h12**2) - square / 2 - math.log(2 * math.pi * sigma**2)


@pytest.mark.parametrize(("m", "q"), [(1.0, 0.5), (0.7, 0.4)])
def test_a_replaced_row_of_logistic_loss_is_tight_in_the_plane(m, q):
    """On a line, the slopes of opposite rows sum to one: nothing is tight there.

    In the plane many other rows can bring the slopes of both near one.
    """
    up, angle = np.array([0.0, 1.0]), 0.3
    row, other = (
        np.array([side * math.cos(angle), -math.sin(angle)]) for side in (1, -1)
    )
    sigma, lam, many = 1 / m, 1 / q, 1e13
    w = np.stack(
        np.meshgrid(
            np.linspace(-9, 9, 801) * sigma / lam,
            np.linspace(14, 30, 801),
            indexing="ij",
        ),
        axis=-1,
    )
    cell = (w[1, 0, 0] - w[0, 0, 0]) * (w[0, 1, 1] - w[0, 0, 1])
    p, r = (
        np.exp(log_plane_density(w, sigma, lam, [up, x], [many, 1])).ravel()
        for x in (row, other)
    )
    assert cell * p.sum() == pytest.approx(1, abs=1e-6)
    claim = event_of(m, q, neighboring="replace")
    weights = np.full(p.size, cell)
    epsilons = (0.0, 0.5, 1.0, 2.0)
    exact = exact_deltas(p, r, weights, epsilons)
    ratios = [d / claim.profile(e) for d, e in zip(exact, epsilons, strict=True)]
    assert max(ratios) <= 1 + 1e-6
    assert ratios[2] >= 0.5


# --- What every event has


@pytest.mark.parametrize(
    "event",
    [
        event_of(0.1, 0.0),
        event_of(0.1, 0.5, "softmax", 7, 0.25, "replace"),
        event_of(1 / 3, 1e-9, "two_sided", g=1e-9),
    ],
)
def test_json_gives_the_event_back(event):
    back = events.from_json(event.to_json())
    assert back == event and hash(back) == hash(event)


def test_neither_a_pure_part_nor_a_loss_distribution():
    event = event_of(0.1, 0.5)
    assert event.basic() == (math.inf, 0.0)
    assert event.epsilon(0.0) == math.inf
    with pytest.raises(UnsupportedEventError, match="ObjectivePerturbation"):
        event.pld()


def test_groups_follow_from_the_profile():
    event = event_of(0.1, 0.2)
    assert events.Group(event, 2).profile(1.0) >= gaussian_profile(1.0, 0.2)
    assert event.profile(1e9) == pytest.approx(SLACK, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("shift", 0.0),
        ("shift", -1.0),
        ("shift", math.inf),
        ("shift", "1"),
        ("curvature", -1e-9),
        ("curvature", math.nan),
        ("loss", "hinge"),
        ("loss", 3),
        ("classes", 1),
        ("classes", 3),  # for logistic loss
        ("classes", 2.0),
        ("gaussian_shift", -0.1),
        ("neighboring", "both"),
    ],
)
def test_bad_parameters_are_named(name, bad):
    with pytest.raises((TypeError, ValueError), match=f"'{name}'"):
        ObjectivePerturbation(**({"shift": 0.1, "curvature": 0.1} | {name: bad}))
