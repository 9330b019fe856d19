"""The precision attack (Mironov 2012): does an output betray its input?

An output betrays its input when the other of two neighbouring inputs cannot produce it,
whatever the noise. Floating-point noise does so often: its sums have holes. Here every
mechanism that releases real values is attacked with 20,000 releases of each input; not
one may betray it. The same attack on the textbook's sampler must find hundreds.

Whether the other input can produce an output is decided by a witness: integer noise
with which the mechanism's own arithmetic gives exactly this output. The samplers of
Laplace, Gaussian and Cauchy-like noise reach every integer (up to 2**62 steps, which is
checked); for Gamma-norm noise the witness is the integers that its sampler starts from.
Mechanisms on integers and selections have no digits to betray anything.

The default source of bits (os.urandom) is used: a betrayal is a hole in the set of
outputs, and there are no false alarms.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdp import noise
from skdp.mechanisms import (
    BoundedLaplace,
    GammaNorm,
    Gaussian,
    Laplace,
    MixedNoise,
    SmoothSensitivity,
)

RELEASES = 20_000
FARTHEST = 2**62

# --- Witnesses: True where ``other`` can produce the output


def on_grid(outputs, exponent):
    """Outputs in grid steps, and whether they are whole numbers of steps."""
    steps = np.ldexp(outputs, -exponent)
    return steps, np.isfinite(steps) & (steps == np.rint(steps))


def noise_between(outputs, other, exponent):
    """Noise that leads from ``other`` to each output, in steps, and whether there is.

    ``other`` is rounded to the grid in exact arithmetic. A total beyond 2**53 steps is
    rounded to float64, but then the output itself is a multiple of the step and a total
    that needs no rounding: one candidate is enough.
    """
    steps, possible = on_grid(outputs, exponent)
    start = round(Fraction(other) / Fraction(2) ** exponent)
    if max(np.abs(steps).max(), abs(start)) < FARTHEST:
        needed = np.rint(steps).astype(np.int64) - start
    else:
        needed = np.array([round(step) - start for step in steps.tolist()], object)
    possible &= np.abs(needed) <= FARTHEST
    return np.where(possible, needed, 0).astype(np.int64), possible


def reachable_on_grid(outputs, other, grid):
    """Whether integer noise, added by the grid's own arithmetic, gives the output."""
    needed, possible = noise_between(outputs, other, grid.exponent)
    return possible & (grid.add(np.full(outputs.size, other), needed) == outputs)


def reachable_by_gamma_norm(outputs, other, mechanism):
    """Whether a radius and a direction exist whose product rounds to the noise.

    The sampler computes both from integers in units of 2**-45: find them.
    """
    grid = mechanism._grid(mechanism.n_features)
    unit = 2.0**noise._FINE_BITS
    needed, possible = noise_between(outputs, other, grid.exponent)
    vectors = needed.astype(float)
    lengths = np.linalg.norm(vectors, axis=1)
    radii = np.rint(lengths / grid.scale * unit)
    directions = np.rint(vectors / np.maximum(lengths, 1)[:, None] * unit)
    directions[lengths == 0, 0] = unit
    norms, directions = radii / unit, directions / unit
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    drawn = np.rint(directions * (grid.scale * norms)[:, None])
    again = grid.add(np.full(outputs.shape, other), drawn.astype(np.int64))
    return (possible & (again == outputs)).all(axis=1)


def reachable_within_bounds(outputs, mechanism, size):
    """Whether the output is one of the points that every input can produce."""
    plan = mechanism._plan(size)
    low, high = mechanism.bounds
    steps, inside = on_grid(outputs, plan.exponent)
    inside &= (steps >= plan.low) & (steps <= plan.high)
    return inside | (outputs == low) | (outputs == high)


# --- Mechanisms that take arrays: every coordinate is a release

PAIRS = [
    (0.0, 1.0),
    (0.1, 1.1),
    (1 / 3, -2 / 3),
    (1e-300, 1.0),
    (1e5 + 1 / 3, 1e5 + 4 / 3),  # totals of more than 2**53 steps
    (2.0**40 + 0.5, 2.0**40 - 0.5),  # values of more than 2**62 steps
]
ADDITIVE = {
    "laplace": Laplace(1.0),
    "laplace, little noise": Laplace(20.0),
    "laplace, much noise": Laplace(1e-3),
    "gaussian": Gaussian(1.0, 1e-6),
    "gaussian, little noise": Gaussian(20.0, 1e-6),
    "mixed": MixedNoise(1.0, 1e-6),
    "mixed, gaussian": MixedNoise(1.0, 1e-6, 100.0, 1.0),
}


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        (name, pair)
        for name in ADDITIVE
        for pair in (PAIRS if name in ("laplace", "gaussian") else PAIRS[1:3])
    ],
)
def test_additive_noise_does_not_betray(name, pair):
    mechanism = ADDITIVE[name]
    grid = getattr(mechanism, "mechanism", mechanism)._grid(RELEASES)
    for value, other in (pair, pair[::-1]):
        outputs = mechanism.release(np.full(RELEASES, value))
        assert np.unique(outputs).size > 1000
        assert (~reachable_on_grid(outputs, other, grid)).sum() == 0


@pytest.mark.parametrize("mechanism", [Laplace(1.0), Gaussian(1.0, 1e-6)], ids=repr)
def test_single_numbers_do_not_betray(mechanism):
    for value, other in ((0.1, 1.1), (1.1, 0.1)):
        outputs = np.array([mechanism.release(value) for _ in range(2_000)])
        assert (~reachable_on_grid(outputs, other, mechanism._grid(1))).sum() == 0


