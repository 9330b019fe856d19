"""Histograms: cells, noise, audits, and what is refused."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp import BudgetAccountant
from skdp.random_bits import RandomBits
from skdp.stats import DPHistogram, histogram
from skdp.stats._bins import Cells, cell_counts, make_axes
from skdp.stats._count_noise import RoundedGaussian
from skdp.stats._histogram import _mechanism, _with_total
from tests.auditing import lower_bound

RELATIONS = ("replace", "add_remove")
EXACT = 1e4  # noise of this epsilon is 0, but for a probability below 1e-1000


@parametrize_with_checks(
    [
        DPHistogram(neighboring=relation, missing=missing)
        for relation in RELATIONS
        for missing in ("error", "drop")
    ]
    + [DPHistogram(delta=1e-6, method="gaussian")]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- Cells


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("bins", [1, 7, 10, 1000])
def test_bins_are_those_of_numpy(bins, dtype):
    rng = np.random.default_rng(bins)
    x = (100 * rng.uniform(size=20_000)).astype(dtype)
    x[:1000] = np.round(x[:1000])  # on edges
    model = DPHistogram(EXACT, bins=bins, bounds=(0, 100)).fit(x[:, None])
    counts, edges = np.histogram(x.astype(float), bins, range=(0, 100))
    np.testing.assert_array_equal(model.counts_, counts)
    np.testing.assert_array_equal(model.bin_edges_[0], edges)


def test_values_on_edges_of_many_bins():
    edges = np.linspace(-3, 7, 12346)
    x = np.concatenate([edges, np.nextafter(edges, -9), np.nextafter(edges, 9)])
    axes = make_axes(12345, (-3, 7), None, False, 1)
    assert axes[0].even
    found = cell_counts(Cells((x,)), axes)
    clipped = np.clip(x, -3, 7)
    np.testing.assert_array_equal(found, np.histogram(clipped, edges)[0])


def test_explicit_edges_and_several_features():
    X = np.random.default_rng(0).normal(size=(5000, 3))
    edges = [np.array([-1.0, 0.0, 2.0]), 4, [-3.0, 3.0]]
    model = DPHistogram(EXACT, bins=edges, bounds=(-2, 2)).fit(X)
    clipped = np.clip(X, [-1, -2, -3], [2, 2, 3])
    full = [edges[0], np.linspace(-2, 2, 5), edges[2]]
    expected, _ = np.histogramdd(clipped, full)
    np.testing.assert_array_equal(model.counts_, expected)
    volumes = np.multiply.outer(np.multiply.outer([1, 2], [1] * 4), [6])
    assert math.isclose((model.density_ * volumes).sum(), 1)
    first = tuple(np.argwhere(expected)[0])
    assert model.predict(X).max() == expected.max() / 5000
    assert expected[first] / 5000 in model.predict(X)


def test_values_outside_count_in_the_outer_bins():
    X = np.array([[-1e300], [0.2], [1e300], [0.7]])
    model = DPHistogram(EXACT, bins=2, bounds=(0, 1)).fit(X)
    assert model.counts_.tolist() == [2, 2]


@pytest.mark.parametrize(
    "X",
    [
        np.array([["a"], ["b"], ["zz"], ["a"]]),
        np.array([["a"], ["b"], [3], ["a"]], dtype=object),
        pd.DataFrame({"letter": ["a", "b", "zz", "a"]}),
        pd.DataFrame({"letter": pd.Categorical(["a", "b", "zz", "a"])}),
    ],
)
def test_categories_of_texts(X):
    model = DPHistogram(EXACT, categories=[["b", "a", "c"]], other=True).fit(X)
    assert model.counts_.tolist() == [1, 2, 0, 1]
    assert model.categories_ == [["b", "a", "c"]] and model.bin_edges_ == [None]
    model = DPHistogram(EXACT, categories=[["b", "a", "c"]]).fit(X)
    assert model.counts_.tolist() == [1, 2, 0]  # the other row is left out
    np.testing.assert_allclose(model.predict(X), [2 / 3, 1 / 3, 0, 2 / 3])


def test_categories_of_numbers_beside_bins():
    X = np.array([[1, 0.1], [3, 0.9], [1, 0.8], [2, 0.5], [1, 0.95]])
    model = DPHistogram(EXACT, bins=2, bounds=(0, 1), categories=[[3, 1], None])
    assert model.fit(X).counts_.tolist() == [[0, 1], [1, 2]]
    mixed = pd.DataFrame({"x": ["u", "v", "u"], "y": [0.1, 0.9, 0.8]})
    model = DPHistogram(
        EXACT, bins=2, bounds=(0, 1), categories=[["u", "v"], None]
    ).fit(mixed)
    assert model.counts_.tolist() == [[1, 1], [0, 1]]
    assert list(model.feature_names_in_) == ["x", "y"]


def test_rows_with_missing_values_are_left_out():
    X = np.array([[0.1, 0.2], [np.nan, 0.2], [0.9, np.nan], [0.9, 0.9]])
    model = DPHistogram(EXACT, bins=2, bounds=(0, 1), missing="drop").fit(X)
    assert model.counts_.tolist() == [[1, 0], [0, 1]]
    texts = np.array([["a"], [None], [np.nan], ["b"]], dtype=object)
    options = {"categories": [["a"]], "other": True}
    model = DPHistogram(EXACT, missing="drop", **options).fit(texts)
    assert model.counts_.tolist() == [1, 1]
    with pytest.raises(ValueError, match="NaN"):
        DPHistogram(**options).fit(texts)


# Numbers, and texts that look like some of them; a row of one is each row's own.
LISTED = [[1, 2, "x"], None]
KINDS = {
    "list": lambda rows: rows,
    "tuples": lambda rows: tuple(tuple(row) for row in rows),
    "rows": lambda rows: [np.array(row, dtype=object) for row in rows],
    "objects": lambda rows: np.array(rows, dtype=object),
    "pandas": pd.DataFrame,
}
ODD_ROWS = {
    "text": ["x", 0.9],
    "text of a number": ["1", 0.9],
    "nan": [np.nan, 0.9],
    "None": [None, 0.9],
    "text 'nan'": ["nan", 0.9],
    "bool": [True, 0.9],
    "integers": [2, 1],
    "large": [10**400, 0.9],
    "number as text": [1.0, "0.9"],
    "missing number": [1.0, None],
}


def neighbours_counts(kind, odd, **options):
    """Exact counts with an ordinary last row, with another one, and without it."""
    rows = [[1.0, 0.1], [2.0, 0.9]] * 300
    options = {"categories": LISTED, "missing": "drop", **options}
    model = DPHistogram(1e6, bins=2, bounds=(0, 1), **options)
    tables = ([*rows, [1.0, 0.1]], [*rows, odd], rows)
    return [model.fit(KINDS[kind](table)).noisy_counts_ for table in tables]


@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("odd", ODD_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_row_does_not_change_what_others_count_as(kind, odd, other):
    first, second, without = neighbours_counts(kind, ODD_ROWS[odd], other=other)
    assert first[:2].tolist() == [[301, 0], [0, 300]]
    for changed in (first, second):
        gap = changed - without
        assert gap.sum() <= 1 and gap.min() == 0


def test_where_odd_rows_count():
    def found(odd):
        _, second, without = neighbours_counts("list", ODD_ROWS[odd], other=True)
        return np.argwhere(second - without).tolist()

    assert found("text") == [[2, 1]]
    assert found("text of a number") == found("text 'nan'") == [[3, 1]]
    assert found("nan") == found("None") == found("missing number") == []
    assert found("bool") == found("number as text") == [[0, 1]]


def test_missing_beside_text_is_missing():
    rows = [["a"], [float("nan")], ["b"]]
    options = {"categories": [["a", "b"]], "other": True}
    with pytest.raises(ValueError, match="NaN"):
        DPHistogram(**options).fit(rows)
    model = DPHistogram(EXACT, missing="drop", **options).fit(rows)
    assert model.counts_.tolist() == [1, 1, 0]


def test_one_category_of_numbers_and_a_text():
    for last, counts in (([1.0], [301, 300]), (["x"], [300, 300])):
        rows = [[1.0], [2.0]] * 300 + [last]
        model = DPHistogram(1e6, categories=[[1, 2]]).fit(rows)
        assert model.noisy_counts_.tolist() == counts


def test_auto_bins_stay_few():
    sizes = [make_axes("auto", (-1, 1), None, False, d)[0].size for d in (1, 5, 6, 20)]
    assert sizes == [10, 10, 6, 1]


# --- What is released


@pytest.mark.parametrize("relation", RELATIONS)
def test_counts_make_sense(relation):
    X = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    for seed in range(20):
        model = DPHistogram(0.1, neighboring=relation, random_state=seed).fit(X)
        assert model.counts_.dtype == np.int64 and model.counts_.min() >= 0
        assert math.isclose(model.probabilities_.sum(), 1)
        if relation == "replace":
            assert model.counts_.sum() == 50
        low, high = model.interval(0.9)
        assert (low >= 0).all() and (high >= low).all()


def test_all_counts_zero_is_uniform():
    X = np.zeros((3, 1))
    model = DPHistogram(EXACT, neighboring="add_remove", categories=[["a", "b"]]).fit(X)
    assert model.counts_.tolist() == [0, 0]
    assert model.probabilities_.tolist() == [0.5, 0.5]


def test_the_nearest_counts_with_a_total():
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(1, 30))
        noisy, total = rng.integers(-50, 50, size), int(rng.integers(1, 100))
        counts = _with_total(noisy, total)
        assert counts.min() >= 0 and counts.sum() == total
        found = np.sum((counts - noisy) ** 2)
        for _ in range(20):  # no move of one row comes nearer
            i, j = rng.integers(0, size, 2)
            other = counts.copy()
            other[i] += 1
            other[j] -= 1
            if other.min() >= 0:
                assert np.sum((other - noisy) ** 2) >= found


def test_intervals_cover():
    X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 1))
    exact = np.histogram(X, 1000, range=(-1, 1))[0]
    for delta, method in ((0.0, "laplace"), (1e-6, "gaussian")):
        model = DPHistogram(1.0, delta, bins=1000, method=method, random_state=0)
        low, high = model.fit(X).interval(0.9)
        share = np.mean((low <= exact) & (exact <= high))
        assert 0.85 < share < 0.97  # five standard errors of 1000 cells, and discrete


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise(relation):
    rows = 2 if relation == "replace" else 1
    assert _mechanism(0.5, 0.0, "auto", relation).sensitivity == rows
    found = _mechanism(0.5, 1e-6, "gaussian", relation)
    assert found.noise.sensitivity == math.sqrt(rows)
    assert 0.4999 < found.event.epsilon(1e-6) <= 0.5
    assert type(_mechanism(1.0, 1e-6, "auto", relation)).__name__ == "DiscreteLaplace"
    assert type(_mechanism(0.1, 0.2, "auto", "replace")).__name__ == "RoundedGaussian"


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity(relation):
    """Counts of neighbours, by the very functions that fit uses."""
    rng, axes = np.random.default_rng(1), make_axes([3, 4], (-1, 1), None, False, 2)
    for _ in range(200):
        X = rng.normal(size=(6, 2))
        other = X[:-1] if relation == "add_remove" else X.copy()
        if relation == "replace":
            other[-1] = rng.normal(size=2)
        first, second = (cell_counts(Cells(tuple(Z.T)), axes) for Z in (X, other))
        gap = np.abs(first - second)
        assert gap.sum() <= (2 if relation == "replace" else 1) and gap.max() <= 1


# --- Audits


def histogram_audit(relation, delta, count, noise=1.0):
    """Log likelihood ratios of the noisy counts of two worst-case neighbours."""
    method = "gaussian" if delta else "laplace"
    mechanism = _mechanism(1.0, delta, method, relation)
    if delta:
        used = RoundedGaussian(
            replace(mechanism.noise, rate=mechanism.noise.rate / noise)
        )
    else:
        used = replace(mechanism, epsilon=mechanism.epsilon / noise)
    axes = make_axes(2, (-1, 1), None, False, 1)
    X = np.array([-0.5] * 5 + [0.5] * 5)
    other = X[:-1] if relation == "add_remove" else np.append(X[:-1], -0.5)
    a, b = (cell_counts(Cells((Z,)), axes) for Z in (X, other))
    bits = RandomBits()

    def ratio(noisy):
        if delta:
            return noisy @ (a - b) / mechanism.noise.scale**2
        return (np.abs(noisy - b) - np.abs(noisy - a)).sum(axis=1)

    values = [ratio(used.release(np.tile(z, (count, 1)), bits)) for z in (a, b)]
    values = [np.asarray(v, dtype=float) for v in values]
    return lower_bound(*values, delta)


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("relation", RELATIONS)
def test_audit(relation, delta):
    assert 0.5 < histogram_audit(relation, delta, 20_000) <= 1.0
    assert histogram_audit(relation, delta, 40_000, noise=0.5) > 1.0


def test_audit_of_whole_fits():
    X = np.array([[-0.5]] * 5 + [[0.5]] * 5)
    model, values = DPHistogram(1.0, bins=2), []
    for data in (X, np.vstack([X[:-1], [[-0.5]]])):
        counts = np.array([model.fit(data).noisy_counts_ for _ in range(4000)])
        ratio = np.abs(counts - [6, 4]) - np.abs(counts - [5, 5])
        values.append(ratio.sum(axis=1).astype(float))
    assert 0.5 < lower_bound(*values) <= 1.0


# --- The ways of an estimator


def test_budget_and_cost():
    budget = BudgetAccountant(10.0)
    X = np.zeros((20, 2))
    model = DPHistogram(1.0, accountant=budget).fit(X)
    assert len(budget.spends) == 1
    assert model.privacy_cost(20, 2) == model.privacy_.event
    assert model.privacy_.event.epsilon(0) == 1.0
    again = DPHistogram(1.0, 1e-6, method="gaussian")
    assert again.privacy_cost(7, 1).epsilon(1e-6) <= 1.0 + 1e-9


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_plan_sees_no_number_of_rows(relation):
    model = DPHistogram(neighboring=relation)
    assert model.privacy_cost(5, 2) == model.privacy_cost(10**9, 2)


def test_clone_and_pickle():
    X = np.random.default_rng(0).uniform(-1, 1, size=(100, 1))
    model = DPHistogram(1.0, bins=[0.0, 0.5, 1.0], random_state=3).fit(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    np.testing.assert_array_equal(clone(model).fit(X).counts_, model.counts_)


def test_function():
    x = np.random.default_rng(0).uniform(size=1000)
    counts, edges = histogram(x, 4, bounds=(0, 1), epsilon=EXACT)
    expected = np.histogram(x, 4, range=(0, 1))
    np.testing.assert_array_equal(counts, expected[0])
    np.testing.assert_array_equal(edges, expected[1])
    counts, edges = histogram(x, [0.0, 0.3, 1.0], epsilon=EXACT)
    np.testing.assert_array_equal(counts, np.histogram(x, [0, 0.3, 1])[0])
    counts, names = histogram([1, 2, "x", "y"], categories=["x", 2, 1], epsilon=EXACT)
    assert counts.tolist() == [1, 1, 1] and names == ["x", 2, 1]
    price = {"epsilon": EXACT, "missing": "drop"}
    rows = ["a", "b", None]
    counts, names = histogram(rows, categories=["a"], other=True, **price)
    assert counts.tolist() == [1, 1] and names == ["a"]
    with pytest.raises(ValueError, match="bounds"):
        histogram(x, 4)
    with pytest.raises(ValueError, match="one-dimensional"):
        histogram(x[:, None], 4, bounds=(0, 1))


ONE = np.zeros((5, 1))
TWO = np.zeros((5, 2))
BAD = {
    "nan": ({}, [[np.nan]], "NaN"),
    "inf": ({}, [[np.inf]], "infinity"),
    "inf, drop": ({"missing": "drop"}, [[np.inf]], "infinity"),
    "text": ({}, [["secret"]], "text"),
    "text in bins": ({"categories": [None]}, [["secret"]], "not numbers"),
    "bins 0": ({"bins": 0}, ONE, "bins"),
    "bins 2.5": ({"bins": 2.5}, ONE, "bins"),
    "bins True": ({"bins": True}, ONE, "bins"),
    "bins text": ({"bins": "doane"}, ONE, "bins"),
    "edges fall": ({"bins": [1.0, 0.0]}, ONE, "bins"),
    "edges nan": ({"bins": [0.0, np.nan]}, ONE, "bins"),
    "too many edges": ({"bins": [[0, 1]] * 3}, TWO, "bins"),
    "bins too fine": ({"bins": 9999, "bounds": (1, 1 + 2e-13)}, ONE, "bins"),
    "too many cells": ({"bins": 4000}, TWO, "16,000,000 cells"),
    "far too many": ({"bins": 10**12}, ONE, "bins"),
    "bounds reversed": ({"bounds": (1, -1)}, ONE, "bounds"),
    "bounds nan": ({"bounds": (np.nan, 1)}, ONE, "bounds"),
    "categories flat": ({"categories": ["a"]}, ONE, "categories"),
    "categories twice": ({"categories": [["a", "a"]]}, ONE, "categories"),
    "categories empty": ({"categories": [[]]}, ONE, "categories"),
    "categories inf": ({"categories": [[1, np.inf]]}, ONE, "categories"),
    "categories short": ({"categories": [["a"]]}, TWO, "categories"),
    "method": ({"method": "gauss"}, ONE, "method"),
    "gaussian, pure": ({"method": "gaussian"}, ONE, "delta > 0"),
    "missing": ({"missing": "ignore"}, ONE, "missing"),
    "epsilon": ({"epsilon": -1}, ONE, "epsilon"),
    "no rows": ({}, np.zeros((0, 1)), "minimum of 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_costs_nothing(name):
    options, X, words = BAD[name]
    budget = BudgetAccountant(10.0)
    with pytest.raises(ValueError, match=words) as caught:
        DPHistogram(**options, accountant=budget).fit(X)
    assert "secret" not in str(caught.value)
    assert list(budget.spends) == []


def test_one_row_and_constant_features():
    model = DPHistogram(1.0, bins=3).fit([[0.0]])
    assert model.counts_.sum() == 1
    assert DPHistogram(EXACT, bins=3).fit(TWO).counts_[1, 1] == 5
