"""Properties over shapes, dtypes and scales from 1e-300 to 1e300.

Either a finite release of the right shape and type, or a ValueError that names the
parameter. Nothing here depends on the noise that is drawn.
"""

import copy
import math
import pickle
import re

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skdp import events
from skdp.mechanisms import (
    BoundedLaplace,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    GammaNorm,
    Gaussian,
    Laplace,
    MixedNoise,
    RandomizedResponse,
    ReportNoisyMax,
    SmoothSensitivity,
    smooth_sensitivity_median,
)

many = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def powers(low, high):
    """Numbers that are uniform on a logarithmic scale."""
    return st.floats(low, high).map(lambda power: 10.0**power)


EPSILON = powers(-12, 6)
DELTA = powers(-20, -0.05)
SCALE = powers(-300, 300)
SIGNED = st.builds(lambda size, sign: size * sign, SCALE, st.sampled_from([-1.0, 1.0]))
RELATION = st.sampled_from(["replace", "add_remove"])
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
DTYPES = st.sampled_from(
    [
        "?",
        "i1",
        "i2",
        "i4",
        "i8",
        "u1",
        "u2",
        "u4",
        "u8",
        "f2",
        "f4",
        "f8",
        ">f8",
        ">i4",
    ]
)
SEEDS = st.one_of(st.none(), st.integers(0, 2**63))


@st.composite
def arrays(draw):
    """Finite arrays of any real dtype and any shape, contiguous or not."""
    dtype, shape = np.dtype(draw(DTYPES)), draw(SHAPES)
    if dtype.kind == "f":
        width = 8 * dtype.itemsize
        elements = st.floats(allow_nan=False, allow_infinity=False, width=width)
    elif dtype.kind == "b":
        elements = st.booleans()
    else:
        info = np.iinfo(dtype)
        largest = 2**53
        elements = st.integers(max(info.min, -largest), min(info.max, largest))
    array = draw(hnp.arrays(dtype, shape, elements=elements))
    if draw(st.booleans()):
        array = array.T
    array.setflags(write=False)
    return array


def built(kind, *arguments, **more):
    """A mechanism, or None where it refuses its parameters by name."""
    try:
        return kind(*arguments, **more)
    except ValueError as error:
        assert_clear(error)
        return None


def assert_clear(error):
    assert re.match(r"The '\w+(\[\d\])?' parameter", str(error)), str(error)


def released(mechanism, value, *more):
    """A release, or None where the mechanism refuses by name."""
    try:
        return mechanism.release(value, *more)
    except ValueError as error:
        assert_clear(error)
        return None


def assert_real(out, value):
    if np.ndim(value) == 0:
        assert type(out) is float
    else:
        assert out.shape == value.shape and out.dtype == np.float64
    assert np.isfinite(out).all()


def assert_usable(mechanism):
    """Noise of a stated, positive and finite size."""
    assert 0 < mechanism.std < math.inf
    low, high = mechanism.interval(0.95)
    assert -math.inf < low == -high < 0


# --- Noise on real values


@many
@given(EPSILON, SCALE, RELATION, arrays(), SEEDS)
def test_laplace(epsilon, sensitivity, relation, value, seed):
    mechanism = built(Laplace, epsilon, sensitivity, neighboring=relation)
    if mechanism is None:
        return
    assert_usable(mechanism)
    assert mechanism.event.epsilon(0) <= epsilon * (1 + 1e-15)
    before = value.copy()
    out = released(mechanism, value, seed)
    if out is not None:
        assert_real(out, value)
    assert np.array_equal(value, before)


@many
@given(EPSILON, DELTA, SCALE, RELATION, arrays(), SEEDS)
@example(1e-5, 1e-6, 1.0, "replace", np.array(0.0), None)
def test_gaussian(epsilon, delta, sensitivity, relation, value, seed):
    mechanism = built(Gaussian, epsilon, delta, sensitivity, neighboring=relation)
    if mechanism is None:
        return
    assert_usable(mechanism)
    assert mechanism.event.profile(epsilon) <= delta
    out = released(mechanism, value, seed)
    if out is not None:
        assert_real(out, value)


