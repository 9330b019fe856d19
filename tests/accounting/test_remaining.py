"""What is left is accepted, and in basic composition it is all there is."""

import itertools

import pytest

from skdp import BudgetAccountant
from skdp.accounting._remaining import plain_event, remaining
from skdp.accounting._rules import choose_rules
from skdp.events import Approximate, Composed, Gaussian, Laplace, Pure

STATES = {
    "nothing": [],
    "one pure": [Pure(0.3)],
    "small pure": [Pure(0.01)] * 30,
    "many pure": [Pure(0.01)] * 110,
    "Laplace": [Laplace(7.0)] * 3,
    "approximate": [Approximate(0.3, 3e-7)],
    "little delta": [Approximate(0.3, 1e-8)],
    "Gaussian": [Gaussian(50.0)] * 20,
    "large Gaussian": [Gaussian(6.5)],
    "mixed": [Pure(0.05), Gaussian(40.0), Approximate(0.05, 1e-8)],
    "planned": [Composed([Laplace(100.0), Gaussian(50.0)], [20, 10])],
    "all": [Approximate(1.0, 1e-6)],
}


def made(state, composition, delta=1e-6):
    accountant = BudgetAccountant(1.0, delta, composition=composition)
    for event in STATES[state]:
        if accountant.check(event):
            accountant.spend(event)
    return accountant


@pytest.mark.parametrize("composition", ["adaptive", "basic", "advanced"])
@pytest.mark.parametrize("state", STATES)
def test_what_is_left_is_accepted(state, composition):
    for count in (1, 2, 3, 7, 11, 49, 500):
        accountant = made(state, composition)
        left = accountant.remaining(count)
        if left.epsilon > 0:
            for _ in range(count):
                accountant.spend(epsilon=left.epsilon, delta=left.delta)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("count", [1, 3, 49])
def test_in_basic_composition_it_is_all_there_is(state, count):
    left = made(state, "basic").remaining(count)
    for more in [(1.01, 1.0), (1.0, 1.01)]:
        accountant = made(state, "basic")
        accepted = 0
        for _ in range(count):
            ask = {"epsilon": more[0] * left.epsilon, "delta": more[1] * left.delta}
            if ask["epsilon"] > 0 and accountant.check(**ask):
                accountant.spend(**ask)
                accepted += 1
        assert accepted < count


@pytest.mark.parametrize("state", STATES)
def test_what_is_left_is_the_most_for_its_delta(state):
    accountant = made(state, "adaptive")
    left = accountant.remaining()
    more = plain_event(max(1.01 * left.epsilon, 1e-6), left.delta, "replace")
    assert not accountant.check(more)


@pytest.mark.parametrize("state", ["nothing", "one pure", "small pure", "many pure"])
def test_a_budget_without_delta(state):
    accountant = made(state, "adaptive", delta=0.0)
    spent = accountant.total().epsilon
    left = accountant.remaining()
    assert left == pytest.approx((1.0 - spent, 0.0), abs=1e-12)


def test_what_is_left_shrinks():
    accountant = BudgetAccountant(1.0, 1e-6)
    for count in (1, 10):
        assert accountant.remaining(count) == (1.0 / count, 1e-6 / count)
    last = accountant.remaining()
    for event in [Pure(0.05), Gaussian(60.0), Approximate(0.02, 1e-9)] * 4:
        accountant.spend(event)
        left = accountant.remaining()
        assert left.epsilon <= last.epsilon and left.delta <= last.delta
        many = [accountant.remaining(count) for count in (1, 2, 5, 50)]
        for fewer, more in itertools.pairwise(many):
            assert more.epsilon <= fewer.epsilon and more.delta <= fewer.delta
        last = left


def test_nothing_is_left_of_a_spent_budget():
    accountant = made("all", "adaptive")
    assert accountant.remaining() == (0.0, 0.0)
    assert accountant.remaining(100) == (0.0, 0.0)


@pytest.mark.parametrize("delta, before", [(1e-6, 4), (1e-6, 66), (1e-5, 96)])
def test_rounding_of_many_sums_is_paid_for(delta, before):
    rules = choose_rules(1.0, delta, "adaptive", Pure(0.01))
    accounts = rules.nothing + rules.price(Pure(0.01)).times(before)
    left = remaining(rules, accounts, 100_000, "replace")
    price = rules.price(plain_event(*left, "replace"))
    for _ in range(100_000):
        accounts += price
    assert rules.allows(accounts)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True, None])
def test_the_number_of_releases_is_checked(count):
    with pytest.raises((TypeError, ValueError), match="'k'"):
        BudgetAccountant(1.0).remaining(count)
