"""Spending, refusing and reading: the ceiling holds, and what fits is accepted."""

import math
import pickle

import numpy as np
import pytest

from skdp import BudgetAccountant, events, mechanisms
from skdp.accounting.ledger import Snapshot
from skdp.calibration import gaussian_sigma
from skdp.events import Approximate, Composed, Gaussian, Group, Laplace, Pure
from skdp.exceptions import BudgetError, BudgetExceededError, UnsupportedEventError
from tests.accounting.estimator import DPColumnMean


def spend_until_refused(accountant, event, limit=10_000):
    for count in range(limit):
        try:
            accountant.spend(event)
        except BudgetExceededError:
            return count
    raise AssertionError("never refused")


# --- What fits exactly


def test_three_tenths_fit_into_three_tenths():
    for delta in (0.0, 1e-6):
        accountant = BudgetAccountant(0.3, delta)
        for _ in range(3):
            accountant.spend(epsilon=0.1)
        assert accountant.total().epsilon == 0.3
    accountant = BudgetAccountant(0.3, 0.0)
    assert spend_until_refused(accountant, Pure(0.1)) == 3
    assert not accountant.check(epsilon=1e-9)


def test_a_hundred_thousand_small_spends_fit_exactly():
    accountant = BudgetAccountant(1.0, 0.0)
    event = Pure(1e-5)
    for _ in range(100_000):
        accountant.spend(event)
    assert accountant.total().epsilon == 1.0
    with pytest.raises(BudgetExceededError):
        accountant.spend(event)
    assert len(accountant.spends) == 100_000


@pytest.mark.parametrize("composition", ["adaptive", "basic"])
@pytest.mark.parametrize("ceiling", [(1.0, 1e-6), (0.3, 1e-5), (2.5, 0.07)])
def test_equal_shares_fit_and_no_more(ceiling, composition):
    # Many of these quotients round up in float64, and in their decimal form.
    epsilon, delta = ceiling
    for count in (*range(1, 60), 98, 99, 101, 333):
        accountant = BudgetAccountant(epsilon, delta, composition=composition)
        share = Approximate(epsilon / count, delta / count)
        for _ in range(count):
            accountant.spend(share)
        assert not accountant.check(share)
        assert not accountant.check(epsilon=1e-6 * epsilon)
        assert len(accountant.spends) == count


@pytest.mark.parametrize("epsilon", [1.0, 0.7])
def test_equal_pure_shares_fit_and_no_more(epsilon):
    for count in range(1, 60):
        accountant = BudgetAccountant(epsilon, 0.0)
        share = epsilon / count
        for event in (Pure(share), Laplace(1 / share)) * count:
            if accountant.check(event):
                accountant.spend(event)
        assert len(accountant.spends) == count


@pytest.mark.parametrize("composition", ["adaptive", "basic"])
def test_one_release_as_large_as_the_ceiling(composition):
    for event in (
        Approximate(1.0, 1e-6),
        Gaussian(gaussian_sigma(1.0, 1e-6)),
        mechanisms.Gaussian(1.0, 1e-6).event,
        Pure(1.0),
    ):
        accountant = BudgetAccountant(1.0, 1e-6, composition=composition)
        accountant.spend(event)
        assert not accountant.check(event)
        assert accountant.total().epsilon <= 1.0 + 1e-12
        assert accountant.total().delta <= 1e-6


def test_two_halves():
    accountant = BudgetAccountant(1.0, 1e-6)
    assert spend_until_refused(accountant, Approximate(0.5, 5e-7)) == 2


# --- Refusals


def test_a_refused_spend_records_nothing():
    accountant = BudgetAccountant(1.0, 1e-6)
    accountant.spend(epsilon=0.7)
    before = accountant._ledger.read("")
    for event in (Pure(0.6), Gaussian(0.5), Approximate(0.1, 1e-3)):
        with pytest.raises(BudgetExceededError):
            accountant.spend(event)
    assert accountant._ledger.read("") == before
    assert len(accountant.spends) == 1
    accountant.spend(epsilon=0.3)
    assert accountant.total().epsilon == 1.0


def test_the_refusal_says_what_was_asked_and_what_is_left():
    accountant = BudgetAccountant(1.0, 0.0, name="census")
    accountant.spend(epsilon=0.75)
    with pytest.raises(BudgetExceededError, match=r"census.*0\.25 would fit") as caught:
        accountant.spend(epsilon=0.5)
    error = caught.value
    assert (error.asked, error.remaining) == ((0.5, 0.0), (0.25, 0.0))
    assert isinstance(error, BudgetError)
    accountant.spend(epsilon=error.remaining.epsilon)


