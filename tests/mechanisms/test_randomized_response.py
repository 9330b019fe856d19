"""Randomised response: exact probabilities, debiased counts, standard errors.

Random tests fail by chance with a probability below 1e-7 each (see conftest).
"""

import itertools
import math

import mpmath
import numpy as np
import pytest

from skdp import events
from skdp.mechanisms import CountEstimate, RandomizedResponse

DRAWS = 200_000
EPSILONS = [1e-3, 0.5, math.log(3), 4.0]


def table(mechanism):
    """P(answer | truth): a row for each truth."""
    k, keep = mechanism.n_categories, mechanism.keep_probability
    rows = np.full((k, k), (1 - keep) / (k - 1))
    np.fill_diagonal(rows, keep)
    return rows


def test_two_fair_coins_are_log_three():
    # Heads: the truth. Tails: a second coin answers, and is right half of the time.
    assert RandomizedResponse(math.log(3)).keep_probability == pytest.approx(
        0.5 + 0.5 * 0.5, abs=1e-15
    )


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_claim_holds_and_is_tight(epsilon, k, hockey_stick):
    mechanism = RandomizedResponse(epsilon, k)
    rows = table(mechanism)
    assert mechanism.event == events.Pure(epsilon, "replace")
    for first, second in itertools.permutations(range(k), 2):
        loss = np.log(rows[first] / rows[second])
        assert loss.max() == pytest.approx(epsilon, rel=1e-12)
        assert hockey_stick(rows[first], rows[second], epsilon) <= 1e-15
        for target in np.linspace(0, 0.99 * epsilon, 4):
            true = hockey_stick(rows[first], rows[second], target)
            claim = mechanism.event.profile(target)
            assert true <= claim + 1e-15
            if k == 2:  # the worst of all pure-DP releases
                assert true == pytest.approx(claim, abs=1e-14)


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_releases_follow_the_probabilities(epsilon, k, fits):
    mechanism = RandomizedResponse(epsilon, k)
    for truth in range(k):
        answers = mechanism.release(np.full(DRAWS // k, truth))
        counts = np.bincount(answers, minlength=k)
        assert fits(counts, table(mechanism)[truth])


def test_answers_of_different_people_are_independent(fits):
    answers = RandomizedResponse(1.0, 2).release(np.zeros((DRAWS, 2), dtype=np.int8))
    assert answers.shape == (DRAWS, 2)
    keep = RandomizedResponse(1.0, 2).keep_probability
    both = np.bincount(answers @ np.array([2, 1]), minlength=4)
    assert fits(both, np.outer([keep, 1 - keep], [keep, 1 - keep]).ravel())


# --- Debiased counts


def test_counts_invert_the_expected_reports():
    # Truth (100, 300) with two coins: 150 and 250 reports are expected.
    mechanism = RandomizedResponse(math.log(3))
    found = mechanism.estimate(np.repeat([0, 1], [150, 250]))
    assert isinstance(found, CountEstimate)
    assert found.counts == pytest.approx([100, 300])
    # Three categories that keep one half: epsilon = ln 2.
    mechanism = RandomizedResponse(math.log(2), 3)
    found = mechanism.estimate(np.repeat([0, 1, 2], [200, 100, 100]))
    assert found.counts == pytest.approx([400, 0, 0])


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 2), (1.0, 3), (3.0, 5)])
def test_counts_are_unbiased_with_right_standard_errors(epsilon, k, clopper_pearson):
    mechanism = RandomizedResponse(epsilon, k)
    people = np.repeat(np.arange(k), np.arange(1, k + 1) * 200)
    truth = np.bincount(people)
    runs = 1500
    answers = mechanism.release(np.tile(people, (runs, 1)))
    found = [mechanism.estimate(run) for run in answers]
    counts = np.array([one.counts for one in found])
    errors = np.array([one.standard_errors for one in found])
    assert counts.sum(axis=1) == pytest.approx(people.size)
    # The exact variance, of a sum of independent answers.
    rows = table(mechanism)
    keep, lie = rows[0, 0], rows[0, 1]
    variance = truth * keep * (1 - keep) + (people.size - truth) * lie * (1 - lie)
    exact = np.sqrt(variance) / (keep - lie)
    # Six standard errors of a mean, and of a standard deviation: below 1e-8 each.
    assert np.all(np.abs(counts.mean(axis=0) - truth) < 6 * exact / math.sqrt(runs))
    spread = counts.std(axis=0) / exact
    assert np.all(np.abs(spread - 1) < 6 / math.sqrt(2 * runs))
    assert errors.mean(axis=0) == pytest.approx(exact, rel=0.02)
    # 95 % intervals cover, up to the normal approximation's half per cent.
    covered = np.abs(counts - truth) <= 1.959964 * errors
    for column in covered.T:
        low, high = clopper_pearson(np.count_nonzero(column), runs)
        assert low <= 0.955 and high >= 0.945


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-12, 1e-6, 1.0, 30.0, 200.0, 1e6])
@pytest.mark.parametrize("k", [2, 5])
def test_estimates_are_accurate_for_any_epsilon(epsilon, k):
    reports = np.repeat(np.arange(k), np.arange(k) + 1)
    observed, n = np.bincount(reports), reports.size
    found = RandomizedResponse(epsilon, k).estimate(reports)
    with mpmath.workdps(400):
        lie = 1 / (k - 1 + mpmath.exp(epsilon))
        gap = mpmath.expm1(epsilon) * lie
        keep = lie + gap
        counts = [(int(seen) - n * lie) / gap for seen in observed]
        errors = []
        for count in counts:
            true = min(max(count, 0), n)
            wrong = (n - true) * lie * (1 - lie)
            errors.append(mpmath.sqrt(true * keep * (1 - keep) + wrong) / gap)
        counts, errors = [float(c) for c in counts], [float(e) for e in errors]
    assert np.isfinite(found.counts).all()
    scale = np.abs(counts).max()
    assert found.counts / scale == pytest.approx(np.array(counts) / scale, abs=1e-9)
    assert found.standard_errors == pytest.approx(errors, rel=1e-9, abs=1e-140)


