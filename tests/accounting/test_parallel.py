"""Disjoint parts of the rows: the parent pays the largest child, as it is now."""

import gc
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from skdp import BudgetAccountant
from skdp.events import Approximate, Composed, Gaussian, Pure
from skdp.exceptions import BudgetExceededError


def test_the_parent_pays_the_largest_child_at_once():
    accountant = BudgetAccountant(1.0, 0.0)
    one, two, three = accountant.parallel(3)
    for child, spent, total in [
        (one, 0.2, 0.2),
        (two, 0.1, 0.2),
        (two, 0.1, 0.2),
        (two, 0.1, 0.3),
        (three, 0.3, 0.3),
        (one, 0.6, 0.8),
        (accountant, 0.1, 0.9),
        (three, 0.6, 1.0),
    ]:
        child.spend(epsilon=spent)
        assert accountant.total().epsilon == total
    assert [child.total().epsilon for child in (one, two, three)] == [0.8, 0.3, 0.9]
    for child in (accountant, three):
        assert not child.check(epsilon=0.01)
    two.spend(epsilon=0.6)  # its part has room up to the largest child
    one.spend(epsilon=0.1)
    assert not one.check(epsilon=0.01)
    assert accountant.total().epsilon == 1.0


def test_several_groups_add_up():
    accountant = BudgetAccountant(1.0, 0.0)
    for spent in (0.2, 0.3):
        for child in accountant.parallel(4):
            child.spend(epsilon=spent)
    assert accountant.total().epsilon == 0.5
    with pytest.raises(BudgetExceededError):
        accountant.parallel(2)[1].spend(epsilon=0.6)


def test_children_of_children():
    accountant = BudgetAccountant(1.0, 0.0)
    left, right = accountant.parallel(2)
    right.spend(epsilon=0.5)
    young, old = left.parallel(2)
    young.spend(epsilon=0.3)
    old.spend(epsilon=0.4)
    assert (left.total().epsilon, accountant.total().epsilon) == (0.4, 0.5)
    left.spend(epsilon=0.2)
    assert (left.total().epsilon, accountant.total().epsilon) == (0.6, 0.6)
    (third,) = left.parallel(1)
    third.spend(epsilon=0.4)
    assert (left.total().epsilon, accountant.total().epsilon) == (1.0, 1.0)
    right.spend(epsilon=0.5)
    young.spend(epsilon=0.1)
    for child in (accountant, left, right, young, old, third):
        with pytest.raises(BudgetExceededError):
            child.spend(epsilon=0.01)
    assert accountant.total().epsilon == 1.0


def exact_total(tree):
    """Return a node's own spends plus the largest child of each group."""
    own, groups = tree
    return own + sum(max(exact_total(child) for child in group) for group in groups)


@pytest.mark.parametrize("seed", range(20))
def test_any_tree_of_parts_pays_exactly(seed):
    random_ = random.Random(seed)
    accountant = BudgetAccountant(1.0, 0.0)
    root = [0, []]
    nodes = [(accountant, root)]
    for _ in range(60):
        node, tree = random_.choice(nodes)
        if random_.random() < 0.1:
            children = node.parallel(random_.randint(1, 3))
            trees = [[0, []] for _ in children]
            tree[1].append(trees)
            nodes += zip(children, trees, strict=True)
            continue
        amount = random_.randint(1, 60)
        tree[0] += amount
        fits = exact_total(root) <= 1000
        assert node.check(epsilon=amount / 1000) == fits
        if fits:
            node.spend(epsilon=amount / 1000)
        else:
            with pytest.raises(BudgetExceededError):
                node.spend(epsilon=amount / 1000)
            tree[0] -= amount
        assert accountant.total().epsilon == exact_total(root) / 1000
        assert node.total().epsilon == exact_total(tree) / 1000