@many
@given(EPSILON, SCALE, arrays(), SEEDS)
@example(1e-7, 1e300, np.zeros(12), None)
def test_gamma_norm(epsilon, sensitivity, value, seed):
    mechanism = built(GammaNorm, epsilon, value.size, sensitivity)
    if mechanism is None:
        return
    assert_usable(mechanism)
    out = released(mechanism, value, seed)
    if out is not None:
        assert_real(out, value)


@many
@given(EPSILON, DELTA, SCALE, powers(-3, 0), arrays(), SEEDS)
def test_mixed_noise(epsilon, delta, sensitivity, ratio, value, seed):
    mechanism = built(MixedNoise, epsilon, delta, sensitivity, ratio * sensitivity)
    if mechanism is None:
        return
    assert_usable(mechanism)
    out = released(mechanism, value, seed)
    if out is not None:
        assert_real(out, value)


@many
@given(EPSILON, SCALE, SIGNED, SEEDS)
def test_any_scale_of_value_and_sensitivity(epsilon, sensitivity, value, seed):
    for mechanism in (
        built(Laplace, epsilon, sensitivity),
        built(Gaussian, epsilon, 1e-6, sensitivity),
        built(GammaNorm, epsilon, 1, sensitivity),
    ):
        if mechanism is None:
            continue
        out = released(mechanism, value, seed)
        if out is not None:
            assert_real(out, value)
            # Noise of more than 1000 scales has a probability below exp(-700).
            near = abs(out - value) / 1000 <= mechanism.std or math.isinf(mechanism.std)
            assert near or abs(out - value) <= 1e-9 * abs(value)


@st.composite
def bounded(draw):
    """Bounds of any size and place, and an array of values within them."""
    centre = draw(st.one_of(st.just(0.0), SIGNED))
    width = draw(SCALE)
    low, high = centre - width, centre + width
    shares = draw(hnp.arrays(float, draw(SHAPES), elements=st.floats(0, 1)))
    return (low, high), np.clip(low + shares * (high / 2 - low / 2) * 2, low, high)


@many
@given(EPSILON, bounded(), powers(-12, 0.1), st.one_of(st.just(0.0), DELTA), SEEDS)
@example(1e-11, ((-1e297, 1e297), np.array(0.0)), 1.0, 0.0, None)
def test_bounded_laplace(epsilon, bounds_and_value, share, delta, seed):
    (low, high), value = bounds_and_value
    sensitivity = share * (high - low)
    mechanism = built(BoundedLaplace, epsilon, sensitivity, (low, high), delta)
    if mechanism is None:
        return
    assert 0 < mechanism.scale < math.inf
    assert 0 < mechanism.interval(0.95)[1] <= (high - low) * (1 + 1e-9)
    out = released(mechanism, value, seed)
    if out is not None:
        assert_real(out, value)
        assert np.all((out >= low) & (out <= high))


@many
@given(
    powers(-12, 1),
    bounded(),
    st.one_of(st.just(0.0), SCALE),
    st.sampled_from([("cauchy", 0.0), ("laplace", 1e-6), ("gaussian", 0.1)]),
    st.integers(2, 16),
    SEEDS,
)
def test_smooth_sensitivity(epsilon, bounds_and_value, smooth, noise, exponent, seed):
    (low, high), value = bounds_and_value
    mechanism = built(
        SmoothSensitivity, epsilon, (low, high), *noise, exponent=exponent
    )
    if mechanism is None:
        return
    value = float(value.ravel()[0])
    out = released(mechanism, value, smooth, seed)
    if out is not None:
        assert_real(out, value)
        assert low <= out <= high


@many
@given(arrays(), powers(-6, 1), bounded())
def test_median(x, beta, bounds_and_value):
    bounds = bounds_and_value[0]
    try:
        found = smooth_sensitivity_median(x, beta, bounds)
    except ValueError as error:
        assert_clear(error)
        return
    assert type(found) is float
    assert 0 < found <= max(bounds[1] - bounds[0], 1e-300) * (1 + 1e-12)


# --- Noise on integers


