"""Audits: what an adversary learns from the releases on two worst-case neighbours.

An output is scored by its likelihood ratio: known for Laplace noise, estimated on a
quarter of the outputs where there are few different ones. The event "score at least so
much" is chosen on that quarter, too, and its probabilities are bounded by
Clopper-Pearson on the rest at 1 - 1e-7, so that a release that costs exactly its claim
fails the upper limit once in ten million runs. Each audit is repeated with too little
noise, which must be caught: a test of the test. All limits of that and all lower limits
lie five or more standard errors from what is expected (below 1e-6).
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from skdp import events
from skdp.mechanisms import ReportNoisyMax
from skdp.preprocessing import (
    DPKBinsDiscretizer,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
    _k_bins_discretizer,
    _min_max_scaler,
    _simple_imputer,
)
from skdp.preprocessing._base import Cells, Table
from skdp.preprocessing._sparse_sums import sparse_sums
from skdp.random_bits import RandomBits
from skdp.stats._sums import bernstein, table_sums
from tests.auditing import lower_bound

RELATIONS = ("replace", "add_remove")
ONE = np.ones(1)


def bound_outcomes(first, second, delta=0.0):
    """A bound for outputs of a few kinds: the score is learnt on a quarter."""
    quarter, kinds = len(first) // 4, sorted({*first, *second})
    place = {kind: i for i, kind in enumerate(kinds)}
    a, b = (np.array([place[one] for one in side]) for side in (first, second))
    counts = [np.bincount(side[:quarter], minlength=len(kinds)) + 1 for side in (a, b)]
    score = np.log(counts[0] / counts[1])
    return lower_bound(score[a], score[b], delta)


def judge(found, claim, noise, least=0.5):
    if noise == 1.0:
        assert least * claim < found <= claim
    else:
        assert found > claim


# --- Sums with Laplace noise: scalers and means


def laplace_scores(release, exact, other, count):
    """Log likelihood ratios of noisy copies of ``exact`` and of ``other``."""
    bits, found = RandomBits(), []
    for centre in (exact, other):
        noisy = release.add(np.tile(centre, (1, count)), bits)
        gaps = np.abs(noisy - other) - np.abs(noisy - exact)
        found.append(gaps.sum(axis=0) / release.scale)
    return found


def extremes(neighboring, missing=False):
    """A table and its neighbour: a row at one bound, at the other, or gone."""
    X = np.full((20, 1), 0.5)
    first, second = X.copy(), X.copy()
    first[-1], second[-1] = 1.0, 0.0
    if neighboring == "add_remove":
        return first, first[:-1]
    if missing:
        second[-1] = np.nan
    return first, second


def dense_sums(X, degree):
    return table_sums(X, 0 * ONE, ONE, degree, True)


def stored_sums(X, degree):
    return sparse_sums(sparse.csr_array(X), 0 * ONE, ONE, degree, True)


# The model, the degree of its sums and how it adds them up.
SUMS = {
    "standard": (DPStandardScaler(bounds=(0, 1)), 2, dense_sums),
    "centred": (DPStandardScaler(bounds=(0, 1), with_std=False), 1, dense_sums),
    "missing": (DPStandardScaler(bounds=(0, 1), missing="drop"), 2, dense_sums),
    "sparse": (DPStandardScaler(bounds=(0, 1), with_mean=False), 2, stored_sums),
    "mean": (DPSimpleImputer("mean", bounds=(0, 1)), 1, dense_sums),
}


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("noise", [1.0, 0.5])
@pytest.mark.parametrize("kind", SUMS)
def test_sums(kind, noise, neighboring):
    model, degree, add_up = SUMS[kind]
    model.set_params(neighboring=neighboring)
    found = [add_up(X, degree) for X in extremes(neighboring)]
    if kind == "centred" and neighboring == "replace":  # of a public number of rows
        sums = [one.first[None] for one in found]
    else:
        sums = [bernstein(one) for one in found]
    release = model._plan(20, 1).release
    release = replace(release, rate=release.rate / noise)
    # The score knows the true scale, the claim does not.
    found = lower_bound(*laplace_scores(release, *sums, 40_000))
    judge(found, 1.0, noise, least=0.7)


def test_a_value_that_goes_missing_counts_as_one_row():
    # Under "replace" a number in place of NaN changes one sum: half the claim.
    model = DPSimpleImputer("mean", bounds=(0, 1))
    sums = [
        bernstein(table_sums(X, 0 * ONE, ONE, 1, True))
        for X in extremes("replace", missing=True)
    ]
    found = lower_bound(*laplace_scores(model._plan(20, 1).release, *sums, 40_000))
    assert 0.3 < found <= 0.5


# --- Choices


def outcomes(model, plan, tables, count, read):
    bits, found = RandomBits(), []
    for X in tables:
        data = Cells(X) if X.dtype == object else Table(X)
        side = []
        for _ in range(count):
            model._release(plan, data, bits, bits)
            side.append(read(model))
        found.append(side)
    return found


def balanced(neighboring):
    """Text values of which one leads by one row, or not."""
    X = np.array([["a"]] * 10 + [["b"]] * 10, dtype=object)
    if neighboring == "add_remove":
        return X, X[1:]
    other = X.copy()
    other[0] = "b"
    return X, other


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_mode(noise, neighboring):
    # Two candidates: the loser is chosen with probability exp(-gap rate)/2.
    model = DPSimpleImputer(
        "most_frequent", categories=[["a", "b"]], neighboring=neighboring
    )
    plan = model._plan(20, 1)
    broken = ReportNoisyMax(
        plan.release.epsilon / noise,
        monotonic=neighboring == "add_remove",
        neighboring=neighboring,
    )
    sides = outcomes(
        model,
        replace(plan, release=broken),
        balanced(neighboring),
        8000,
        lambda fitted: fitted.statistics_[0],
    )
    judge(bound_outcomes(*sides), 1.0, noise)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_discovery(noise, neighboring):
    model = DPOneHotEncoder(delta=1e-3, neighboring=neighboring)
    plan = model._plan(100, 1)
    limit = plan.release.threshold
    a, b = [["a"]] * (limit - 1), [["b"]] * (limit - 1)
    first = np.array(a + b, dtype=object)
    second = first[1:]
    if neighboring == "replace":
        second = first.copy()
        second[0] = "b"
    broken = replace(plan.release, scale=plan.release.scale * noise)
    sides = outcomes(
        model,
        replace(plan, release=broken),
        (first, second),
        20_000 if noise == 1.0 else 8000,
        lambda fitted: tuple(fitted.categories_[0]),
    )
    judge(bound_outcomes(*sides, 1e-3), 1.0, noise)


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_a_value_of_one_row_is_published_with_probability_delta(neighboring):
    model = DPOneHotEncoder(delta=0.1, neighboring=neighboring)
    plan = model._plan(100, 1)
    alone = {("value", i): 1 for i in range(100_000)}
    share = len(plan.release.choose(alone, RandomBits())) / len(alone)
    limit = 0.1 / (2 if neighboring == "replace" else 1)
    # Six standard errors above; below, thresholds are whole numbers.
    assert 0.3 * limit < share < limit + 6 * np.sqrt(limit / len(alone))


# --- Quantiles on a grid of few points, where they give most away


CELLS = 24  # points 0, ..., 23


def gaps(neighboring):
    """Ranks just below the middle at 19 points, just above it at two.

    A row that changes sides makes all 19 worse and the two better.
    """
    X = np.repeat([0.0, 20.0, 23.0], [5, 2, 4])[:, None] / 23
    if neighboring == "add_remove":
        return X, X[1:]
    other = X.copy()
    other[0] = 1.0
    return X, other


def place(point):
    """Left, right or elsewhere."""
    return int(np.searchsorted([0.5, 19.5, 20.5, 22.5], 23 * point))


QUANTILES = {
    "median": (
        DPSimpleImputer("median", bounds=(0, 1)),
        _simple_imputer,
        lambda fitted: place(fitted.statistics_[0]),
    ),
    "range": (
        DPMinMaxScaler(bounds=(0, 1), quantiles=(0.499, 0.501)),
        _min_max_scaler,
        lambda fitted: (place(fitted.data_min_[0]), place(fitted.data_max_[0])),
    ),
    "bins": (
        DPKBinsDiscretizer(2, bounds=(0, 1)),
        _k_bins_discretizer,
        lambda fitted: place(fitted.bin_edges_[0][1]),
    ),
}
CASES = [
    pytest.param("median"),
    pytest.param("range", marks=pytest.mark.slow),
    pytest.param("bins", marks=pytest.mark.slow),
]


def quantile_audit(model, module, read, noise, count, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", CELLS)
    neighboring = model.neighboring
    tables = gaps(neighboring)
    claim = model.set_params(epsilon=1.0)._plan(11, 1).event.epsilon(0)
    assert claim == pytest.approx(1.0)
    spent = model.set_params(epsilon=1.0 / noise)._plan(11, 1)  # perhaps too much
    return bound_outcomes(*outcomes(model, spent, tables, count, read))


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_quantiles(kind, noise, neighboring, monkeypatch):
    model, module, read = QUANTILES[kind]
    model.set_params(neighboring=neighboring)
    if noise < 1:  # two quantiles seldom give all away together
        noise = {"median": 0.33, "range": 0.2, "bins": 0.4}[kind]
    found = quantile_audit(model, module, read, noise, 16_000, monkeypatch)
    judge(found, 1.0, noise, least={"median": 0.25, "range": 0.0, "bins": 0.3}[kind])


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_edges_in_turn(neighboring, monkeypatch):
    # Each level has a share of the price, of which these neighbours meet one or two.
    model = DPKBinsDiscretizer(12, bounds=(0, 1), neighboring=neighboring)

    def read(fitted):
        return place(fitted.bin_edges_[0][1])

    found = quantile_audit(model, _k_bins_discretizer, read, 1.0, 10_000, monkeypatch)
    assert found <= 1.0


def test_events_are_those_of_the_parts():
    event = DPMinMaxScaler(1.0)._plan(10, 3).event
    part = events.BoundedRange(1 / 6, "replace")
    assert event == events.Composed((part,), (6,))