@pytest.mark.parametrize(
    "mechanism",
    [
        BoundedLaplace(1.0, 1.0, (-3.0, 4.0)),
        BoundedLaplace(0.1, 1.0, (0.1, 1.1)),
        BoundedLaplace(1.0, 1.0, (1e6 + 0.1, 1e6 + 20.1), delta=1e-6),
    ],
    ids=["wide", "narrow", "far from zero"],
)
def test_bounded_laplace_does_not_betray(mechanism):
    low, high = mechanism.bounds
    centre = low + (high - low) / 3
    for value in (low, centre, min(high, centre + 1), high):
        outputs = mechanism.release(np.full(RELEASES, value))
        assert outputs.min() >= low and outputs.max() <= high
        assert np.unique(outputs).size > RELEASES / 2
        assert (~reachable_within_bounds(outputs, mechanism, RELEASES)).sum() == 0


# --- Mechanisms that release one vector or number at a time


@pytest.fixture
def releases(monkeypatch):
    """Release many times, with the noise of all the releases drawn at once.

    ``release`` runs unchanged; its sampler hands out one draw of a large sample, which
    saves most of the time.
    """
    originals = {
        name: getattr(noise, name)
        for name in (
            "discrete_laplace",
            "discrete_gaussian",
            "discrete_cauchy",
            "gamma_norm",
        )
    }

    def pooled(name):
        pools = {}

        def draw(*arguments):
            *key, size, random_state = arguments
            if size is not None:  # gamma_norm calls another sampler
                return originals[name](*arguments)
            key = (*key, random_state)
            if key not in pools:
                pools[key] = iter(originals[name](*key[:-1], RELEASES, random_state))
            return next(pools[key])

        return draw

    def many(release, *arguments):
        for name in originals:
            monkeypatch.setattr(noise, name, pooled(name))
        return np.array([release(*arguments) for _ in range(RELEASES)])

    return many


@pytest.mark.parametrize("epsilon", [1.0, 1e-4])
@pytest.mark.parametrize(("n_features", "pair"), [(1, (0.0, 1.0)), (3, (0.1, 0.6))])
def test_gamma_norm_does_not_betray(n_features, pair, epsilon, releases):
    mechanism = GammaNorm(epsilon, n_features)
    for value, other in (pair, pair[::-1]):
        outputs = releases(mechanism.release, np.full(n_features, value))
        assert np.unique(outputs, axis=0).shape[0] > RELEASES / 2
        assert (~reachable_by_gamma_norm(outputs, other, mechanism)).sum() == 0


@pytest.mark.parametrize(
    ("kind", "delta"), [("cauchy", 0.0), ("laplace", 1e-6), ("gaussian", 1e-6)]
)
def test_smooth_sensitivity_does_not_betray(kind, delta, releases):
    # Neighbours differ in the scale of their noise too.
    mechanism = SmoothSensitivity(1.0, (-100.0, 100.1), kind, delta)
    low, high = mechanism.bounds
    inputs = ((0.0, 0.5), (1.0, 0.5 * math.exp(mechanism.beta)))
    for (value, smooth), (other, _) in (inputs, inputs[::-1]):
        outputs = releases(mechanism.release, value, smooth)
        clamped = (outputs == low) | (outputs == high)
        assert clamped.sum() < RELEASES / 2
        reachable = reachable_on_grid(outputs, other, mechanism._grid())
        assert (~(clamped | reachable)).sum() == 0


# --- The attack itself finds leaks


def test_attack_finds_values_that_were_not_rounded():
    # What the grid is for: the same noise on a value off the grid.
    mechanism = Laplace(1.0)
    grid = mechanism._grid(RELEASES)
    drawn = noise.discrete_laplace(grid.scale, RELEASES)
    outputs = 0.1 + drawn * grid.step
    assert (~reachable_on_grid(outputs, 1.1, grid)).sum() > 0.9 * RELEASES


def textbook_laplace(value, rng):
    """Inverse-CDF sampling with uniform doubles of 53 bits."""
    sign = np.where(rng.random(RELEASES) < 0.5, -1.0, 1.0)
    return textbook_sum(value, sign, 1.0 - rng.random(RELEASES))


def textbook_sum(value, sign, uniform):
    return value + sign * np.log(uniform)


def reachable_by_textbook(outputs, other):
    """Whether a sign and a uniform double give the output.

    The sum is monotone in the uniform number: the candidates next to the inverse are
    enough when the outermost of them lie on the two sides of the output.
    """
    gap = np.abs(outputs - other)
    centre = np.rint(np.exp(-gap) * 2.0**53)
    reachable = np.zeros(outputs.size, dtype=bool)
    sign = np.where(outputs < other, 1.0, -1.0)
    offsets = np.arange(-16, 17)
    for offset in offsets:
        uniform = np.clip(centre + offset, 1, 2**53) * 2.0**-53
        reachable |= textbook_sum(other, sign, uniform) == outputs
        if offset == offsets[0]:
            beyond = np.abs(textbook_sum(other, sign, uniform) - other) > gap
        if offset == offsets[-1]:
            short = np.abs(textbook_sum(other, sign, uniform) - other) < gap
    return reachable | ~(beyond & short)


def test_textbook_sampler_betrays_its_input():
    rng = np.random.default_rng(0)
    for value, other in ((0.0, 1.0), (1.0, 0.0)):
        outputs = textbook_laplace(value, rng)
        assert reachable_by_textbook(outputs, value).all()  # the witness is found
        betrayed = (~reachable_by_textbook(outputs, other)).sum()
        assert betrayed > 300
        print(f"the textbook betrays input {value} in {betrayed} of {RELEASES}")
