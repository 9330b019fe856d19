"""What holds for a budget in a database, SQLite and PostgreSQL alike."""

import gc
import pickle
import threading
from datetime import UTC, datetime, timedelta

import joblib
import pytest

from skdp import BudgetAccountant, events
from skdp.exceptions import BudgetExceededError, LedgerError

EVENTS = [
    events.Pure(0.1),
    events.Approximate(0.1, 1e-9),
    events.Laplace(10.0),
    events.Gaussian(30.0),
    events.BoundedRange(0.05),
    events.ZeroConcentrated(0.001),
    events.Composed((events.Laplace(100.0), events.Gaussian(50.0)), (3, 2)),
    events.Parallel((events.Pure(0.1), events.Pure(0.2))),
    events.Group(events.Pure(0.01), 3),
]


def opened(place):
    return BudgetAccountant.open(place["ledger"], place["name"])


# --- Making and opening


def test_a_budget_is_made_at_the_first_use_and_opened_by_others(place):
    accountant = BudgetAccountant(0.3, 1e-7, **place)
    with pytest.raises(LedgerError, match=r"does not exist|no budget"):
        opened(place)  # nothing was made yet
    assert accountant.total().epsilon == 0
    accountant.spend(epsilon=0.1, label="first")
    again = opened(place)
    assert (again.epsilon, again.delta) == (0.3, 1e-7)
    assert (again.neighboring, again.composition) == ("replace", "adaptive")
    assert again.name == place["name"]
    assert [spend.label for spend in again.spends] == ["first"]
    assert again.total() == accountant.total()
    assert again.remaining() == accountant.remaining()


def test_terms_other_than_the_default_are_kept(place):
    terms = {"neighboring": "add_remove", "composition": "basic"}
    BudgetAccountant(1e-300, 0.0, **terms, **place).total()
    again = opened(place)
    assert (again.epsilon, again.delta) == (1e-300, 0.0)
    assert {name: getattr(again, name) for name in terms} == terms


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 2.0},
        {"delta": 1e-6},
        {"delta": 0.0},
        {"neighboring": "add_remove"},
        {"composition": "basic"},
    ],
)
def test_another_ceiling_is_refused(place, other):
    terms = {"epsilon": 1.0, "delta": 1e-5}
    BudgetAccountant(**terms, **place).spend(epsilon=0.5)
    stranger = BudgetAccountant(**{**terms, **other}, **place)
    for action in (stranger.total, lambda: stranger.spend(epsilon=0.1)):
        with pytest.raises(LedgerError, match="other terms") as caught:
            action()
        for value in (*terms.values(), *other.values()):
            assert repr(value) in str(caught.value)
    same = BudgetAccountant(**terms, **place)
    assert same.total().epsilon == 0.5
    assert len(same.spends) == 1


def test_an_unknown_name_is_refused(place):
    BudgetAccountant(1.0, **place).total()
    with pytest.raises(LedgerError, match="no budget named 'nobody'"):
        BudgetAccountant.open(place["ledger"], "nobody")


def test_budgets_of_one_ledger_are_apart(place):
    first = BudgetAccountant(1.0, 0.0, **place)
    second = BudgetAccountant(
        2.0, 0.0, ledger=place["ledger"], name=place["name"] + "'; DROP TABLE x"
    )
    first.spend(epsilon=1.0, label="first")
    second.spend(epsilon=1.5, label="second")
    with pytest.raises(BudgetExceededError):
        first.spend(epsilon=0.1)
    second.spend(epsilon=0.5, label="third")
    assert [spend.label for spend in first.spends] == ["first"]
    assert [spend.label for spend in second.spends] == ["second", "third"]


def test_a_repr_neither_connects_nor_fails(place):
    accountant = BudgetAccountant(1.0, **place)
    assert place["name"] in repr(accountant)
    with pytest.raises(LedgerError):
        opened(place)


# --- Spending


def test_two_accountants_spend_one_budget(place):
    first = BudgetAccountant(0.3, 0.0, **place)
    second = opened_after(first, place)
    first.spend(epsilon=0.1)
    second.spend(epsilon=0.1)
    first.spend(epsilon=0.1)  # 3 x 0.1 is 0.3 in decimal numbers
    for accountant in (first, second):
        assert not accountant.check(epsilon=1e-6)
        with pytest.raises(BudgetExceededError):
            accountant.spend(epsilon=1e-6)
        assert accountant.total().epsilon == 0.3
        assert len(accountant.spends) == 3


def opened_after(accountant, place):
    accountant.total()
    return opened(place)


