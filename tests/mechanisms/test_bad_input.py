"""Bad input is refused by the name of its parameter, before any noise is drawn.

In every test of this file drawing random bits is an error of its own kind, so that
nothing can have been released; and what a message says about data is never its values.
"""

import math
import os
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

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
from skdp.noise import RandomBits

SECRET = 987654321.125
SECRET_INTEGER = 987654321

# Every mechanism: its valid arguments, and a valid value to release.
VALID = {
    Laplace: ({"epsilon": 1.0, "sensitivity": 1.0}, 0.5),
    Gaussian: ({"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0}, 0.5),
    GammaNorm: ({"epsilon": 1.0, "n_features": 2, "sensitivity": 1.0}, [0.5, 1.0]),
    DiscreteLaplace: ({"epsilon": 1.0, "sensitivity": 1}, 3),
    DiscreteGaussian: ({"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0}, 3),
    BoundedLaplace: (
        {"epsilon": 1.0, "sensitivity": 1.0, "bounds": (0.0, 4.0), "delta": 0.0},
        0.5,
    ),
    MixedNoise: (
        {"epsilon": 1.0, "delta": 1e-6, "l1_sensitivity": 1.0, "l2_sensitivity": 1.0},
        0.5,
    ),
    Exponential: ({"epsilon": 1.0, "sensitivity": 1.0}, [0.0, 1.0]),
    ReportNoisyMax: ({"epsilon": 1.0, "sensitivity": 1.0}, [0.0, 1.0]),
    RandomizedResponse: ({"epsilon": 1.0, "n_categories": 3}, [0, 2]),
    SmoothSensitivity: ({"epsilon": 1.0, "bounds": (0.0, 4.0), "delta": 0.0}, 0.5),
}
KINDS = list(VALID)
REAL_KINDS = (Laplace, Gaussian, GammaNorm, BoundedLaplace, MixedNoise)
INTEGER_KINDS = (DiscreteLaplace, DiscreteGaussian, RandomizedResponse)
SELECTION_KINDS = (Exponential, ReportNoisyMax)

NOT_NUMBERS = [None, "1", b"1", True, np.True_, 1j, [1.0], (1.0,), {}, np.array([1.0])]
NOT_POSITIVE = [0, 0.0, -0.0, -1.0, -5e-324, math.nan, math.inf, -math.inf, 10**400]
BAD = {
    "epsilon": NOT_NUMBERS + NOT_POSITIVE,
    "sensitivity": NOT_NUMBERS + NOT_POSITIVE,
    "l1_sensitivity": NOT_NUMBERS + NOT_POSITIVE,
    "l2_sensitivity": [bad for bad in NOT_NUMBERS if bad is not None] + NOT_POSITIVE,
    "delta": [*NOT_NUMBERS, -1e-9, 1, 1.0, 1.5, math.nan, math.inf, -math.inf],
    "neighboring": [None, "both", "Replace", "", 1, True, ["replace"], b"replace"],
    "bounds": [
        None,
        1.0,
        "01",
        (),
        (0.0,),
        (0.0, 1.0, 2.0),
        (4.0, 0.0),
        (1.0, 1.0),
        (0.0, math.inf),
        (math.nan, 1.0),
        (-1.7e308, 1.7e308),
        (True, 2.0),
        (0.0, None),
        (0.0, 1j),
    ],
    "n_features": [*NOT_NUMBERS, 0, -1, 1.5, math.nan],
    "n_categories": [*NOT_NUMBERS, 0, 1, -1, 2.5, math.nan, 2**40],
}


class DrewNoise(AssertionError):
    """Random bits were drawn."""


@pytest.fixture(autouse=True)
def no_noise(monkeypatch):
    def refuse(*arguments):
        raise DrewNoise

    monkeypatch.setattr(RandomBits, "words", refuse)
    monkeypatch.setattr(os, "urandom", refuse)


def build(kind, **changes):
    return kind(**{**VALID[kind][0], **changes})


def release(mechanism, value, **more):
    if isinstance(mechanism, SmoothSensitivity):
        more = {"smooth_sensitivity": 0.1, **more}
    return mechanism.release(value, **more)


def refused(name):
    return pytest.raises((ValueError, TypeError), match=f"'{name}")


def name_of(kind):
    return "scores" if kind in SELECTION_KINDS else "value"


@pytest.mark.parametrize("kind", KINDS)
def test_the_guard_of_this_file_works(kind):
    with pytest.raises(DrewNoise):
        release(build(kind), VALID[kind][1])


# --- Parameters


def bad_parameters():
    for kind, (arguments, _) in VALID.items():
        names = [*arguments, "neighboring"]
        if kind is RandomizedResponse:
            names.remove("neighboring")
        for name in names:
            for bad in BAD[name]:
                yield pytest.param(
                    kind, name, bad, id=f"{kind.__name__}-{name}-{bad!r}"
                )


@pytest.mark.parametrize(("kind", "name", "bad"), list(bad_parameters()))
def test_bad_parameter(kind, name, bad):
    with refused(name):
        build(kind, **{name: bad})


@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian, MixedNoise])
def test_gaussian_noise_needs_a_positive_delta(kind):
    for delta in (0, 0.0, 5e-324):
        with refused("delta"):
            build(kind, delta=delta)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_parameter(kind):
    with pytest.raises(TypeError, match="'epsilom'"):
        build(kind, epsilom=2.0)


def test_parameters_of_one_mechanism():
    for bad in ("fast", None, 3):
        with refused("calibration"):
            build(Gaussian, calibration=bad)
    with refused("epsilon"):
        build(Gaussian, calibration="classic", epsilon=1.0)
    for kind in SELECTION_KINDS:
        for bad in (1, "yes", None, np.True_):
            with refused("monotonic"):
                build(kind, monotonic=bad)
        with refused("monotonic"):
            build(kind, monotonic=True)
    for bad in (1.0, 1.5, np.float64(2)):  # an integer's sensitivity is an integer
        with refused("sensitivity"):
            build(DiscreteLaplace, sensitivity=bad)
    with refused("sensitivity"):
        build(BoundedLaplace, sensitivity=4.5)
    with refused("l2_sensitivity"):
        build(MixedNoise, l2_sensitivity=1.5)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_other_types_are_accepted_and_stored_as_float(kind):
    for one in (1, np.float32(1), np.int8(1), Fraction(1)):
        mechanism = build(kind, epsilon=one)
        assert mechanism == build(kind)
        assert hash(mechanism) == hash(build(kind))
        assert type(mechanism.epsilon) is float


@pytest.mark.parametrize("kind", KINDS)
def test_mechanisms_are_frozen(kind):
    mechanism = build(kind)
    with pytest.raises(FrozenInstanceError):
        mechanism.epsilon = 5.0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if hasattr(kind, "interval")])