@pytest.mark.parametrize("composition", ["adaptive", "basic", "advanced"])
def test_what_a_refusal_offers_is_accepted(composition):
    accountant = BudgetAccountant(1.0, 1e-6, composition=composition)
    for event in (Pure(2.0), Approximate(0.1, 1e-7), Pure(3.0), Gaussian(0.1)):
        try:
            accountant.spend(event)
        except BudgetExceededError as error:
            left = error.remaining
            assert accountant.check(epsilon=left.epsilon, delta=left.delta)


def test_the_refusal_is_pickled_with_its_numbers():
    accountant = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(BudgetExceededError) as caught:
        accountant.spend(epsilon=2.0, delta=1e-7)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.asked == caught.value.asked == (2.0, 1e-7)
    assert copy.remaining == caught.value.remaining == (1.0, 1e-6)


@pytest.mark.parametrize("ceiling, text", [(0.0, "delta=0 "), (1e-9, "delta=1e-09")])
def test_a_delta_that_the_budget_does_not_have(ceiling, text):
    accountant = BudgetAccountant(1.0, ceiling)
    model = DPColumnMean(delta=1e-6, accountant=accountant)
    with pytest.raises(BudgetExceededError) as caught:
        model.fit([[0.1], [0.2]])
    message = str(caught.value)
    assert "delta=1e-06" in message and text in message
    assert "larger delta" in message and "smaller one" in message
    assert accountant.spends == [] and not hasattr(model, "mean_")


def test_gaussian_noise_on_a_budget_without_delta():
    with pytest.raises(BudgetExceededError, match=r"needs a delta > 0.*larger delta"):
        BudgetAccountant(1.0, 0.0).spend(Gaussian(100.0))


@pytest.mark.parametrize(
    "ours, theirs", [("replace", "add_remove"), ("add_remove", "replace")]
)
def test_a_budget_has_one_neighbour_relation(ours, theirs):
    accountant = BudgetAccountant(1.0, neighboring=ours)
    for event in (Pure(0.1, theirs), Composed([Laplace(9.0, theirs)], [3])):
        with pytest.raises(UnsupportedEventError, match="never mixes"):
            accountant.spend(event)
        with pytest.raises(UnsupportedEventError):
            accountant.check(event)
    accountant.spend(epsilon=0.1)
    assert accountant.spends[0].event == Pure(0.1, ours)


def test_a_small_release_after_large_ones():
    # Models (delta 1e-6 each) after a first statistic without a delta: 30 % of the
    # delta is kept for them.
    accountant = BudgetAccountant(1.0, 1e-5)
    accountant.spend(Pure(0.01))
    assert spend_until_refused(accountant, Approximate(0.19, 1e-6)) >= 3


# --- Asking without spending


def test_check_does_not_spend():
    accountant = BudgetAccountant(1.0, 1e-6)
    for _ in range(5):
        assert accountant.check(epsilon=1.0, delta=1e-6)
        assert accountant.check(Gaussian(10.0))
        assert not accountant.check(epsilon=1.1)
    assert accountant.spends == []
    assert accountant._ledger.read("") == Snapshot(None, {})
    accountant.spend(epsilon=0.5)
    assert accountant.check(epsilon=0.5) and accountant.check(epsilon=0.5)
    assert accountant.total().epsilon == 0.5


def test_check_while_another_thread_spends_first():
    accountant = BudgetAccountant(1.0, 1e-6)
    read, answered = accountant._ledger.read, []

    def read_and_be_overtaken(*paths):
        answer = read(*paths)
        if not answered:
            answered.append(answer)
            accountant.spend(Pure(0.01))
        return answer

    accountant._ledger.read = read_and_be_overtaken
    assert accountant.check(epsilon=0.9, delta=9e-7)  # as it was when it looked
    assert answered


# --- Reading


def sequences():
    yield "small pure", BudgetAccountant(2.0, 1e-6), [Pure(0.02)] * 420
    yield "just above basic", BudgetAccountant(1.0, 1e-8), [Pure(0.0556)] * 18
    yield "gaussian", BudgetAccountant(2.0, 1e-6), [Gaussian(40.0)] * 300
    mixed = [Laplace(30.0), Gaussian(50.0), Approximate(0.01, 1e-9)] * 60
    yield "mixed", BudgetAccountant(1.0, 1e-5), mixed
    yield "large", BudgetAccountant(1.0, 1e-5), [Pure(0.4), Gaussian(20.0)] * 5
    planned = [Composed([Pure(0.01)], [9]), Group(Pure(0.01), 3)] * 20
    yield "planned", BudgetAccountant(1.0, 1e-5), planned
    advanced = BudgetAccountant(1.0, 1e-5, composition="advanced")
    yield "advanced", advanced, [Pure(0.01)] * 250
    basic = BudgetAccountant(1.0, 1e-5, composition="basic")
    yield "basic", basic, [Pure(0.01), Gaussian(80.0)] * 60
    yield "large delta", BudgetAccountant(1.0, 0.5), [Pure(0.05)] * 50