def test_a_refused_spend_leaves_no_trace(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    with pytest.raises(BudgetExceededError):
        accountant.spend(epsilon=1.5, label="never")
    assert accountant.spends == []
    assert accountant.total().rule == "nothing spent"
    accountant.spend(epsilon=1.0)


def test_an_error_on_the_way_leaves_no_trace(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    accountant.spend(epsilon=0.25)
    with pytest.raises(RuntimeError, match="stop here"):
        with accountant._ledger.transaction() as change:
            change.store("", "nonsense")
            raise RuntimeError("stop here")
    accountant.spend(epsilon=0.75)
    assert accountant.total().epsilon == 1.0


def test_a_transaction_that_an_interrupt_left_open_is_not_built_upon(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    accountant.spend(epsilon=0.125)
    accountant._ledger.connection().execute("BEGIN")
    released = 0
    for _ in range(3):
        try:
            accountant.spend(epsilon=0.125)
            released += 1
        except LedgerError:  # once is fair, but then it must connect again
            continue
    assert released >= 2
    assert len(opened(place).spends) >= 1 + released


def test_spends_come_back_as_they_were(place):
    accountant = BudgetAccountant(20.0, 1e-5, **place)
    before = datetime.now(UTC)
    labels = [None, "", "größe", "'; --", 'a "b"', "line\nline", "日本", "🙂", "%s ?"]
    records = [
        accountant.spend(event, label, seeded=bool(i % 2))
        for i, (event, label) in enumerate(zip(EVENTS, labels, strict=True))
    ]
    found = opened(place).spends
    assert found == records
    assert [spend.event for spend in found] == EVENTS
    assert [spend.label for spend in found] == labels
    assert [spend.seeded for spend in found] == [bool(i % 2) for i in range(9)]
    assert before <= found[0].time <= found[-1].time <= datetime.now(UTC)
    assert found[0].time.utcoffset() == timedelta(0)


def test_rules_are_fixed_at_the_first_spend_for_all(place):
    first = BudgetAccountant(1.0, 1e-5, **place)
    second = opened_after(first, place)
    first.spend(events.Gaussian(20.0))
    for accountant in (second, first, opened(place)) * 5:
        accountant.spend(events.Gaussian(20.0))
    alone = BudgetAccountant(1.0, 1e-5)
    for _ in range(16):
        alone.spend(events.Gaussian(20.0))
    assert alone.total().rule == "Gaussian"
    assert first.total() == second.total() == alone.total()
    assert opened(place).remaining(3) == alone.remaining(3)


def test_children_of_parallel(place):
    parent = BudgetAccountant(1.0, 0.0, **place)
    left, right = parent.parallel(2)
    left.spend(epsilon=0.5, label="left")
    right.spend(epsilon=0.25, label="right")
    assert parent.total().epsilon == 0.5
    right.spend(epsilon=0.5, label="right again")
    inner, _ = left.parallel(2)
    inner.spend(epsilon=0.5, label="inner")
    assert (left.total().epsilon, right.total().epsilon) == (1.0, 0.75)
    assert inner.total().epsilon == 0.5
    with pytest.raises(BudgetExceededError):
        parent.spend(epsilon=0.1)
    right.spend(epsilon=0.25)
    with pytest.raises(BudgetExceededError):
        right.spend(epsilon=0.1)
    again = opened(place)
    assert again.total().epsilon == 1.0
    assert len(again.spends) == 5
    assert [spend.label for spend in left.spends] == ["left", "inner"]


def test_a_child_of_parallel_goes_through_a_pickle(place):
    parent = BudgetAccountant(1.0, 0.0, **place)
    child, other = parent.parallel(2)
    child.spend(epsilon=0.5)
    twin = pickle.loads(pickle.dumps(child))
    assert twin.total().epsilon == 0.5
    twin.spend(epsilon=0.25)
    assert child.total().epsilon == 0.75
    other.spend(epsilon=0.7)
    assert parent.total().epsilon == 0.75


def test_threads_spend_exactly_what_fits(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    counts, errors = [], []

    def work():
        count = 0
        try:
            while True:
                accountant.spend(epsilon=0.01)
                count += 1
        except BudgetExceededError:
            counts.append(count)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(counts) == len(accountant.spends) == 100
    assert accountant.total().epsilon == 1.0


# --- Going elsewhere


def test_a_pickle_is_the_same_accountant_while_it_lives(place, tmp_path):
    accountant = BudgetAccountant(1.0, **place)
    path = tmp_path / "accountant.pickle"
    path.write_bytes(pickle.dumps(accountant))
    assert pickle.loads(path.read_bytes()) is accountant
    accountant.spend(epsilon=0.5)
    assert pickle.loads(path.read_bytes()) is accountant


def test_a_pickle_finds_the_budget_after_the_accountant_is_gone(place):
    accountant = BudgetAccountant(1.0, **place)
    accountant.spend(epsilon=0.5)
    content = pickle.dumps(accountant)
    del accountant
    gc.collect()
    again = pickle.loads(content)
    assert again.total().epsilon == 0.5
    assert len(again.spends) == 1


def test_pickles_and_hashes_do_not_change_with_the_spends(place):
    accountant = BudgetAccountant(1.0, **place)
    content, digest = pickle.dumps(accountant), joblib.hash(accountant)
    accountant.spend(epsilon=0.5)
    assert pickle.dumps(accountant) == content
    assert joblib.hash(accountant) == digest


def test_a_refusal_keeps_its_numbers_in_a_pickle(place):
    accountant = BudgetAccountant(1.0, 0.0, **place)
    accountant.spend(epsilon=0.75)
    with pytest.raises(BudgetExceededError) as caught:
        accountant.spend(epsilon=0.5)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.asked == (0.5, 0.0)
    assert error.remaining == pytest.approx((0.25, 0.0))
    assert str(error) == str(caught.value)