def test_bad_confidence(kind):
    for bad in (0, 1, 0.0, 1.0, -0.5, 1.5, math.nan, math.inf, None, "0.9", True):
        with refused("confidence"):
            build(kind).interval(bad)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_random_state(kind):
    for bad in ("seed", 1.5, -1, True, [1, 2], np.array(3.0), np.random):
        with refused("random_state"):
            release(build(kind), VALID[kind][1], random_state=bad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-100, 1e-30])
def test_a_tiny_epsilon_is_refused_by_name_or_works(kind, epsilon):
    try:
        mechanism = build(kind, epsilon=epsilon)
    except ValueError as error:
        assert "'epsilon'" in str(error) or "'sensitivity'" in str(error)
        return
    with pytest.raises((DrewNoise, ValueError)):
        release(mechanism, VALID[kind][1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1e6, 1e30, 1e100, 1e300, 1.7e308])
def test_a_huge_epsilon_is_refused_by_name_or_works(kind, epsilon):
    try:
        mechanism = build(kind, epsilon=epsilon)
    except ValueError as error:
        assert "'epsilon'" in str(error)
        return
    with pytest.raises(DrewNoise):
        release(mechanism, VALID[kind][1])


# --- Data


NOT_DATA = {
    "none": None,
    "text": "secret 987654321",
    "bytes": b"secret",
    "texts": ["secret", "987654321"],
    "object": np.array([SECRET, None], dtype=object),
    "objects that are numbers": np.array([1, 2], dtype=object),
    "complex": SECRET + 1j,
    "complex array": np.array([1j, SECRET]),
    "dict": {"a": SECRET},
    "set": {1, 2},
    "date": np.datetime64("2024-01-01"),
    "empty": [],
    "empty array": np.array([]),
    "empty rows": [[], []],
    "empty integers": np.zeros((0, 3), dtype=int),
    "ragged": [[SECRET, 2.0], [3.0]],
    "fraction": Fraction(SECRET_INTEGER, 7),
    "huge integer": SECRET_INTEGER**9,
    "huge integers": [SECRET_INTEGER**9, 1],
}
NOT_FINITE = {
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "one nan": [SECRET, math.nan],
    "one infinity": np.array([SECRET, -math.inf]),
    "float32 nan": np.array([SECRET, math.nan], dtype=np.float32),
    "float16 infinity": np.float16("inf"),
}
TOO_LARGE = {
    "int64": SECRET_INTEGER * 10**9,
    "just above": 2**53 + 1,
    "below": -(2**53) - 1,
    "array": np.array([1, SECRET_INTEGER * 10**9]),
    "uint64": np.array([1, 2**64 - 1], dtype=np.uint64),
}


