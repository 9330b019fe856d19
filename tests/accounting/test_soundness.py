"""What a budget accepts is (epsilon, delta)-DP: exact compositions and best attacks.

Fixed sequences are composed by privacy loss distributions. Adaptive ones are answered
by the worst mechanisms of their kind, randomised response that fails with probability
delta, and attacked by the best analyst there is: dynamic programming over all
strategies that the rules let pass.
"""

import math
import random
from collections import Counter
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdp import BudgetAccountant
from skdp.accounting._rules import Rules, choose_rules
from skdp.calibration import gaussian_shift
from skdp.divergences import zcdp_profile
from skdp.events import Approximate, Composed, Gaussian, Group, Laplace, Parallel, Pure
from skdp.exceptions import BudgetExceededError

COMPOSITIONS = ["adaptive", "basic", "advanced"]
SLACK = 1e-11  # sums within a relative 1e-12 of the ceiling count as equal to it


def compose(events):
    counts = Counter(events)
    return Composed(list(counts), list(counts.values()))


def exceeds(events, epsilon, delta):
    """Return whether the composition is known not to be (epsilon, delta)-DP.

    A coarse privacy loss distribution is pessimistic: only where it says so is the
    fine one needed.
    """
    composed, limit = compose(events), delta * (1 + 1e-9) + SLACK
    interval = 16 * composed._interval()
    return (
        composed.pld(interval).get_delta_for_epsilon(epsilon) > limit
        and composed.profile(epsilon) > limit
    )


# --- Fixed sequences

shares = st.sampled_from([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0])


def kinds(epsilon, delta):
    """Return a strategy for events of all kinds, in shares of a ceiling."""
    return st.one_of(
        shares.map(lambda s: Pure(s * epsilon)),
        shares.map(lambda s: Laplace(1 / (s * epsilon))),
        shares.map(lambda s: Gaussian(3 / (s * epsilon))),
        st.tuples(shares, shares).map(
            lambda s: Approximate(s[0] * epsilon, s[1] * delta / 8)
        ),
    )