def test_every_account_has_its_own_maximum():
    accountant = BudgetAccountant(2.0, 1e-6)
    noisy, planned, failing = accountant.parallel(3)
    for _ in range(20):
        noisy.spend(Gaussian(60.0))
        planned.spend(Composed([Pure(0.01)], [2]))
    failing.spend(Approximate(0.01, 5e-8))
    alone = BudgetAccountant(2.0, 1e-6)
    alone.spend(Gaussian(60.0))  # the same rules
    for _ in range(19):
        alone.spend(Gaussian(60.0))
    # The Gaussian rule is dead in the parent, and alive in the part.
    assert noisy.total() == alone.total()
    assert accountant.total().epsilon > noisy.total().epsilon
    assert accountant.total().rule.startswith("Renyi")
    assert accountant.remaining().delta == pytest.approx(5e-8)


def test_the_spends_of_children_are_listed():
    accountant = BudgetAccountant(1.0)
    one, two = accountant.parallel(2)
    (inner,) = one.parallel(1)
    for i, handle in enumerate([accountant, one, two, inner, one]):
        handle.spend(epsilon=0.01, label=str(i))

    def labels(handle):
        return "".join(spend.label for spend in handle.spends)

    assert labels(accountant) == "01234"
    assert (labels(one), labels(two), labels(inner)) == ("134", "2", "3")
    assert len({spend.path for spend in accountant.spends}) == 4


def test_children_share_the_terms():
    accountant = BudgetAccountant(2.0, 1e-7, neighboring="add_remove", name="census")
    (child,) = accountant.parallel(1)
    terms = ("epsilon", "delta", "neighboring", "composition", "name", "ledger")
    for name in terms:
        assert getattr(child, name) == getattr(accountant, name)
    assert child.remaining() == accountant.remaining()


def test_threads_spend_on_their_own_parts():
    accountant = BudgetAccountant(1.0, 0.0)
    children = accountant.parallel(8)

    def spend_all(child):
        count = 0
        while child.check(epsilon=0.01):
            child.spend(epsilon=0.01)
            count += 1
        return count

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(spend_all, children)) == [100] * 8
    assert accountant.total().epsilon == 1.0
    assert len(accountant.spends) == 800


@pytest.mark.parametrize("where", ["memory", "sqlite_place", "postgresql_place"])
def test_a_check_sees_one_moment(where, request):
    """Another part that spends while a check reads does not falsify its answer."""
    place = {} if where == "memory" else request.getfixturevalue(where)
    accountant = BudgetAccountant(1.0, 0.0, **place)
    one, other = accountant.parallel(2)
    one.spend(epsilon=0.5)
    read = accountant._ledger.read

    def read_and_be_overtaken(*paths):
        answer = read(*paths)
        other.spend(epsilon=0.25)
        return answer

    accountant._ledger.read = read_and_be_overtaken
    try:
        assert one.check(epsilon=0.5)
    finally:
        accountant._ledger.read = read
    assert not one.check(epsilon=0.75)


def test_a_child_comes_back_from_a_pickle():
    accountant = BudgetAccountant(1.0)
    child, other = accountant.parallel(2)
    assert pickle.loads(pickle.dumps(child)) is child
    assert pickle.loads(pickle.dumps(other)) is not child


def test_a_child_comes_back_while_its_budget_lives():
    accountant = BudgetAccountant(1.0)
    children = accountant.parallel(2)
    children[0].spend(epsilon=0.25)
    text = pickle.dumps(children[0])
    del children
    gc.collect()
    pickle.loads(text).spend(epsilon=0.25)
    assert accountant.total().epsilon == 0.5


def test_a_budget_comes_back_while_its_children_live():
    accountant = BudgetAccountant(1.0)
    child = accountant.parallel(2)[0]
    text = pickle.dumps(accountant)
    del accountant
    gc.collect()
    child.spend(epsilon=0.25)
    assert pickle.loads(text).total().epsilon == 0.25


@pytest.mark.parametrize("count", [0, -1, 2.0, "2", True])
def test_the_number_of_parts_is_checked(count):
    with pytest.raises((TypeError, ValueError), match="'k'"):
        BudgetAccountant(1.0).parallel(count)
