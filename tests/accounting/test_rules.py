"""The choice of rules, what they let pass, and how close they are to optimal."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdp import BudgetAccountant
from skdp.accounting._accounts import Accounts, decimal
from skdp.accounting._rules import Rules, basic_price, choose_rules
from skdp.calibration import gaussian_sigma
from skdp.divergences import epsilon_from_rdp, pure_rdp
from skdp.events import (
    Approximate,
    BoundedRange,
    Composed,
    Gaussian,
    Group,
    Laplace,
    Parallel,
    Pure,
    SampledGaussian,
    ZeroConcentrated,
)
from skdp.exceptions import BudgetExceededError

COMPOSITIONS = ["adaptive", "basic", "advanced"]

ceilings = st.tuples(st.floats(1e-3, 50), st.sampled_from([1e-12, 1e-8, 1e-5, 1e-2]))
FIRST = [
    Pure(0.1),
    Laplace(20.0),
    Gaussian(30.0),
    BoundedRange(0.1),
    ZeroConcentrated(1e-3),
    Approximate(0.1, 1e-9),
    Composed([Gaussian(30.0), Gaussian(60.0)]),
    Composed([Pure(0.01), Gaussian(30.0)], [3, 1]),
    Parallel([Pure(0.1), Gaussian(20.0)]),
    Group(Pure(0.05), 2),
    Group(Parallel([Pure(0.1), Pure(0.2)]), 2),
]


def copies_fit(rules, event, count):
    return rules.allows(rules.nothing + rules.price(event).times(count))


# --- The choice at the first release


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("event", FIRST, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_the_deltas_of_all_rules_add_up_to_the_ceiling(composition, event, delta):
    for epsilon in (0.01, 1.0, 20.0):
        rules = choose_rules(epsilon, delta, composition, event)
        parts = [rules.failure_delta, *rules.order_deltas]
        parts += [rules.gaussian_delta, rules.advanced_delta]
        assert min(parts) >= 0
        assert math.fsum(parts) == pytest.approx(delta, rel=1e-12)
        assert (rules.epsilon, rules.delta) == (epsilon, delta)


@pytest.mark.parametrize("event", FIRST, ids=lambda event: type(event).__name__)
def test_rules_survive_json(event):
    for composition in COMPOSITIONS:
        rules = choose_rules(1.0, 1e-6, composition, event)
        assert Rules.from_json(rules.to_json()) == rules


@pytest.mark.parametrize("event", [Pure(0.1), Approximate(0.1, 1e-6), Gaussian(50.0)])
def test_basic_composition_has_all_of_delta(event):
    assert choose_rules(1.0, 1e-6, "basic", event) == Rules(1.0, 1e-6, 1e-6)
    assert choose_rules(1.0, 0.0, "adaptive", event) == Rules(1.0, 0.0, 0.0)
    assert choose_rules(1.0, 0.0, "advanced", event) == Rules(1.0, 0.0, 0.0)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 11, 49, 1000])
def test_equal_shares_stay_with_basic(count):
    event = Approximate(0.9 / count, 1e-6 / count)
    assert choose_rules(0.9, 1e-6, "adaptive", event).only_basic


def test_the_gaussian_rule_is_for_gaussian_events():
    for event in (Gaussian(50.0), Composed([Gaussian(50.0)], [3])):
        assert choose_rules(1.0, 1e-6, "adaptive", event).gaussian_delta > 0
    for event in (Pure(0.01), Parallel([Gaussian(50.0)]), ZeroConcentrated(1e-4)):
        assert choose_rules(1.0, 1e-6, "adaptive", event).gaussian_delta == 0


@pytest.mark.parametrize("composition", COMPOSITIONS)
@given(ceilings, st.floats(0.001, 1), st.floats(0, 1))
@example((1.0, 1e-5), 1.0, 0.95)
@example((1.0, 1e-5), 1.0, 1.0)
@settings(max_examples=60, deadline=None)
def test_a_first_release_within_the_ceiling_fits(composition, ceiling, share, part):
    epsilon, delta = ceiling
    event = Approximate(share * epsilon, part * delta)
    rules = choose_rules(epsilon, delta, composition, event)
    assert copies_fit(rules, event, 1)


def test_rules_without_room_take_no_delta():
    # At this ceiling every Renyi order up to 1e5 is exceeded from the start.
    rules = choose_rules(1e-4, 1e-12, "adaptive", Pure(1e-5))
    beyond_basic = replace(rules.nothing, epsilon=decimal(1.0))
    assert rules.only_basic or rules.allows(beyond_basic)


@given(ceilings, st.floats(0.05, 0.999))
@settings(max_examples=40, deadline=None)
def test_a_first_gaussian_within_the_ceiling_fits(ceiling, share):
    epsilon, delta = ceiling
    event = Gaussian(gaussian_sigma(share * epsilon, delta))
    assert copies_fit(choose_rules(epsilon, delta, "adaptive", event), event, 1)


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_a_sampled_gaussian_is_priced_in_seconds(neighboring):
    accountant = BudgetAccountant(30.0, 1e-5, neighboring=neighboring)
    start = time.monotonic()
    accountant.spend(SampledGaussian(1.0, 0.01, 1000, neighboring))
    assert time.monotonic() - start < 15


# --- Prices


def test_a_simple_event_is_charged_what_it_says():
    for event, price in [
        (Pure(0.3), (0.3, 0.0)),
        (Laplace(4.0), (0.25, 0.0)),
        (BoundedRange(0.3), (0.3, 0.0)),
        (Approximate(0.3, 1e-9), (0.3, 1e-9)),
    ]:
        assert basic_price(event, 1.0, 1e-6) == price


@pytest.mark.parametrize(
    "event",
    [Gaussian(10.0), Composed([Pure(0.01)], [500]), Group(Gaussian(50.0), 3)],
    ids=lambda event: type(event).__name__,
)
def test_other_events_are_charged_a_point_of_their_profile(event):
    epsilon, delta = basic_price(event, 1.0, 1e-6)
    assert event.profile(epsilon) <= delta * (1 + 1e-9)
    assert delta / 1e-6 == pytest.approx(epsilon, rel=1e-9)


def test_no_delta_leaves_no_room_for_gaussian_noise():
    rules = choose_rules(1.0, 0.0, "adaptive", Gaussian(10.0))
    assert rules.price(Gaussian(10.0)) == Accounts(decimal(math.inf))
    assert not copies_fit(rules, Gaussian(1e9), 1)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_group_without_a_renyi_curve_has_a_price(composition):
    event = Group(Parallel([Pure(0.1), Pure(0.2)]), 2)
    rules = choose_rules(1.0, 1e-6, composition, Pure(0.01))
    price = rules.price(event)
    assert 0.39 < price.epsilon <= 0.4 + 1e-9
    assert copies_fit(rules, event, 1)


@pytest.mark.parametrize("event", [Gaussian(1e-200), Laplace(1e-310), Pure(1e300)])
@pytest.mark.parametrize("first", [Pure(0.01), Gaussian(100.0)])
def test_a_release_with_hardly_any_noise_is_refused(event, first):
    accountant = BudgetAccountant(1.0, 1e-6)
    accountant.spend(first)
    with pytest.raises(BudgetExceededError):
        accountant.spend(event)


@pytest.mark.parametrize("delta", [1e-15, 1e-20, 1e-22, 1e-25, 1e-100, 1e-300])
@pytest.mark.parametrize("event", [Pure(0.01), Gaussian(1000.0), Laplace(100.0)])
def test_any_delta_can_be_a_ceiling(event, delta):
    accountant = BudgetAccountant(1.0, delta)
    for _ in range(3):
        try:
            accountant.spend(event)
        except BudgetExceededError:
            continue
    assert accountant.total().epsilon <= 1.0
    assert accountant.remaining().delta <= delta


# --- While spending


def alive(rules, accounts):
    """Return which rules allow the accounts, by their names."""
    readings = rules.readings(accounts)
    limit = rules.epsilon * (1 + 1e-12)
    return {reading.rule for reading in readings if reading.epsilon <= limit}


events_of_any_kind = st.sampled_from(
    [*FIRST, Pure(0.5), Pure(1e-3), Gaussian(5.0), Gaussian(1000.0), Laplace(2.0)]
)


@given(
    st.sampled_from([0.3, 1.0, 5.0]),
    st.sampled_from([1e-8, 1e-5, 1e-2]),
    st.sampled_from(COMPOSITIONS),
    st.lists(events_of_any_kind, min_size=2, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_a_dead_rule_stays_dead(epsilon, delta, composition, events):
    rules = choose_rules(epsilon, delta, composition, events[0])
    accounts, before = rules.nothing, None
    for event in events:
        accounts += rules.price(event)
        now = alive(rules, accounts)
        assert before is None or now <= before
        failed = accounts.failure > decimal(rules.failure_delta)
        assert rules.allows(accounts) == (bool(now) and not failed)
        before = now


def test_a_rule_that_cannot_price_a_release_is_dead():
    rules = choose_rules(1.0, 1e-6, "adaptive", Gaussian(100.0))
    start = rules.nothing + rules.price(Gaussian(100.0))
    assert "Gaussian" in {reading.rule for reading in rules.readings(start)}
    accounts = start + rules.price(Pure(1e-6))
    for _ in range(3):
        assert "Gaussian" not in {reading.rule for reading in rules.readings(accounts)}
        assert not replace(rules, orders=(), order_deltas=()).allows(
            replace(accounts, rdp=())
        )
        accounts += rules.price(Gaussian(100.0))


@pytest.mark.parametrize("first", [Pure(0.01), Gaussian(100.0), Approximate(0.1, 1e-9)])
def test_the_rules_never_change_after_the_first_release(first):
    accountant = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(BudgetExceededError):
        accountant.spend(Pure(2.0))  # refused: nothing is fixed by it
    accountant.spend(first)
    fixed = accountant._ledger.read("").rules
    assert fixed == choose_rules(1.0, 1e-6, "adaptive", first).to_json()
    for event in [Gaussian(50.0), Pure(0.05), Laplace(30.0), Approximate(0.01, 1e-9)]:
        for _ in range(5):
            if accountant.check(event):
                accountant.spend(event)
            assert accountant._ledger.read("").rules == fixed


# --- Tightness


def smallest_ceiling(event, count, delta, start):
    """Return the smallest epsilon, in steps of a thousandth, that pays for all."""
    for factor in np.geomspace(1, 2, 700):
        rules = choose_rules(start * factor, delta, "adaptive", event)
        if copies_fit(rules, event, count):
            return start * factor
    return math.inf


@pytest.mark.parametrize(
    "size, delta",
    [(0.01, 1e-8), (0.1, 1e-8), (0.01, 1e-6), (0.1, 1e-6), (0.1, 1e-5), (0.5, 1e-5)],
)
@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize(
    "kind, limit", [(Pure, 1.12), (Laplace, 1.12), (Gaussian, 1.02)]
)
def test_adaptive_releases_cost_little_more_than_planned_ones(
    kind, limit, count, size, delta
):
    event = kind(size) if kind is Pure else kind(1 / size)
    optimal = Composed([event], [count]).epsilon(delta)
    assert optimal <= smallest_ceiling(event, count, delta, optimal) <= limit * optimal


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_few_gaussian_releases(count):
    event = Gaussian(gaussian_sigma(1.0, 1e-6) * math.sqrt(count) / 0.97)
    accountant = BudgetAccountant(1.0, 1e-6)
    for _ in range(count):
        accountant.spend(event)


@pytest.mark.parametrize("delta", [1e-8, 1e-5])
@pytest.mark.parametrize(
    "event",
    [
        Composed([Pure(0.1)], [100]),
        Composed([Laplace(50.0)], [1000]),
        Composed([Gaussian(20.0)], [30]),
        Composed([Pure(0.05), Laplace(10.0), Gaussian(15.0)], [20, 10, 5]),
        Composed([Approximate(0.1, 1e-11), Pure(0.1)], [50, 50]),
    ],
    ids=["pure", "Laplace", "Gaussian", "mixed", "approximate"],
)
def test_planned_releases_cost_their_exact_price(event, delta):
    ceiling = event.epsilon(delta) / (1 - 1e-6)
    accountant = BudgetAccountant(ceiling, delta)
    accountant.spend(event)
    assert accountant.total().epsilon <= ceiling
    assert not BudgetAccountant(ceiling * (1 - 1e-5), delta).check(event)


def test_advanced_composition_is_the_concentrated_bound():
    rules = choose_rules(10.0, 1e-6, "advanced", Pure(0.1))
    accounts = rules.nothing + rules.price(Pure(0.1)).times(100)
    basic, advanced = rules.readings(accounts)
    rho = 100 * 0.1**2 / 2
    wanted = rho + 2 * math.sqrt(rho * math.log(1 / 5e-7))
    assert (basic.epsilon, advanced.rule) == (10.0, "advanced")
    assert advanced.epsilon == pytest.approx(wanted, rel=1e-12)
    assert rules.reading(accounts) == advanced


def test_the_renyi_reading_is_the_conversion_at_its_order():
    rules = choose_rules(10.0, 1e-6, "adaptive", Pure(0.1))
    accounts = rules.nothing + rules.price(Pure(0.1)).times(100)
    _, *renyi = rules.readings(accounts)
    assert len(renyi) == len(rules.orders) > 0
    for reading, order, delta in zip(
        renyi, rules.orders, rules.order_deltas, strict=True
    ):
        at = np.array([order])
        wanted = epsilon_from_rdp(at, 100 * pure_rdp(at, 0.1), delta)
        assert reading.epsilon == pytest.approx(wanted, rel=1e-12)
        assert reading.delta == delta


@pytest.mark.parametrize("composition", ["adaptive", "advanced"])
def test_other_compositions_take_at_least_what_basic_takes(composition):
    for size in (0.3, 0.1, 0.01):
        rules = choose_rules(1.0, 1e-6, composition, Pure(size))
        assert copies_fit(rules, Pure(size), math.floor(1.0 / size + 1e-9))
