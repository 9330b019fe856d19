"""Private selection: exact output probabilities on neighbouring scores.

The probabilities are those of the mechanism's own integers (gaps and divisor), so that
rounding the scores is part of what is checked. Random tests fail by chance with a
probability below 1e-7 each (see conftest).
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate

from skdp import events
from skdp.mechanisms import Exponential, ReportNoisyMax

KINDS = [Exponential, ReportNoisyMax]
RELATIONS = [("replace", False), ("add_remove", False), ("add_remove", True)]
EPSILONS = [1e-3, 0.1, 1.0, 5.0]


def accept_probabilities(mechanism, scores):
    gaps, divisor = mechanism._gaps(scores)
    return np.exp(-gaps / divisor)


def softmax(accept):
    return accept / math.fsum(accept)


def permute_and_flip(accept):
    """P(i) = p_i E[1/(1 + heads among the others)], by recursion on the others."""
    out = np.empty(accept.size)
    for i, p in enumerate(accept):
        heads = np.ones(1)
        for q in np.delete(accept, i):
            heads = np.append(heads * (1 - q), 0) + np.append(0, heads * q)
        out[i] = p * math.fsum(heads / (1 + np.arange(heads.size)))
    return out


LAW = {Exponential: softmax, ReportNoisyMax: permute_and_flip}


def probabilities(mechanism, scores):
    return LAW[type(mechanism)](accept_probabilities(mechanism, scores))


def neighbours(rng, mechanism, count):
    """Scores and neighbouring scores: random ones, and all moves to the limits."""
    sensitivity, monotonic = mechanism.sensitivity, mechanism.monotonic
    moves = np.array([0.0, 1.0] if monotonic else [-1.0, 1.0]) * sensitivity
    for _ in range(count):
        size = rng.integers(2, 9)
        scores = rng.normal(size=size) * rng.choice([0.1, 1.0, 5.0]) * sensitivity
        yield scores, scores + rng.uniform(*moves, size)
        yield scores, scores + rng.choice(moves, size)
    for size in (2, 3, 4):
        for gap in (0.0, 0.5, 1.0, 3.0, 20.0, 20.0 / mechanism.epsilon):
            scores = np.zeros(size)
            scores[0] = -gap * sensitivity
            for move in itertools.product(moves, repeat=size):
                yield scores, scores + np.array(move)


# --- The probabilities themselves


def test_recursion_is_permute_and_flip():
    # The definition: visit in random order, take one with its probability.
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 4, 5):
        accept = np.append(rng.uniform(0, 1, size - 1), 1.0)
        exact = np.zeros(size)
        for order in itertools.permutations(range(size)):
            left = 1.0
            for i in order:
                exact[i] += left * accept[i]
                left *= 1 - accept[i]
        exact /= math.factorial(size)
        assert permute_and_flip(accept) == pytest.approx(exact, abs=1e-14)
        assert math.fsum(permute_and_flip(accept)) == pytest.approx(1.0, abs=1e-14)


def test_recursion_is_report_noisy_max_with_exponential_noise():
    # Ding et al. (2021), by quadrature over the noise of the winner.
    gaps = np.array([0.0, 0.4, 1.0, 2.5])
    exact = permute_and_flip(np.exp(-gaps))
    for i, gap in enumerate(gaps):

        def density(noise, gap=gap, i=i):
            others = -np.expm1(-np.maximum(noise - gap + np.delete(gaps, i), 0))
            return math.exp(-noise) * np.prod(others)

        points = [point for point in gap - gaps if point > 0]
        wins = integrate.quad(density, 0, 60, points=[*points, 1, 5], limit=500)[0]
        assert exact[i] == pytest.approx(wins, abs=1e-7)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_accept_probability_is_the_formula(epsilon):
    scores = np.array([3.0, 0.25, -1.0, 2.9])
    for kind in KINDS:
        for monotonic, factor in ((False, 2), (True, 1)):
            mechanism = kind(
                epsilon, 0.5, monotonic=monotonic, neighboring="add_remove"
            )
            expected = np.exp(-epsilon * (3.0 - scores) / (factor * 0.5))
            found = accept_probabilities(mechanism, scores)
            assert found == pytest.approx(expected, rel=1e-5)


# --- The claim


@pytest.mark.parametrize(("neighboring", "monotonic"), RELATIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", KINDS)
def test_claim_on_neighbouring_scores(kind, epsilon, neighboring, monotonic):
    rng = np.random.default_rng(1)
    largest = 0.0
    for sensitivity in (1.0, 1 / 3):
        mechanism = kind(
            epsilon, sensitivity, monotonic=monotonic, neighboring=neighboring
        )
        for scores, moved in neighbours(rng, mechanism, 60):
            first = probabilities(mechanism, scores)
            second = probabilities(mechanism, moved)
            loss = np.log(first) - np.log(second)
            largest = max(largest, np.abs(loss).max())
            if kind is Exponential:  # the loss has a bounded range
                assert loss.max() - loss.min() <= epsilon + 1e-12
    assert epsilon / 2 < largest <= epsilon + 1e-12
    assert largest > 0.99 * epsilon  # two candidates far apart reach it


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("kind", KINDS)
def test_event_profile_bounds_the_hockey_stick(kind, epsilon, hockey_stick):
    rng = np.random.default_rng(2)
    mechanism = kind(epsilon)
    nearest = np.inf
    for scores, moved in neighbours(rng, mechanism, 100):
        first = probabilities(mechanism, scores)
        second = probabilities(mechanism, moved)
        for target in (0.0, 0.3 * epsilon, 0.7 * epsilon, epsilon):
            claim = mechanism.event.profile(target)
            for pair in ((first, second), (second, first)):
                true = hockey_stick(*pair, target)
                assert true <= claim + 1e-14
                nearest = min(nearest, claim / true if true > 0 else np.inf)
    assert nearest < 2


@pytest.mark.parametrize("kind", KINDS)
def test_events(kind):
    event = events.BoundedRange if kind is Exponential else events.Pure
    assert kind(0.7).event == event(0.7, "replace")
    assert kind(0.7, neighboring="add_remove").event == event(0.7, "add_remove")


@pytest.mark.parametrize("kind", KINDS)
def test_monotonic_scores_under_replace_would_break_the_claim(kind):
    # One row leaves and one arrives: a count falls and another rises.
    with pytest.raises(ValueError, match="'monotonic' parameter can be True under"):
        kind(1.0, monotonic=True)
    mechanism = kind(1.0, monotonic=True, neighboring="add_remove")
    first = probabilities(mechanism, np.array([0.0, 9.0]))
    second = probabilities(mechanism, np.array([1.0, 8.0]))
    assert np.abs(np.log(first / second)).max() > 1.9


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 20.0])
def test_report_noisy_max_is_never_worse(epsilon):
    rng = np.random.default_rng(3)
    for _ in range(100):
        scores = rng.normal(size=rng.integers(2, 9)) * rng.choice([0.2, 2.0])
        best = probabilities(ReportNoisyMax(epsilon), scores) @ scores
        assert best >= probabilities(Exponential(epsilon), scores) @ scores - 1e-12


# --- Rounding and cutting off


def test_gaps_are_exact_on_both_paths():
    rng = np.random.default_rng(4)
    mechanism = Exponential(1.0)
    exponent, divisor = mechanism._exponent_and_divisor()
    step = Fraction(2) ** exponent
    for size in (1.0, 1e5, 1e6, 1e9, 1e200):
        scores = rng.normal(size=6) * size
        whole = [round(Fraction(score) / step) for score in scores]
        gaps, found = mechanism._gaps(scores)
        assert gaps.tolist() == [min(max(whole) - one, 2**61) for one in whole]
        assert found == divisor


def test_divisor_pays_for_rounding():
    rng = np.random.default_rng(5)
    for _ in range(300):
        epsilon, sensitivity = 10 ** rng.uniform(-8, 6), 10 ** rng.uniform(-9, 9)
        for monotonic, factor in ((False, 2), (True, 1)):
            mechanism = Exponential(
                epsilon, sensitivity, monotonic=monotonic, neighboring="add_remove"
            )
            exponent, divisor = mechanism._exponent_and_divisor()
            steps = math.ceil(Fraction(sensitivity) / Fraction(2) ** exponent) + 1
            loss = Fraction(factor * steps) / divisor
            assert loss <= Fraction(epsilon)
            assert loss >= Fraction(epsilon) * Fraction(999_999, 1_000_000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_epsilon_still_prefers_what_is_far_better(kind):
    # epsilon times the gap is 1000: the worse one has no chance.
    for epsilon in (1e-9, 1e-12, 1e-15):
        try:
            mechanism = kind(epsilon)
        except ValueError as error:
            assert "'epsilon'" in str(error)  # refused, which is as good
        else:
            assert accept_probabilities(mechanism, [0.0, 1e3 / epsilon])[0] < 1e-100


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_scores(kind):
    mechanism = kind(1.0)
    assert mechanism.release([1e308, -1e308, 0.0]) == 0
    assert mechanism.release([-1e308, 1e-300, 5e-324, 1e300]) == 3
    assert mechanism.release([5.0]) == 0
    assert type(mechanism.release(np.array([1, 2, 3], dtype=np.uint8))) is int


# --- Releases


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "scores", [[0.0, 0.0, 0.0], [1.0, 0.3, -2.0, 0.9, 0.0], [0.0, 30.0, 29.5]]
)
def test_releases_follow_the_probabilities(kind, scores, fits):
    mechanism = kind(1.5)
    chosen = [mechanism.release(scores) for _ in range(6000)]
    counts = np.bincount(chosen, minlength=len(scores))
    assert fits(counts, probabilities(mechanism, scores))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 8, 40])
def test_releases_follow_the_probabilities_closely(kind, size, fits):
    scores = np.random.default_rng(size).normal(size=size)
    mechanism = kind(1.0)
    chosen = [mechanism.release(scores) for _ in range(60_000)]
    counts = np.bincount(chosen, minlength=size)
    assert fits(counts, probabilities(mechanism, scores))


@pytest.mark.parametrize("kind", KINDS)
def test_many_candidates(kind, fits):
    scores = np.zeros(100_000)
    scores[::2] = -1000.0
    chosen = np.array([kind(1.0).release(scores) for _ in range(200)])
    assert (chosen % 2 == 1).all()
    assert np.unique(chosen).size > 190  # 200 of 50 000: fewer has probability < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_seeds(kind):
    scores = np.zeros(1000)
    assert kind(1.0).release(scores, 5) == kind(1.0).release(scores, 5)
    assert len({kind(1.0).release(scores, seed) for seed in range(20)}) > 10


# --- Audits of real releases


def outputs(mechanism, scores, count=20_000):
    return [mechanism.release(scores) for _ in range(count)]


def worst_pair(size, distance):
    """All candidates rise but the first, which falls."""
    move = np.full(size, distance)
    move[0] = -distance
    return np.zeros(size), move


@pytest.mark.parametrize("kind", KINDS)
def test_audit(kind, audit):
    mechanism = kind(2.0)
    scores, moved = worst_pair(6, 1.0)
    found = audit(outputs(mechanism, scores), outputs(mechanism, moved))
    assert 1.0 < found <= 2.0


@pytest.mark.parametrize("kind", KINDS)
def test_audit_of_monotonic_scores(kind, audit):
    mechanism = kind(2.0, monotonic=True, neighboring="add_remove")
    scores, moved = np.zeros(6), np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    found = audit(outputs(mechanism, scores), outputs(mechanism, moved))
    assert 1.0 < found <= 2.0


@pytest.mark.parametrize("kind", KINDS)
def test_audit_catches_a_sensitivity_that_is_half_the_true_one(kind, audit):
    mechanism = kind(2.0)
    scores, moved = worst_pair(6, 2.0)
    assert audit(outputs(mechanism, scores), outputs(mechanism, moved)) > 2.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_audit_closely(kind, epsilon, audit):
    mechanism = kind(epsilon)
    scores, moved = worst_pair(6, 1.0)
    found = audit(outputs(mechanism, scores, 80_000), outputs(mechanism, moved, 80_000))
    assert epsilon / 2 < found <= epsilon