@given(st.data(), st.sampled_from(COMPOSITIONS), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_no_reading_is_below_optimal_composition(data, composition, copies):
    epsilon, delta = 1.0, data.draw(st.sampled_from([1e-8, 1e-6, 1e-3]))
    events = data.draw(st.lists(kinds(epsilon, delta), min_size=1, max_size=5))
    events += [events[-1]] * copies
    rules = choose_rules(epsilon, delta, composition, events[0])
    accounts = rules.nothing
    for event in events:
        accounts += rules.price(event)
    for reading in rules.readings(accounts):
        if math.isfinite(reading.epsilon) and reading.delta < 1:
            assert not exceeds(events, reading.epsilon, reading.delta), reading


@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
@pytest.mark.parametrize("noise", [5.0, 50.0])
@pytest.mark.parametrize("count", [1, 30, 1000])
def test_the_gaussian_reading_is_exact(delta, noise, count):
    event = Gaussian(noise)
    ceiling = 10 * Composed([event], [count]).epsilon(delta)
    rules = choose_rules(ceiling, delta, "adaptive", event)
    accounts = rules.nothing + rules.price(event).times(count)
    (reading,) = [r for r in rules.readings(accounts) if r.rule == "Gaussian"]
    exact = Composed([event], [count]).epsilon(reading.delta)
    assert exact * (1 - 1e-9) <= reading.epsilon <= exact * (1 + 1e-9)


def random_menu(random_, epsilon, delta):
    """Return one to four events from a thirtieth to all of the ceiling."""

    def one(kind):
        size = epsilon * 30 ** -random_.random()
        match kind:
            case "pure":
                return Pure(size)
            case "Laplace":
                return Laplace(1 / size)
            case "Gaussian":
                return Gaussian(random_.choice([1.0, 4.0]) / size)
            case "approximate":
                return Approximate(size, delta * 30 ** -random_.random())
            case "planned":
                part = random_.choice([Pure(size / 5), Gaussian(10 / size)])
                return Composed([part], [random_.randint(2, 9)])
            case "group":
                return Group(Laplace(4 / size), random_.randint(2, 4))

    kinds = ["pure", "Laplace", "Gaussian", "approximate", "planned", "group"]
    return [one(random_.choice(kinds)) for _ in range(random_.randint(1, 4))]


def spend_all(accountant, random_, menu, limit=300):
    """Spend random events of the menu until six in a row are refused."""
    accepted, refused = [], 0
    while refused < 6 and len(accepted) < limit:
        event = random_.choice(menu)
        try:
            accountant.spend(event)
        except BudgetExceededError:
            refused += 1
        else:
            accepted.append(event)
            refused = 0
    return accepted


def check_random_sequence(seed, composition):
    random_ = random.Random(seed)
    epsilon = 0.3 * 20 ** random_.random()
    delta = random_.choice([1e-9, 1e-6, 1e-5, 1e-3, 0.05])
    accountant = BudgetAccountant(epsilon, delta, composition=composition)
    menu = random_menu(random_, epsilon, delta)
    accepted = spend_all(accountant, random_, menu)
    if accepted:
        assert not exceeds(accepted, epsilon, delta), (seed, accountant, menu)
    return len(accepted)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_accepted_sequences_are_private(composition):
    lengths = [check_random_sequence(seed, composition) for seed in range(30)]
    assert max(lengths) > 20


@pytest.mark.slow
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("part", range(10))
def test_many_accepted_sequences_are_private(composition, part):
    for seed in range(1000 + 60 * part, 1060 + 60 * part):
        check_random_sequence(seed, composition)


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_analyst_who_always_takes_what_is_left(composition, delta):
    accountant = BudgetAccountant(1.0, delta, composition=composition)
    accepted = [Pure(0.05)] * 10
    for event in accepted:
        accountant.spend(event)
    for share in (0.5, 0.3, 0.9, 1.0, 1.0, 1.0):
        left = accountant.remaining()
        if left.epsilon > 0:
            event = Pure(share * left.epsilon)
            if left.delta > 0:
                event = Approximate(share * left.epsilon, share * left.delta)
            accountant.spend(event)
            accepted.append(event)
    assert not exceeds(accepted, 1.0, delta)


@pytest.mark.parametrize("delta", [1e-21, 2e-20, 1e-18, 1e-12])
def test_gaussian_noise_on_a_grid_keeps_the_ceiling(delta):
    # Each release may miss the curve of continuous noise by 2**-78, 3e-24; its
    # concentrated privacy is exact, and the better bound in such far tails.
    event = Gaussian(math.sqrt(1000) / gaussian_shift(1.0, delta))
    accountant = BudgetAccountant(1.0, delta)
    accepted = spend_all(accountant, random.Random(0), [event], limit=1100)
    exact = zcdp_profile(1.0, len(accepted) * event.shift**2 / 2)
    assert min(exact, compose(accepted).profile(1.0)) <= delta
    assert len(accepted) > 800


# --- Adaptive analysts


def worst_delta(rules, menu, unit):
    """Return the delta, at the ceiling's epsilon, of the best adaptive attack.

    Every event of the menu is pure or approximate, its epsilon a multiple of ``unit``;
    the answers are randomised responses. The state is how often each event was used
    and the privacy loss so far; the value is the largest expectation, over what the
    rules let the analyst do from there, of (1 - exp(epsilon - loss))+.
    """
    prices = [rules.price(event) for event in menu]
    steps = [round(event.eps / unit) for event in menu]

    @cache
    def allowed(counts):
        accounts = rules.nothing
        for price, count in zip(prices, counts, strict=True):
            if count:
                accounts += price.times(count)
        return rules.allows(accounts)

    @cache
    def choices(counts):
        after = [
            counts[:i] + (count + 1,) + counts[i + 1 :]
            for i, count in enumerate(counts)
        ]
        return [(i, new) for i, new in enumerate(after) if allowed(new)]

    @cache
    def value(counts, loss):
        best = max(0.0, -math.expm1(rules.epsilon - unit * loss))
        for i, after in choices(counts):
            failure = menu[i].basic()[1]
            truth = 1 / (1 + math.exp(-menu[i].eps))
            answer = truth * value(after, loss + steps[i])
            answer += (1 - truth) * value(after, loss - steps[i])
            best = max(best, failure + (1 - failure) * answer)
        return best

    return value((0,) * len(menu), 0)


ATTACKS = {
    "coarse": (1.0, 0.05, 0.2, [Pure(0.2), Pure(0.4), Pure(0.6)]),
    "fine": (1.0, 0.05, 0.1, [Pure(0.1), Pure(0.3)]),
    "small delta": (1.0, 0.01, 0.1, [Pure(0.1), Pure(0.2)]),
    "large epsilon": (2.0, 0.1, 0.25, [Pure(0.25), Pure(0.5), Pure(1.5)]),
    "some fail": (2.0, 0.05, 0.25, [Pure(0.25), Approximate(0.25, 1e-3), Pure(0.75)]),
    "all may fail": (
        0.5,
        0.1,
        0.1,
        [Approximate(0.1, 2e-3), Pure(0.1), Approximate(0.2, 0.01)],
    ),
}


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_adaptive_analyst_gets_beyond_the_ceiling(attack, composition):
    epsilon, delta, unit, menu = ATTACKS[attack]
    for first in menu:
        rules = choose_rules(epsilon, delta, composition, first)
        assert worst_delta(rules, menu, unit) <= delta * (1 + 1e-9)


def with_one_order(attack, share):
    """Return rules of which the Renyi rule takes a share of delta."""
    epsilon, delta, _, _ = ATTACKS[attack]
    order = 6.0 if attack == "small delta" else 4.0
    return Rules(epsilon, delta, 0.3 * delta, (order,), (share * delta,))


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attacks_have_power(attack):
    _, delta, unit, menu = ATTACKS[attack]
    assert 0.3 < worst_delta(with_one_order(attack, 0.7), menu, unit) / delta <= 1
    assert worst_delta(with_one_order(attack, 4.0), menu, unit) > delta


# --- Disjoint parts


@given(st.lists(st.tuples(st.integers(0, 2), shares), min_size=1, max_size=40))
@example([(0, 1.0), (1, 1.0), (2, 1.0), (0, 1 / 32)])
@settings(max_examples=40, deadline=None)
def test_every_part_stays_below_the_ceiling(spends):
    accountant = BudgetAccountant(1.0, 0.0)
    children = accountant.parallel(3)
    spent = [0.0, 0.0, 0.0]
    for part, share in spends:
        if accountant.check(epsilon=share) or children[part].check(epsilon=share):
            try:
                children[part].spend(epsilon=share)
            except BudgetExceededError:
                continue
            spent[part] += share
    assert accountant.total().epsilon == max(spent) <= 1.0


def test_a_parallel_event_costs_no_more_than_children():
    parts = [Pure(0.1), Laplace(5.0), Gaussian(30.0)]
    planned = BudgetAccountant(1.0, 1e-6)
    planned.spend(Pure(0.01))
    planned.spend(Parallel(parts))
    shared = BudgetAccountant(1.0, 1e-6)
    shared.spend(Pure(0.01))
    for child, event in zip(shared.parallel(3), parts, strict=True):
        child.spend(event)
    assert 0.2 < planned.total().epsilon <= shared.total().epsilon * (1 + 1e-12)
