"""Principal components: results, audits, and what is refused."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp import BudgetAccountant
from skdp.decomposition import DPPCA
from skdp.random_bits import RandomBits
from skdp.stats._base import Table
from skdp.stats._second_moments import ball_rows, moment_sums, pack
from tests.auditing import lower_bound

RELATIONS = ("replace", "add_remove")
EXACT = {"epsilon": 1e6, "delta": 1e-6}


@parametrize_with_checks(
    [DPPCA(neighboring=relation) for relation in RELATIONS]
    + [DPPCA(1, whiten=True), DPPCA(center=None), DPPCA(delta=0.0)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(n_rows=2000, d=4, seed=0):
    """Rows of norm below one, with well separated components and a mean."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n_rows, d)) * 0.5 ** np.arange(d)
    turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return 0.5 * X @ turned + 0.1


# --- Results


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("whiten", [False, True])
def test_large_epsilon_is_scikit_learn(relation, whiten):
    X = rows()
    ours = DPPCA(3, **EXACT, whiten=whiten, neighboring=relation).fit(X)
    theirs = PCA(3, whiten=whiten).fit(X)
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    turned = theirs.components_ * signs[:, None]
    np.testing.assert_allclose(ours.components_, turned, atol=1e-2)
    for name in ("explained_variance_", "explained_variance_ratio_", "mean_"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-2
        )
    found, expected = ours.transform(X), theirs.transform(X) * signs
    np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())
    np.testing.assert_allclose(
        ours.inverse_transform(found),
        theirs.inverse_transform(expected * signs),
        atol=0.01,
    )


def test_all_components_give_the_rows_back():
    X = rows()
    for whiten in (False, True):
        pca = DPPCA(whiten=whiten, random_state=0).fit(X)
        np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X)


def test_centers():
    X = rows()
    assert (DPPCA(center=None).fit(X).mean_ == 0).all()
    center = np.full(4, 0.1)
    pca = DPPCA(**EXACT, center=center).fit(X)
    np.testing.assert_array_equal(pca.mean_, center)
    expected = np.linalg.eigvalsh((X - center).T @ (X - center) / 1999)[::-1]
    np.testing.assert_allclose(pca.explained_variance_, expected, rtol=1e-2)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_results_make_sense(relation, delta):
    X = rows(30)
    for seed in range(20):
        options = {"neighboring": relation, "random_state": seed}
        pca = DPPCA(epsilon=0.3, delta=delta, **options).fit(X)
        inner = pca.components_ @ pca.components_.T
        np.testing.assert_allclose(inner, np.eye(4), atol=1e-12)
        largest = np.argmax(np.abs(pca.components_), axis=1)
        assert (pca.components_[np.arange(4), largest] > 0).all()
        variance = pca.explained_variance_
        assert (variance >= 0).all() and (np.diff(variance) <= 0).all()
        assert pca.explained_variance_ratio_.sum() <= 1 + 1e-12
        assert np.linalg.norm(pca.mean_) <= 1 + 1e-12
        white = clone(pca).set_params(whiten=True).fit(X).transform(X)
        assert np.isfinite(white).all()


def test_long_rows_are_scaled_back():
    X = rows() * 10.0 ** np.random.default_rng(0).integers(0, 300, size=(2000, 1))
    pca = DPPCA(**EXACT, center=None).fit(X)
    used = X / np.maximum(1, np.abs(X).max(axis=1))[:, None]
    used /= np.maximum(1, np.linalg.norm(used, axis=1))[:, None]
    far = np.abs(X).max(axis=1) >= 1e150  # these keep their signs only
    used[far] = np.sign(X[far]) / 2
    expected = np.linalg.eigvalsh(used.T @ used / 1999)[::-1]
    np.testing.assert_allclose(pca.explained_variance_, expected, rtol=1e-2)


def test_float32_is_kept():
    X = rows().astype(np.float32)
    pca = DPPCA(2, random_state=0).fit(X)
    Z = pca.transform(X)
    assert Z.dtype == np.float32 and pca.inverse_transform(Z).dtype == np.float32
    assert pca.transform(X.astype(float)).dtype == np.float64


# --- Audits

DELTA = 0.1  # a large delta has its worst event in the bulk, where there are counts


def pca_audit(relation, delta, count, noise=1.0, **options):
    """Log likelihood ratios of the release step, on two worst-case neighbours."""
    d = 2 if delta else 1
    model = DPPCA(epsilon=1.0, delta=delta, neighboring=relation, **options)
    plan, bits = model._plan(5, d).release, RandomBits()
    release = plan.release
    used = replace(release, rate=release.rate / noise)
    far = -plan.c / 2 if d == 1 else -(plan.c**2) / 2
    other = np.array([far, math.sqrt(1 - far**2)][:d])
    rest, one = np.full((4, d), 0.1), 7.0 * np.eye(1, d)  # clipped to norm one
    data = [np.vstack([rest, one])]
    data.append(rest if relation == "add_remove" else np.vstack([rest, other]))
    a, b = (
        pack(
            *moment_sums(ball_rows(X, np.zeros(d), 1.0), d),
            release.kind,
            plan.c,
            plan.e,
        )
        for X in data
    )

    def ratio(noisy):
        if delta:
            return noisy @ (a - b) / release.scale**2
        return (np.abs(noisy - b) - np.abs(noisy - a)).sum(axis=1) / release.scale

    values = [ratio(used.add(np.tile(z, (count, 1)), bits)) for z in (a, b)]
    return lower_bound(*values, delta)