# --- Types


def test_types_and_shapes():
    mechanism = RandomizedResponse(1.0, 4)
    for value in (3, np.int8(3), np.uint64(3), np.array(3)):
        assert type(mechanism.release(value)) is int
    assert type(RandomizedResponse(1.0).release(True)) is int
    value = np.array([[0, 1], [2, 3]], dtype=np.uint8)
    answers = mechanism.release(value)
    assert answers.shape == (2, 2) and answers.dtype == np.int64
    assert np.array_equal(value, [[0, 1], [2, 3]])
    same = mechanism.release(np.zeros(50, dtype=int), random_state=1)
    assert np.array_equal(same, mechanism.release(np.zeros(50, dtype=int), 1))


def test_many_categories():
    mechanism = RandomizedResponse(1.0, 2**32)
    answers = mechanism.release(np.zeros(1000, dtype=int))
    assert answers.min() >= 0 and answers.max() < 2**32
    assert np.unique(answers).size > 990


# --- Audits of real releases


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("epsilon", [0.5, math.log(3), 3.0])
def test_audit(epsilon, k, audit):
    mechanism = RandomizedResponse(epsilon, k)
    first = mechanism.release(np.zeros(DRAWS, dtype=int))
    second = mechanism.release(np.ones(DRAWS, dtype=int))
    assert epsilon / 2 < audit(first, second) <= epsilon


def test_audit_catches_twice_the_epsilon(audit):
    mechanism = RandomizedResponse(2.0)
    first = mechanism.release(np.zeros(DRAWS, dtype=int))
    second = mechanism.release(np.ones(DRAWS, dtype=int))
    assert audit(first, second) > 1.0
