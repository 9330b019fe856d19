"""The running sums: exact for decimal numbers, never too small for floats."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdp.accounting._accounts import Accounts, decimal

ORDERS = 2

positive = st.floats(min_value=5e-324, max_value=1.7e308)
moderate = st.floats(min_value=0, max_value=1e6)
sizes = st.floats(min_value=0, max_value=1e6) | st.just(math.inf)
accounts = st.builds(
    Accounts,
    sizes.map(decimal),
    sizes.map(decimal),
    sizes.map(decimal),
    st.tuples(*[sizes] * ORDERS),
    sizes,
)


def floats(value):
    return [*value.rdp, value.squares]


def decimals(value):
    return [value.epsilon, value.delta, value.failure]


def everything(value):
    return decimals(value) + floats(value)


def exact(value):
    return math.inf if value == math.inf else Fraction(value)


# --- Decimal numbers


def test_decimal_is_what_was_written():
    assert decimal(0.1) == Decimal("0.1")
    assert decimal(1e-5) == Decimal("0.00001")
    assert decimal(math.inf) == Decimal("Infinity")


@pytest.mark.parametrize("written", ["0.1", "0.3", "1e-05", "0.7", "1e-300"])
@pytest.mark.parametrize("count", [3, 10, 1000])
def test_sums_of_decimal_numbers_are_exact(written, count):
    total = Accounts()
    for _ in range(count):
        total += Accounts(decimal(float(written)))
    assert total.epsilon == Decimal(written) * count
    assert total.epsilon == Accounts(Decimal(written)).times(count).epsilon


@given(st.lists(positive, min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_sums_are_exact_over_the_whole_range_of_float64(values):
    total = Accounts()
    for value in values:
        total += Accounts(decimal(value), decimal(value), decimal(value))
    wanted = sum(Fraction(repr(value)) for value in values)
    assert [Fraction(part) for part in decimals(total)] == [wanted] * 3


# --- Floats


@given(st.lists(moderate, min_size=1, max_size=50))
@example([5e-324, 5e-324])
@settings(max_examples=100, deadline=None)
def test_sums_of_floats_round_up(values):
    total = Accounts(rdp=(0.0,))
    for value in values:
        total += Accounts(rdp=(value,), squares=value)
    wanted = sum(map(Fraction, values))
    limit = wanted * (1 + Fraction(1, 10**13)) + len(values) * Fraction(5e-324)
    for found in floats(total):
        assert wanted <= Fraction(found) <= limit


@given(moderate, st.integers(1, 10**9))
@settings(max_examples=100, deadline=None)
def test_multiples_of_floats_round_up(value, count):
    found = Accounts(rdp=(value,), squares=value).times(count)
    for part in floats(found):
        assert Fraction(part) >= count * Fraction(value)


def test_tiny_floats_are_not_lost():
    total = Accounts(rdp=(1.0,), squares=1.0)
    for _ in range(1000):
        total += Accounts(rdp=(1e-20,), squares=1e-20)
    assert all(part > 1.0 for part in floats(total))


# --- Algebra


@given(accounts, accounts)
@settings(max_examples=200, deadline=None)
def test_growth_leads_to_the_larger_accounts(before, other):
    after = before.maximum(other)
    reached = before + after.growth(before)
    assert decimals(reached) == decimals(after)
    for found, wanted in zip(floats(reached), floats(after), strict=True):
        assert wanted <= found <= wanted * (1 + 1e-15) + 2e-323


@given(accounts, accounts)
@settings(max_examples=100, deadline=None)
def test_maximum_is_a_maximum(one, other):
    assert one.maximum(other) == other.maximum(one)
    assert one.maximum(one) == one
    largest = one.maximum(other)
    for found, a, b in zip(
        everything(largest), everything(one), everything(other), strict=True
    ):
        assert found == max(a, b)


@given(accounts, accounts, st.integers(1, 1000))
@settings(max_examples=200, deadline=None)
def test_nothing_is_ever_nan(one, other, count):
    results = [one + other, one.times(count), one.growth(other), one.maximum(other)]
    for value in results:
        assert all(part >= 0 for part in everything(value))  # a NaN is not


@given(accounts, accounts)
@settings(max_examples=100, deadline=None)
def test_infinity_stays(one, other):
    for found, a, b in zip(
        everything(one + other), everything(one), everything(other), strict=True
    ):
        assert (found == math.inf) == (math.inf in (a, b))
        assert exact(found) >= exact(a)


def test_growth_is_never_negative():
    small, large = Accounts(Decimal(1), squares=1.0), Accounts(Decimal(2), squares=2.0)
    assert small.growth(large) == Accounts()


def test_accounts_of_different_rules_do_not_add_up():
    with pytest.raises(ValueError, match="zip"):
        Accounts(rdp=(1.0,)) + Accounts(rdp=(1.0, 2.0))


# --- JSON


@given(accounts)
@settings(max_examples=200, deadline=None)
def test_json_gives_equal_accounts(value):
    assert Accounts.from_json(value.to_json()) == value


def test_json_keeps_every_digit_and_infinity():
    digits = Decimal("0." + "123456789" * 50)
    value = Accounts(digits, Decimal("Infinity"), rdp=(0.1 + 0.2, math.inf))
    back = Accounts.from_json(value.to_json())
    assert (back.epsilon, back.delta, back.rdp) == (digits, math.inf, value.rdp)