@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("relation", RELATIONS)
def test_audit(relation, delta):
    method = "gaussian" if delta else "laplace"
    assert 0.5 < pca_audit(relation, delta, 20_000, method=method) <= 1.0
    assert pca_audit(relation, delta, 10_000, noise=0.5, method=method) > 1.0


@pytest.mark.parametrize("relation", RELATIONS)
def test_audit_without_a_center(relation):
    found = pca_audit(relation, DELTA, 20_000, center=None, method="gaussian")
    assert 0.5 < found <= 1.0


@pytest.mark.slow
def test_audit_of_whole_fits():
    """The variance along the only feature; it is a part of what is released."""
    X = np.zeros((50, 1))
    X[-1] = 1.0
    options = {"center": None, "method": "gaussian"}
    model, values = DPPCA(epsilon=1.0, delta=DELTA, **options), []
    for data in (X, np.zeros((50, 1))):
        plan, bits = model._plan(50, 1), RandomBits()
        found = []
        for _ in range(20_000):
            model._release(plan, Table(data), bits, None)
            found.append(model.explained_variance_[0])
        values.append(np.array(found))
    assert 0.1 < lower_bound(*values, DELTA) <= 1.0


# --- The ways of an estimator


@pytest.mark.parametrize("relation", RELATIONS)
def test_budget_is_charged_once(relation):
    budget = BudgetAccountant(10.0, neighboring=relation)
    pca = DPPCA(2, accountant=budget, neighboring=relation)
    X = rows()
    assert pca.fit_transform(X).shape == (2000, 2)
    assert len(budget.spends) == 1
    assert pca.privacy_cost(2000, 4) == pca.privacy_.event
    assert 0.999 < pca.privacy_.event.epsilon(1e-6) <= 1.0 + 1e-9
    pca.transform(X)
    assert len(budget.spends) == 1


def test_the_plan_sees_no_private_number():
    model = DPPCA(neighboring="add_remove")
    assert model._plan(5, 2).release == model._plan(500, 2).release


def test_clone_and_pickle():
    X = rows()
    pca = DPPCA(2, random_state=3).fit(X)
    for other in (pickle.loads(pickle.dumps(pca)), copy.deepcopy(pca)):
        np.testing.assert_array_equal(other.transform(X), pca.transform(X))
    np.testing.assert_array_equal(clone(pca).fit(X).components_, pca.components_)


def test_names_and_pandas_output():
    X = pd.DataFrame(rows(), columns=list("abcd"))
    pca = DPPCA(2).set_output(transform="pandas").fit(X)
    assert list(pca.feature_names_in_) == list("abcd")
    assert list(pca.transform(X).columns) == ["dppca0", "dppca1"]
    assert list(pca.get_feature_names_out()) == ["dppca0", "dppca1"]


def test_polars_output():
    polars = pytest.importorskip("polars")
    pca = DPPCA(2).set_output(transform="polars").fit(rows())
    assert isinstance(pca.transform(rows()), polars.DataFrame)


def test_in_a_pipeline():
    found = make_pipeline(DPPCA(3), DPPCA(2, whiten=True)).fit_transform(rows())
    assert found.shape == (2000, 2)


ONE = np.zeros((5, 1))
BAD = {
    "nan": ({}, [[np.nan]], ValueError, "NaN"),
    "inf": ({}, [[np.inf]], ValueError, "infinity"),
    "data_norm": ({"data_norm": 0}, ONE, ValueError, "data_norm"),
    "data_norm inf": ({"data_norm": math.inf}, ONE, ValueError, "data_norm"),
    "n_components": ({"n_components": 2}, ONE, ValueError, "n_components"),
    "n_components 0": ({"n_components": 0}, ONE, ValueError, "n_components"),
    "n_components 0.5": ({"n_components": 0.5}, ONE, TypeError, "n_components"),
    "center": ({"center": "mean"}, ONE, ValueError, "center"),
    "center long": ({"center": [1.0, 2.0]}, ONE, ValueError, "center"),
    "center nan": ({"center": [np.nan]}, ONE, ValueError, "center"),
    "whiten": ({"whiten": 1}, ONE, TypeError, "whiten"),
    "method": ({"method": "gauss"}, ONE, ValueError, "method"),
    "gaussian, pure": (
        {"method": "gaussian", "delta": 0},
        ONE,
        ValueError,
        "delta > 0",
    ),
    "no rows": ({}, np.zeros((0, 1)), ValueError, "minimum of 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_costs_nothing(name):
    options, X, kind, words = BAD[name]
    budget = BudgetAccountant(10.0)
    with pytest.raises(kind, match=words):
        DPPCA(**options, accountant=budget).fit(X)
    assert list(budget.spends) == []


def test_wrong_width_of_components():
    pca = DPPCA(2).fit(rows())
    with pytest.raises(ValueError, match=r"2 column\(s\)"):
        pca.inverse_transform(rows())


@pytest.mark.parametrize("relation", RELATIONS)
def test_odd_data_gives_finite_results(relation):
    for X in ([[0.3, 0.2]], np.full((9, 2), 7.0), np.full((9, 2), -1e300)):
        for norm in (1e-100, 1.0, 1e100):
            pca = DPPCA(neighboring=relation, data_norm=norm).fit(X)
            assert np.isfinite(pca.components_).all()
            assert np.isfinite(pca.explained_variance_).all()
