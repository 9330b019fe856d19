"""Errors name the parameter, and never print data."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from skdp import validation

NOT_REAL = ["1", None, True, np.True_, 1j, [1.0], np.array([1.0, 2.0]), Decimal(1)]


# --- Numbers


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), Fraction(2)])
def test_real_numbers_become_floats(value):
    result = validation.check_real(value, "rate", low=0)
    assert type(result) is float
    assert result == 2.0


@pytest.mark.parametrize("value", NOT_REAL)
def test_what_is_no_real_number_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"'rate'.*must be a real number in the range"):
        validation.check_real(value, "rate", low=0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400)])
def test_numbers_that_are_not_finite_are_refused(value):
    with pytest.raises(ValueError, match="'rate'"):
        validation.check_real(value, "rate")


@pytest.mark.parametrize(
    ("closed", "accepts_low", "accepts_high"),
    [
        ("neither", False, False),
        ("left", True, False),
        ("right", False, True),
        ("both", True, True),
    ],
)
def test_ranges_are_closed_as_stated(closed, accepts_low, accepts_high):
    def accepts(value):
        try:
            return validation.check_real(value, "x", low=0, high=1, closed=closed) >= 0
        except ValueError as error:
            brackets = "[" if accepts_low else "(", "]" if accepts_high else ")"
            assert f"{brackets[0]}0, 1{brackets[1]}" in str(error)
            return False

    assert accepts(0.5)
    assert accepts(0.0) == accepts_low
    assert accepts(1) == accepts_high
    assert not accepts(-1e-300)
    assert not accepts(math.nextafter(1, 2))


@given(st.floats())
def test_epsilon_is_finite_and_positive(value):
    if 0 < value < math.inf:
        assert validation.check_epsilon(value) == value
        return
    with pytest.raises(ValueError, match=r"'epsilon'.*\(0, inf\)"):
        validation.check_epsilon(value)


@given(st.floats())
def test_delta_is_at_least_zero_and_below_one(value):
    if 0 <= value < 1:
        assert validation.check_delta(value) == value
        return
    with pytest.raises(ValueError, match=r"'delta'.*\[0, 1\)"):
        validation.check_delta(value)


def test_a_mechanism_may_need_a_positive_delta():
    assert validation.check_delta(5e-324, positive=True) == 5e-324
    with pytest.raises(ValueError, match=r"'delta'.*\(0, 1\)"):
        validation.check_delta(0.0, positive=True)


def test_epsilon_and_delta_take_the_name_that_the_user_sees():
    with pytest.raises(ValueError, match="'eps'"):
        validation.check_epsilon(0, "eps")
    with pytest.raises(ValueError, match="'failure'"):
        validation.check_delta(2, "failure")


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, math.nan])
def test_confidence_lies_strictly_between_zero_and_one(value):
    assert validation.check_confidence(0.95) == 0.95
    with pytest.raises(ValueError, match="'confidence'"):
        validation.check_confidence(value)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_integers_become_ints(value):
    result = validation.check_integer(value, "steps", low=1)
    assert type(result) is int
    assert result == 3


@pytest.mark.parametrize("value", [3.0, "3", None, True, np.False_, np.array([3, 4])])
def test_what_is_no_integer_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"'steps'.*must be an int"):
        validation.check_integer(value, "steps", low=1)


@pytest.mark.parametrize("value", [0, -1, 11])
def test_integers_stay_in_their_range(value):
    with pytest.raises(ValueError, match=r"'steps'.*\[1, 10\].*Got"):
        validation.check_integer(value, "steps", low=1, high=10)


# --- Options and bounds


@pytest.mark.parametrize("value", ["Exact", "", None, 1, ["exact"]])
def test_options_are_listed_in_the_error(value):
    assert validation.check_option("exact", "method", ("exact", "classic")) == "exact"
    with pytest.raises(ValueError, match="'method'") as error:
        validation.check_option(value, "method", ("exact", "classic"))
    assert "'exact'" in str(error.value)
    assert "'classic'" in str(error.value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("value", ["add-remove", "REPLACE", None, 0])
def test_neighbours_are_replace_or_add_remove(value):
    assert validation.check_neighboring("replace") == "replace"
    assert validation.check_neighboring("add_remove") == "add_remove"
    with pytest.raises(ValueError, match="'neighboring'"):
        validation.check_neighboring(value)


@pytest.mark.parametrize("value", [(0, 1), [0.0, 1.0], np.array([0, 1])])
def test_bounds_are_a_pair_of_floats(value):
    assert validation.check_bounds(value) == (0.0, 1.0)


@pytest.mark.parametrize("value", [None, 1.0, (1,), (1, 2, 3), "ab", (0, None)])
def test_bounds_that_are_no_pair_are_a_type_error(value):
    with pytest.raises(TypeError, match="'range"):
        validation.check_bounds(value, "range")


@pytest.mark.parametrize(
    "value",
    [(1, 1), (2, 1), (0, math.nan), (-math.inf, 0), (0, math.inf), (-1e308, 1e308)],
)
def test_bounds_have_a_finite_positive_width(value):
    with pytest.raises(ValueError, match="'bounds"):
        validation.check_bounds(value)


# --- Data

SECRET = 714253  # looked for in messages


@given(
    npst.arrays(
        st.one_of(
            npst.boolean_dtypes(),
            npst.integer_dtypes(sizes=(8, 16, 32)),
            npst.floating_dtypes(sizes=(16, 32, 64)),
        ),
        npst.array_shapes(max_dims=3),
        elements={"allow_nan": False, "allow_infinity": False},
    )
)
def test_float_values_equal_what_was_given(array):
    result = validation.check_float_values(array)
    assert result.dtype == np.float64
    assert result.shape == array.shape
    assert (result == array).all()


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), 1.5, [1, 2.5], [[True]], np.float32(1.5)]
)
def test_float_values_accept_scalars_and_lists(value):
    assert (validation.check_float_values(value) == np.asarray(value)).all()


@pytest.mark.parametrize(
    "value", [2**62, -(2**62), [1, -2], [True, False], np.uint8(3)]
)
def test_integer_values_become_int64(value):
    result = validation.check_integer_values(value)
    assert result.dtype == np.int64
    assert (result == np.asarray(value)).all()


FLOAT_ERRORS = [
    (str(SECRET), TypeError),
    ([str(SECRET), "b"], TypeError),
    (complex(SECRET), TypeError),
    (None, TypeError),
    ([None, SECRET], TypeError),
    ({"a": SECRET}, TypeError),
    (np.array([SECRET, "b"], dtype=object), TypeError),
    (np.array(["2020-01-01"], dtype="datetime64[D]"), TypeError),
    pytest.param(
        np.array([SECRET], dtype=np.longdouble),
        TypeError,
        marks=pytest.mark.skipif(
            np.dtype(np.longdouble).itemsize == 8, reason="longdouble is double here"
        ),
    ),
    ([[SECRET, 2], [3]], (TypeError, ValueError)),
    ([], ValueError),
    (np.zeros((0, 3)), ValueError),
    ([SECRET, math.nan], ValueError),
    ([SECRET, math.inf], ValueError),
    (-math.inf, ValueError),
    (2**53 + SECRET, ValueError),
    ([-(2**53) - SECRET, 0], ValueError),
    (np.array([2**63 + SECRET], dtype=np.uint64), ValueError),
    (2**100 + SECRET, (TypeError, ValueError)),
]

INTEGER_ERRORS = [
    (float(SECRET), TypeError),
    ([float(SECRET)], TypeError),
    (math.nan, TypeError),
    (str(SECRET), TypeError),
    (complex(SECRET), TypeError),
    (None, TypeError),
    (np.array([SECRET], dtype=object), TypeError),
    ([[SECRET, 2], [3]], (TypeError, ValueError)),
    ([], ValueError),
    (2**62 + SECRET, ValueError),
    (-(2**62) - SECRET, ValueError),
    (2**100 + SECRET, ValueError),
    ([-(2**63), SECRET], ValueError),
    (np.array([2**63 + SECRET], dtype=np.uint64), ValueError),
]


def assert_refused_discreetly(check, value, error):
    with pytest.raises(error) as caught:
        check(value, "ages")
    message = str(caught.value)
    assert "'ages'" in message
    for digits in (SECRET, 2**53 + SECRET, 2**62 + SECRET, 2**63 + SECRET):
        assert str(digits) not in message
    assert str(2**100 + SECRET) not in message


@pytest.mark.parametrize(("value", "error"), FLOAT_ERRORS)
def test_float_values_refuse_discreetly(value, error):
    assert_refused_discreetly(validation.check_float_values, value, error)


@pytest.mark.parametrize(("value", "error"), INTEGER_ERRORS)
def test_integer_values_refuse_discreetly(value, error):
    assert_refused_discreetly(validation.check_integer_values, value, error)


def test_the_limits_of_integers_are_exact():
    assert validation.check_float_values(np.int64(2**53)) == 2**53
    with pytest.raises(ValueError, match=r"2\*\*53"):
        validation.check_float_values(np.int64(2**53 + 1))
    with pytest.raises(ValueError, match=r"2\*\*62"):
        validation.check_integer_values(np.int64(2**62 + 1))