@many
@given(EPSILON, st.integers(1, 10**6), DELTA, SCALE, arrays(), SEEDS)
def test_integers(epsilon, shift, delta, sensitivity, value, seed):
    for mechanism in (
        built(DiscreteLaplace, epsilon, shift),
        built(DiscreteGaussian, epsilon, delta, sensitivity),
    ):
        if mechanism is None:
            continue
        assert 0 <= mechanism.std < math.inf
        assert mechanism.interval(0.9)[1] >= 0
        if value.dtype.kind == "f":
            continue
        out = released(mechanism, value, seed)
        if out is None:
            continue
        if value.ndim == 0:
            assert type(out) is int
        else:
            assert out.shape == value.shape and out.dtype == np.int64


@many
@given(EPSILON, DELTA)
@example(1e-4, 1e-10)
@example(1e-8, 1e-8)
def test_discrete_gaussian_keeps_its_claim(epsilon, delta):
    mechanism = built(DiscreteGaussian, epsilon, delta)
    if mechanism is not None:
        assert mechanism.event.profile(epsilon) <= delta


@many
@given(EPSILON, st.integers(2, 50), SHAPES, st.integers(0, 2**32), SEEDS)
def test_randomized_response(epsilon, k, shape, data_seed, seed):
    mechanism = RandomizedResponse(epsilon, k)
    value = np.random.default_rng(data_seed).integers(0, k, shape)
    out = mechanism.release(value, seed)
    assert np.shape(out) == shape
    assert np.all((np.asarray(out) >= 0) & (np.asarray(out) < k))
    estimate = mechanism.estimate(out)
    assert np.isfinite(estimate.counts).all()
    assert np.isfinite(estimate.standard_errors).all()
    assert 1 / k <= mechanism.keep_probability <= 1


# --- Selection


@many
@given(
    EPSILON,
    SCALE,
    hnp.arrays(float, hnp.array_shapes(max_dims=1, max_side=12), elements=SIGNED),
    st.booleans(),
    SEEDS,
)
def test_selection(epsilon, sensitivity, scores, monotonic, seed):
    for kind in (Exponential, ReportNoisyMax):
        mechanism = built(
            kind, epsilon, sensitivity, monotonic=monotonic, neighboring="add_remove"
        )
        if mechanism is None:
            continue
        chosen = released(mechanism, scores, seed)
        if chosen is not None:
            assert type(chosen) is int and 0 <= chosen < scores.size


# --- Mechanisms are values


EXAMPLES = st.one_of(
    st.builds(Laplace, powers(-3, 2), powers(-9, 9), neighboring=RELATION),
    st.builds(Gaussian, powers(-3, 2), DELTA, powers(-9, 9), neighboring=RELATION),
    st.builds(GammaNorm, powers(-3, 2), st.integers(1, 9), powers(-9, 9)),
    st.builds(DiscreteLaplace, powers(-3, 2), st.integers(1, 9), neighboring=RELATION),
    st.builds(DiscreteGaussian, powers(-3, 2), DELTA, powers(-1, 1)),
    st.builds(MixedNoise, powers(-3, 2), DELTA, powers(-9, 9), neighboring=RELATION),
    st.builds(BoundedLaplace, powers(-3, 2), powers(-3, 0), st.just([-1, 3])),
    st.builds(Exponential, powers(-3, 2), powers(-9, 9), neighboring=RELATION),
    st.builds(ReportNoisyMax, powers(-3, 2), powers(-9, 9), neighboring=RELATION),
    st.builds(RandomizedResponse, powers(-3, 2), st.integers(2, 9)),
    st.builds(SmoothSensitivity, powers(-3, 1), st.just((-1, 3))),
)


@many
@given(EXAMPLES)
def test_mechanisms_are_equal_hashable_and_survive_copies(mechanism):
    twin = eval(repr(mechanism))
    for other in (
        twin,
        copy.deepcopy(mechanism),
        pickle.loads(pickle.dumps(mechanism)),
    ):
        assert other == mechanism and hash(other) == hash(mechanism)
        assert other.event == mechanism.event
    assert len({mechanism, twin}) == 1
    assert events.from_json(mechanism.event.to_json()) == mechanism.event


@many
@given(EXAMPLES, EXAMPLES)
def test_different_mechanisms_are_not_equal(one, other):
    assert (one == other) == (repr(one) == repr(other))