@pytest.mark.parametrize(
    "accountant, spends",
    [pytest.param(*rest, id=name) for name, *rest in sequences()],
)
def test_the_total_grows_up_to_the_ceiling(accountant, spends):
    last = accountant.total()
    assert (last.epsilon, last.delta, last.rule) == (0.0, 0.0, "nothing spent")
    for event in spends:
        if not accountant.check(event):
            continue
        accountant.spend(event)
        total = accountant.total()
        assert math.isfinite(total.epsilon) and math.isfinite(total.delta)
        assert total.epsilon >= last.epsilon
        assert total.epsilon <= accountant.epsilon * (1 + 1e-12)
        assert 0 <= total.delta <= accountant.delta * (1 + 1e-12)
        last = total
    assert len(accountant.spends) > 3


def test_the_total_names_its_rule():
    accountant = BudgetAccountant(2.0, 1e-6)
    accountant.spend(Pure(0.02))
    assert accountant.total().rule == "basic"
    for _ in range(200):
        accountant.spend(Pure(0.02))
    assert accountant.total().rule.startswith("Renyi")
    accountant = BudgetAccountant(2.0, 1e-6)
    accountant.spend(Gaussian(40.0))
    assert accountant.total().rule == "Gaussian"


def test_a_group_of_people():
    accountant = BudgetAccountant(1.0, 1e-6, composition="basic")
    assert accountant.group(3).epsilon == 0
    accountant.spend(epsilon=0.5)
    reading = accountant.group(3)
    assert (reading.epsilon, reading.delta) == (1.5, 0.0)
    assert reading.rule == "basic, for a group of 3"
    accountant.spend(epsilon=0.25, delta=1e-7)
    reading, single = accountant.group(4), accountant.group(1)
    assert reading.epsilon == pytest.approx(3.0)
    ratio = math.expm1(4 * 0.75) / math.expm1(0.75)
    assert reading.delta == pytest.approx(1e-7 * ratio)
    assert (single.epsilon, single.delta) == (0.75, 1e-7)
    for size in (0, -1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="size"):
            accountant.group(size)


def test_a_group_shares_delta_even_when_epsilon_reads_zero():
    accountant = BudgetAccountant(1.0, 0.5)
    accountant.spend(epsilon=1e-3)
    total = accountant.total()
    assert accountant.group(3).epsilon + accountant.group(3).delta >= min(
        3 * (total.epsilon + total.delta), 1.0
    ) * (1 - 1e-9)


def test_spends_tell_when_what_and_why():
    accountant = BudgetAccountant(1.0, 1e-6)
    first = accountant.spend(Laplace(10.0), "mean age")
    second = accountant.spend(epsilon=0.2, delta=1e-9, seeded=True)
    third = accountant.spend(Composed([Pure(0.01)], [5]), label="")
    assert accountant.spends == [first, second, third]
    assert [spend.label for spend in accountant.spends] == ["mean age", None, ""]
    assert [spend.seeded for spend in accountant.spends] == [False, True, False]
    assert second.event == Approximate(0.2, 1e-9)
    assert first.time <= second.time <= third.time
    assert first.time.utcoffset().total_seconds() == 0


# --- Arguments


@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": None}, "delta"),
        ({"neighboring": "swap"}, "neighboring"),
        ({"composition": "optimal"}, "composition"),
        ({"ledger": 3}, "ledger"),
        ({"ledger": "mysql://host/db"}, "ledger"),
        ({"name": ""}, "name"),
        ({"name": 3}, "name"),
    ],
)
def test_terms_are_checked(arguments, name):
    with pytest.raises((TypeError, ValueError), match=f"'{name}'"):
        BudgetAccountant(**{"epsilon": 1.0, **arguments})


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"delta": 1e-6},
        {"event": 0.1},
        {"event": "Pure"},
        {"event": Pure(0.1), "epsilon": 0.1},
        {"event": Pure(0.1), "delta": 0.0},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": 0.1, "delta": 1.0},
        {"epsilon": 0.1, "label": 3},
        {"epsilon": 0.1, "label": b"mean"},
    ],
)
def test_what_cannot_be_spent_costs_nothing(arguments):
    accountant = BudgetAccountant(1.0)
    with pytest.raises((TypeError, ValueError)):
        accountant.spend(**arguments)
    assert accountant.spends == [] and accountant.total().epsilon == 0


def test_numpy_numbers_are_numbers():
    accountant = BudgetAccountant(np.float32(0.5), np.float64(1e-6))
    record = accountant.spend(epsilon=np.float64(0.1), seeded=np.bool_(True))
    assert record.seeded is True
    assert events.from_json(record.event.to_json()) == Pure(0.1)
    assert accountant.total().epsilon == 0.1