def check_refused(kind, value, **more):
    with refused(name_of(kind)) as caught:
        release(build(kind), value, **more)
    message = str(caught.value)
    assert "987654" not in message
    assert "secret" not in message
    assert "9.87" not in message and "9.8e" not in message


@pytest.mark.parametrize("what", NOT_DATA)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_data(kind, what):
    check_refused(kind, NOT_DATA[what])


@pytest.mark.parametrize("what", NOT_FINITE)
@pytest.mark.parametrize("kind", KINDS)
def test_data_that_is_not_finite(kind, what):
    check_refused(kind, NOT_FINITE[what])


@pytest.mark.parametrize("what", TOO_LARGE)
@pytest.mark.parametrize("kind", [*REAL_KINDS, *SELECTION_KINDS, SmoothSensitivity])
def test_integers_that_float64_cannot_hold(kind, what):
    check_refused(kind, TOO_LARGE[what])


@pytest.mark.parametrize("kind", [*REAL_KINDS, *SELECTION_KINDS, SmoothSensitivity])
def test_numbers_that_float64_cannot_hold(kind):
    if np.dtype(np.longdouble).itemsize > 8:
        check_refused(kind, np.array([1, 2], dtype=np.longdouble))


@pytest.mark.parametrize("kind", INTEGER_KINDS)
@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        1.0,
        [1.0, 2.0],
        np.float32(1),
        2**62 + SECRET_INTEGER,
        -(2**62) - 1,
        np.array([2**62 + 1]),
        np.array([2**64 - 1], dtype=np.uint64),
        2**64,
        -(2**70),
    ],
)
def test_integers_beyond_the_range_and_what_is_no_integer(kind, value):
    check_refused(kind, value)


@pytest.mark.parametrize("value", [-1, 3, SECRET_INTEGER, [0, -2], [SECRET_INTEGER, 1]])
def test_categories_that_do_not_exist(value):
    check_refused(RandomizedResponse, value)
    with refused("reports") as caught:
        build(RandomizedResponse).estimate(value)
    assert "987654" not in str(caught.value)


@pytest.mark.parametrize(
    "reports", [[], None, "secret", [0.5], [math.nan], np.array([1, None]), 1j]
)
def test_reports_that_are_none(reports):
    with refused("reports"):
        build(RandomizedResponse).estimate(reports)


@pytest.mark.parametrize("value", [SECRET, -SECRET, 4.0000001, -5e-324])
def test_a_value_outside_the_bounds(value):
    check_refused(BoundedLaplace, value)
    check_refused(BoundedLaplace, [1.0, value])
    check_refused(SmoothSensitivity, value)


def test_a_value_of_the_wrong_shape():
    for kind in SELECTION_KINDS:
        check_refused(kind, SECRET)
        check_refused(kind, [[SECRET, 1.0]])
    check_refused(SmoothSensitivity, [1.0])
    check_refused(SmoothSensitivity, [[1.0, SECRET]])
    for value in (1.0, [1.0], [1.0, 2.0, SECRET]):
        check_refused(GammaNorm, value)


@pytest.mark.parametrize(
    "smooth",
    [
        -1.0,
        -SECRET,
        math.nan,
        math.inf,
        None,
        "secret",
        [1.0],
        1j,
        [],
        np.array([None]),
    ],
)
def test_a_bad_smooth_sensitivity(smooth):
    with refused("smooth_sensitivity") as caught:
        build(SmoothSensitivity).release(1.0, smooth)
    assert "987654" not in str(caught.value)


@pytest.mark.parametrize("what", [*NOT_DATA, *NOT_FINITE, *TOO_LARGE])
def test_median_of_bad_data(what):
    value = {**NOT_DATA, **NOT_FINITE, **TOO_LARGE}[what]
    with refused("x") as caught:
        smooth_sensitivity_median(value, 1.0, (0.0, 1.0))
    assert "987654" not in str(caught.value)


def test_median_with_bad_parameters():
    for bad in NOT_NUMBERS + NOT_POSITIVE:
        with refused("beta"):
            smooth_sensitivity_median([1.0], bad, (0.0, 1.0))
    for bad in BAD["bounds"]:
        with refused("bounds"):
            smooth_sensitivity_median([1.0], 1.0, bad)
