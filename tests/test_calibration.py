"""Noise is the smallest that meets its target, and never smaller."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.calibration import (
    bounded_laplace_scale,
    gaussian_shift,
    gaussian_sigma,
    zcdp_rho,
)
from skdp.divergences import gaussian_profile, zcdp_profile

DIGITS = 60


def exact_sigma(epsilon, delta, guess):
    """Find the root of the exact profile with 60 digits, near a guess."""
    with mp.workdps(DIGITS):
        epsilon, delta, guess = mp.mpf(epsilon), mp.mpf(delta), mp.mpf(guess)

        def excess(sigma):
            upper = 1 / (2 * sigma) - epsilon * sigma
            lower = -1 / (2 * sigma) - epsilon * sigma
            profile = mp.ncdf(upper) - mp.exp(epsilon) * mp.ncdf(lower)
            return mp.log(profile / delta)

        start = (guess * (1 - mp.mpf(10) ** -5), guess * (1 + mp.mpf(10) ** -5))
        return mp.findroot(excess, start, tol=1e-80)


# --- Gaussian

EPSILONS = [*np.geomspace(1e-3, 50, 12), 1.0]
DELTAS = [*np.geomspace(1e-15, 0.1, 12), 1e-6]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_sigma_is_the_exact_optimum(epsilon):
    for delta in DELTAS:
        sigma = gaussian_sigma(epsilon, delta)
        excess = float(sigma / exact_sigma(epsilon, delta, sigma) - 1)
        assert -4e-16 <= excess <= 1e-9


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-6, 1e-4, 80.0, 700.0])
@pytest.mark.parametrize("delta", [1e-18, 1e-15, 1e-6, 0.5])
def test_gaussian_sigma_is_never_too_small_beyond_the_usual_range(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    excess = float(sigma / exact_sigma(epsilon, delta, sigma) - 1)
    assert -4e-16 <= excess <= 1e-6


def test_gaussian_sigma_scales_with_the_sensitivity():
    sigma = gaussian_sigma(1.0, 1e-6)
    assert gaussian_sigma(1.0, 1e-6, 3.0) == pytest.approx(3 * sigma, rel=1e-15)
    assert gaussian_shift(1.0, 1e-6) == pytest.approx(1 / sigma, rel=1e-15)


@settings(deadline=None)
@given(
    epsilon=st.floats(1e-3, 50),
    log_delta=st.floats(-15, -1),
    factor=st.floats(1.001, 100),
)
def test_gaussian_sigma_falls_with_epsilon_and_delta(epsilon, log_delta, factor):
    delta = 10**log_delta
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_sigma(epsilon * factor, delta) < sigma
    assert gaussian_sigma(epsilon, min(0.5, delta * factor)) < sigma
    assert gaussian_profile(epsilon, 1 / sigma) <= delta


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_classic_calibration_is_private_and_wasteful(epsilon, delta):
    classic = gaussian_sigma(epsilon, delta, method="classic")
    assert classic == pytest.approx(math.sqrt(2 * math.log(1.25 / delta)) / epsilon)
    assert classic > gaussian_sigma(epsilon, delta)
    assert gaussian_profile(epsilon, 1 / classic) < delta


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"epsilon": math.nan}, ValueError, "epsilon"),
        ({"epsilon": math.inf}, ValueError, "epsilon"),
        ({"epsilon": "1"}, TypeError, "epsilon"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"delta": 1e-30}, ValueError, "delta"),
        ({"delta": math.nan}, ValueError, "delta"),
        ({"sensitivity": -1.0}, ValueError, "sensitivity"),
        ({"sensitivity": math.inf}, ValueError, "sensitivity"),
        ({"method": "best"}, ValueError, "method"),
        ({"method": "classic"}, ValueError, "epsilon"),
        ({"method": "classic", "epsilon": 0.5, "delta": 0.0}, ValueError, "delta"),
    ],
)
def test_gaussian_sigma_refuses(arguments, error, name):
    arguments = {"epsilon": 1.0, "delta": 1e-6} | arguments
    with pytest.raises(error, match=f"'{name}'"):
        gaussian_sigma(**arguments)


# --- zCDP


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.1])
def test_zcdp_rho_is_the_largest(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_profile(epsilon, rho) <= delta
    assert zcdp_profile(epsilon, rho * (1 + 1e-7)) > delta
    # A Gaussian with this rho is private; the exact calibration allows a larger one.
    assert math.sqrt(2 * rho) <= gaussian_shift(epsilon, delta)


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.0}])
def test_zcdp_rho_refuses(bad):
    with pytest.raises(ValueError, match=f"'{next(iter(bad))}'"):
        zcdp_rho(**({"epsilon": 1.0, "delta": 1e-6} | bad))


# --- Laplace noise cut off to integers {0, ..., width}


def log_probabilities(scale, width):
    """Return log P(output k | value q) as an array [q, k]."""
    k = np.arange(width + 1)
    weights = -np.abs(k[:, None] - k) / scale
    return weights - np.log(np.exp(weights).sum(axis=1, keepdims=True))


def largest_losses(scale, width):
    """Return the largest loss of one coordinate that moves by d, for each d."""
    table = log_probabilities(scale, width)
    losses = np.zeros(width + 1)
    for q, r in itertools.product(range(width + 1), repeat=2):
        d = abs(q - r)
        losses[d] = max(losses[d], (table[q] - table[r]).max())
    return losses


def largest_loss(scale, width, sensitivity, size):
    """Enumerate how ``size`` coordinates share a change of the L1 norm."""
    losses = largest_losses(scale, width)
    splits = itertools.product(range(width + 1), repeat=size)
    return max(losses[list(s)].sum() for s in splits if sum(s) <= sensitivity)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
@pytest.mark.parametrize(
    ("sensitivity", "width", "size"),
    [
        (1, 1, 1),
        (1, 4, 1),
        (2, 9, 1),
        (5, 9, 1),
        (9, 9, 1),
        (2, 6, 2),
        (6, 6, 2),
        (12, 6, 2),
        (3, 5, 3),
    ],
)
def test_bounded_laplace_scale_is_the_smallest(epsilon, sensitivity, width, size):
    scale = bounded_laplace_scale(epsilon, 0.0, sensitivity, width, size)
    assert largest_loss(scale, width, sensitivity, size) <= epsilon * (1 + 1e-13)
    smaller = largest_loss(scale * (1 - 1e-8), width, sensitivity, size)
    assert smaller > epsilon


@pytest.mark.parametrize(("sensitivity", "size"), [(1, 2), (5, 2), (2, 3)])
def test_bounded_laplace_scale_covers_shares_that_are_no_integers(sensitivity, size):
    scale = bounded_laplace_scale(1.0, 0.0, sensitivity, 6, size)
    assert largest_loss(scale, 6, sensitivity, size) <= 1.0 + 1e-13


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.01, 0.3])
def test_bounded_laplace_scale_spends_delta(epsilon, delta):
    scale = bounded_laplace_scale(epsilon, delta, 2, 7)
    assert scale < bounded_laplace_scale(epsilon, 0.0, 2, 7)
    table = np.exp(log_probabilities(scale, 7))
    for q, r in itertools.product(range(8), repeat=2):
        if abs(q - r) <= 2:
            excess = np.maximum(table[q] - math.exp(epsilon) * table[r], 0)
            assert excess.sum() <= delta


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 40.0])
@pytest.mark.parametrize("exponent", [20, 42])
@pytest.mark.parametrize("size", [1, 4])
def test_bounded_laplace_scale_holds_on_a_fine_grid(epsilon, exponent, size):
    sensitivity, width = 2**exponent + size, 2 ** (exponent + 2)
    scale = bounded_laplace_scale(epsilon, 0.0, sensitivity, width, size)
    with mp.workdps(50):
        ratio = mp.exp(-1 / mp.mpf(scale))

        def normaliser(q):  # the sum of ratio^|k - q| over k = 0, ..., width
            tails = ratio ** (q + 1) + ratio ** (width - q + 1)
            return (1 + ratio - tails) / (1 - ratio)

        share = mp.mpf(sensitivity) / size
        gain = size * mp.log(normaliser(share) / normaliser(0))
        loss = sensitivity / mp.mpf(scale) + gain
    assert loss <= epsilon
    assert loss >= epsilon * (1 - 1e-10)


@pytest.mark.parametrize(
    ("epsilon", "delta", "name"), [(0.0, 0.0, "epsilon"), (1.0, 1.0, "delta")]
)
def test_bounded_laplace_scale_refuses(epsilon, delta, name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        bounded_laplace_scale(epsilon, delta, 1, 4)
