"""DPRidge: scikit-learn's checks, limits, costs, robustness and audits."""

import math
import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp import BudgetAccountant, events
from skdp.calibration import gaussian_shift
from skdp.linear_model import DPRidge, _ridge
from skdp.linear_model import _least_squares as ls
from skdp.linear_model._unit_rows import UnitMap
from skdp.noise import RandomBits

RELATIONS = ("replace", "add_remove")
PRICES = [(relation, delta) for relation in RELATIONS for delta in (1e-6, 0)]


@parametrize_with_checks(
    [DPRidge(delta=delta, neighboring=relation) for relation, delta in PRICES]
    + [DPRidge(scale=None)]
)
@pytest.mark.filterwarnings("ignore::skdp.exceptions.PrivacyWarning")
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * (rng.random((500, 4)) < 0.7)
    X /= np.linalg.norm(X, axis=1).max()
    Y = 1 + X @ np.array([[1.0, 2, -1, 0.5], [0, 1, 0, -1]]).T
    return X, Y + 0.1 * rng.normal(size=Y.shape)


# --- Without noise: scikit-learn's result


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_it_is_ridge(small, make, relation, fit_intercept):
    X, y = small[0], small[1][:, 0]
    middle = 1.5 if fit_intercept else 0.0
    full = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    theirs = Ridge(alpha=1, fit_intercept=False).fit(full, y - middle)
    ours = DPRidge(
        1e8,
        0,
        alpha=1,
        scale=None,
        bounds_y=(-4, 7),
        neighboring=relation,
        fit_intercept=fit_intercept,
    ).fit(make(X), y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[:4], rtol=1e-3)
    expected = middle + theirs.coef_[-1] if fit_intercept else 0.0
    assert ours.intercept_ == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("relation, delta", PRICES)
@pytest.mark.parametrize("alpha", [None, 1e-3])
@pytest.mark.parametrize("scale", ["auto", None])
def test_with_little_noise_it_is_as_good_as_least_squares(
    small, relation, delta, alpha, scale
):
    X, Y = small
    model = DPRidge(
        1e6,
        delta,
        alpha=alpha,
        bounds_y=(-4, 6),
        neighboring=relation,
        scale=scale,
        clip_predictions=False,
    ).fit(X, Y)
    assert model.score(X, Y) > LinearRegression().fit(X, Y).score(X, Y) - 1e-3


def test_alpha_of_scaled_rows_solves_their_ridge_problem(small):
    """No noise, residuals hardly clipped: the ridge solution on rows of norm one."""
    X, y = small[0], small[1][:, 0]
    models = [
        DPRidge(1e8, 0, alpha=alpha, bounds_y=(-4, 6)).fit(X, y)
        for alpha in (1e-3, 1e2, 1e5)
    ]
    sizes = [np.linalg.norm(model.coef_) for model in models]
    assert sizes[0] > 1.2 * sizes[1] > 1.2 * sizes[2]
    assert sizes[2] < 0.01 * sizes[0]


def test_float32_and_sparse_input_agree_with_float64(small):
    X, y = small[0].astype(np.float32), small[1][:, 0]
    inputs = [X, X.astype(np.float64), sparse.csr_array(X), np.asfortranarray(X)]
    for scale in ("auto", None):
        fits = [
            DPRidge(1e8, 0, bounds_y=(-4, 6), scale=scale).fit(v, y) for v in inputs
        ]
        for fit in fits[1:]:
            np.testing.assert_allclose(fit.coef_, fits[0].coef_, rtol=1e-3)
        assert fits[0].coef_.dtype == np.float64


def test_entries_given_twice_in_a_sparse_matrix_are_added(small):
    X, y = sparse.csr_array(small[0]), small[1][:, 0]
    indices = np.repeat(X.indices, 2)
    twice = sparse.csr_array(
        (np.repeat(X.data / 2, 2), indices, 2 * X.indptr), shape=X.shape
    )
    for scale in ("auto", None):
        model = DPRidge(bounds_y=(-4, 6), scale=scale, random_state=0)
        fits = [clone(model).fit(values, y).coef_ for values in (X, twice)]
        np.testing.assert_array_equal(*fits)
    assert twice.nnz == 2 * X.nnz


# --- What it costs


@pytest.mark.parametrize("relation, delta", PRICES)
@pytest.mark.parametrize("scale", ["auto", None])
@pytest.mark.parametrize("n_samples", [100, 10**6])
def test_the_event_is_the_budget(relation, delta, scale, n_samples):
    model = DPRidge(0.7, delta, neighboring=relation, scale=scale)
    event = model.privacy_cost(n_samples, 5, n_targets=2)
    parts = event.events if scale else (event,)
    if scale is None:
        assert len(parts) == 1
    elif relation == "replace":  # n is public
        assert len(parts) == (3 if n_samples == 100 else 2)
    else:
        assert len(parts) == 3
    assert event.neighboring == relation
    if delta:
        shift = math.sqrt(sum(1 / part.noise_multiplier**2 for part in parts))
        assert shift == pytest.approx(gaussian_shift(0.7, delta), rel=1e-12)
        assert event.epsilon(delta) == pytest.approx(0.7, rel=1e-9)
    else:
        assert all(isinstance(part, events.Laplace) for part in parts)
        assert event.epsilon(0) == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("relation, delta", PRICES)
@pytest.mark.parametrize("scale", ["auto", None])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_every_release_has_the_noise_that_its_event_states(
    small, monkeypatch, relation, delta, scale, make
):
    """The scale of the noise over the sensitivity is the multiplier of the event."""
    seen, add_noise = [], ls.add_noise

    def recorded(noise, values, sensitivity, bits):
        noisy, std = add_noise(noise, values, sensitivity, bits)
        seen.append((values.size, std if delta else std / math.sqrt(2)))
        return noisy, std

    for module in (_ridge, ls):
        monkeypatch.setattr(module, "add_noise", recorded)
    model = DPRidge(
        5.0, delta, neighboring=relation, scale=scale, n_samples_hint=500
    ).fit(make(small[0]), small[1])
    event, (d, k) = model.privacy_.event, (5, 2)
    rows = 2 if relation == "replace" else 1
    joint, _ = ls.joint_sensitivity(d, k, 2 if delta else 1, relation)
    residuals = rows * (1.0 if delta else math.sqrt(d * k))
    expected = [
        (2 * 4 + 1 + 2 * k + (rows == 1), rows),
        (d * (d + 1) // 2 + d * k, joint),
        (d * k, residuals),
    ]
    expected = expected if scale else expected[1:2]
    parts = event.events if scale else [event]
    assert len(seen) == len(parts) == len(expected)
    for part, found, (size, sensitivity) in zip(parts, seen, expected, strict=True):
        assert found[0] == size
        assert found[1] >= part.noise_multiplier * sensitivity * (1 - 1e-12)
        assert found[1] <= part.noise_multiplier * sensitivity * (1 + 1e-3)


@pytest.mark.parametrize("relation, delta", PRICES)
def test_a_fit_pays_once_what_it_said(small, relation, delta):
    X, Y = small
    budget = BudgetAccountant(1.0, 1e-5, neighboring=relation)
    model = DPRidge(1.0, delta, neighboring=relation, accountant=budget)
    model.fit(X, Y)
    (entry,) = budget.spends
    assert entry.event == model.privacy_cost(*X.shape, n_targets=2)
    assert entry.event == model.privacy_.event


@pytest.mark.parametrize(
    "change, message",
    [
        ({"bounds_y": (1, -1)}, "bounds_y"),
        ({"bounds_y": (0, 0)}, "bounds_y"),
        ({"bounds_y": 3}, "bounds_y"),
        ({"bounds_y": (0, np.inf)}, "bounds_y"),
        ({"bounds_y": ([0, 0], [1, 1])}, "bounds_y"),
        ({"bounds_y": ("a", "b")}, "bounds_y"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": "auto"}, "alpha"),
        ({"data_norm": 0}, "data_norm"),
        ({"scale": "other"}, "'scale' .* or None"),
        ({"bounds_y": (-1e101, 1)}, r"within \+-1e\+100"),
        ({"fit_intercept": "no"}, "fit_intercept"),
        ({"clip_predictions": 1}, "clip_predictions"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"neighboring": "swap"}, "neighboring"),
        ({"n_samples_hint": 0}, "n_samples_hint"),
    ],
)
def test_wrong_parameters_are_named_and_cost_nothing(small, change, message):
    budget = BudgetAccountant(1.0, 1e-5)
    model = DPRidge(accountant=budget).set_params(**change)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(small[0], small[1][:, 0])
    assert len(budget.spends) == 0


def test_private_scaling_has_two_names(small):
    X, y = small[0], small[1][:, 0]
    auto, private = (
        DPRidge(1e6, scale=scale, bounds_y=(-9, 9), random_state=0).fit(X, y)
        for scale in ("auto", "private")
    )
    assert auto.privacy_.event == private.privacy_.event
    np.testing.assert_allclose(auto.coef_, private.coef_, atol=0.01)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_the_guarantee_says_what_it_assumes(small, relation):
    model = DPRidge(neighboring=relation, n_samples_hint=50_000)
    found = model.fit(small[0], small[1][:, 0]).privacy_.assumptions
    expected = [
        "every person is one row",
        "the parameters, bounds_y among them, were chosen without the data",
    ]
    if relation == "add_remove":
        expected.append("there are at most 100,000 rows")
    assert found == tuple(expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["X", "y"])
def test_invalid_data_costs_nothing(small, bad, where):
    budget = BudgetAccountant(1.0, 1e-5)
    X, y = small[0].copy(), small[1][:, 0].copy()
    (X if where == "X" else y)[3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        DPRidge(accountant=budget).fit(X, y)
    assert len(budget.spends) == 0


def test_more_rows_than_the_public_bound_are_refused_and_cost_nothing():
    budget = BudgetAccountant(1.0, 1e-5, neighboring="add_remove")
    model = DPRidge(neighboring="add_remove", n_samples_hint=10, accountant=budget)
    X = np.zeros((2**16 + 1, 1))
    with pytest.raises(ValueError, match="n_samples_hint"):
        model.fit(X, X[:, 0])
    assert len(budget.spends) == 0


def test_targets_outside_the_bounds_are_clipped(small):
    X, y = small[0], 100 * small[1][:, 0]
    fits = [
        DPRidge(1e7, 0, bounds_y=(-1, 1)).fit(X, values)
        for values in (y, np.clip(y, -1, 1))
    ]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-3, atol=1e-3)
    assert np.all(np.abs(fits[0].predict(X)) <= 1)


# --- Shapes, clones, pickles, pipelines


def test_several_targets(small):
    X, Y = small
    bounds = (np.array([-4.0, -2]), np.array([6.0, 4]))
    model = DPRidge(1e5, bounds_y=bounds).fit(X, Y)
    assert model.coef_.shape == (2, 4) and model.intercept_.shape == (2,)
    assert model.predict(X).shape == (500, 2)
    column = DPRidge(bounds_y=(-4, 6)).fit(X, Y[:, :1])
    assert column.coef_.shape == (1, 4) and column.predict(X).shape == (500, 1)
    single = DPRidge(bounds_y=(-4, 6)).fit(X, Y[:, 0])
    assert single.coef_.shape == (4,) and isinstance(single.intercept_, float)
    for i in range(2):
        pair = (bounds[0][i], bounds[1][i])
        alone = DPRidge(1e5, bounds_y=pair).fit(X, Y[:, i])
        np.testing.assert_allclose(alone.coef_, model.coef_[i], atol=0.1)


def test_predictions_are_clipped_unless_told(small):
    X, y = small[0], small[1][:, 0]
    model = DPRidge(bounds_y=(-4, 6), random_state=0).fit(X, y)
    far = 100 * X
    assert model.predict(far).min() >= -4 and model.predict(far).max() <= 6
    linear = far @ model.coef_ + model.intercept_
    model.set_params(clip_predictions=False)
    np.testing.assert_allclose(model.predict(far), linear)


def test_a_seed_reproduces_the_noise_and_other_data_gets_other_noise(small):
    X, y = small[0], small[1][:, 0]
    fits = [DPRidge(9.0, random_state=s).fit(X, y).coef_ for s in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert np.any(fits[0] != fits[2])
    secure = [DPRidge(5.0).fit(X, y) for _ in range(2)]
    assert secure[0].intercept_ != secure[1].intercept_
    assert DPRidge(random_state=0).fit(X, y).privacy_.seeded
    assert not secure[0].privacy_.seeded


def test_a_pickle_holds_nothing_of_the_data(small):
    X, Y = small
    for scale in ("auto", None):
        model = DPRidge(bounds_y=(-4, 6), scale=scale).fit(X, Y)
        state = model.__getstate__()
        public = set(DPRidge().get_params()) | {"_sklearn_version"}
        assert set(state) - public == {
            "coef_",
            "intercept_",
            "n_features_in_",
            "privacy_",
        }
        assert len(pickle.dumps(model)) < 3000
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_pipelines_clones_and_cross_validation_pay_for_every_fit(small):
    X, y = small[0], small[1][:, 0]
    budget = BudgetAccountant(10.0, 1e-4)
    model = make_pipeline(
        FunctionTransformer(), DPRidge(0.5, bounds_y=(-4, 6), accountant=budget)
    )
    assert clone(model[-1]).get_params()["epsilon"] == 0.5
    scores = cross_val_score(model, X, y, cv=3)
    assert np.all(np.isfinite(scores))
    assert len(budget.spends) == 3
    model.set_params(dpridge__epsilon=0.2).fit(X, y)
    assert model[-1].privacy_.epsilon == 0.2
    assert len(budget.spends) == 4


# --- Robustness: finite, and no warning (warnings are errors here)

ROWS = np.random.default_rng(1).normal(size=(30, 3))
HARD = {
    "one row": (ROWS[:1], np.ones(1)),
    "more features than rows": (np.tile(ROWS, (1, 20))[:7], np.ones(7)),
    "constant features": (np.ones((30, 2)), ROWS[:, 0]),
    "zero rows": (np.zeros((30, 2)), ROWS[:, 0]),
    "constant target": (ROWS, np.zeros(30)),
    "huge rows": (1e300 * ROWS, ROWS[:, 0]),
    "one huge value": (np.vstack([ROWS, [[1e300, 0, -1e300]]]), np.ones(31)),
    "tiny rows": (1e-300 * ROWS, ROWS[:, 0]),
    "huge targets": (ROWS, 1e300 * ROWS[:, 0]),
    "many equal rows": (np.ones((3000, 1)), np.ones(3000)),
    "far from the origin": (1e6 + np.tile(ROWS, (50, 1)), np.tile(ROWS[:, 0], 50)),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("relation, delta", PRICES)
def test_hard_data_gives_finite_models(name, make, relation, delta):
    X, y = HARD[name]
    for scale in ("auto", None):
        for alpha in (None, 1e-300):
            for intercept in (True, False):
                for epsilon in (1e-3, 1.0, 1e6):
                    model = DPRidge(
                        epsilon,
                        delta,
                        alpha=alpha,
                        neighboring=relation,
                        scale=scale,
                        fit_intercept=intercept,
                    ).fit(make(X), y)
                    assert np.all(np.isfinite(model.coef_))
                    assert np.isfinite(model.intercept_)
                    assert np.all(
                        np.abs(model.predict(make(ROWS[:, :1] + 0 * X[:1]))) <= 1
                    )


@pytest.mark.parametrize("unit", [1e-50, 1e50])
def test_extreme_units_and_bounds(unit):
    X, y = unit * np.tile(ROWS, (100, 1)), np.tile(ROWS[:, 0], 100) / unit
    bounds = (-4 / unit, 4 / unit)
    for scale in ("auto", None):
        model = DPRidge(20.0, data_norm=unit, scale=scale, bounds_y=bounds).fit(X, y)
        assert np.all(np.isfinite(model.coef_))
        assert model.score(X, y) > (0.9 if scale else -1)


# --- Utility


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_default_is_useful_on_data_like_diabetes(relation):
    """20,000 rows with the diabetes features' mean, covariance and model.

    200 fits had R2 from 0.466 (replace) and 0.473 (add_remove), non-private 0.513, with
    a standard deviation of at most 0.005: 0.40 is more than ten deviations away, a
    false alarm far less likely than 1e-6.
    """
    rows = load_diabetes(scaled=False)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=20_000)
    X = rng.multivariate_normal(rows.data.mean(0), np.cov(rows.data.T), 20_000)
    fit = LinearRegression().fit(rows.data, rows.target)
    y = fit.predict(X) + 54 * noise
    X = (X - 100) / 100  # public: measurements of about a hundred
    model = DPRidge(1.0, bounds_y=(0, 400), neighboring=relation).fit(X, y)
    assert model.score(X, y) > 0.40


# --- Audits


def clopper_pearson(count, trials, alpha):
    low = stats.beta.ppf(alpha, count, trials - count + 1) if count else 0.0
    high = stats.beta.ppf(1 - alpha, count + 1, trials - count)
    return low, high if count < trials else 1.0


def shortfall(first, second, epsilon, alpha=1e-7):
    """Lower bound of P(first > 0) - e^epsilon P(second > 0)."""
    low, _ = clopper_pearson(np.sum(first > 0), first.size, alpha)
    _, high = clopper_pearson(np.sum(second > 0), second.size, alpha)
    return low - math.exp(epsilon) * high


def draws(model, X, y, trials, seed):
    """Return the sums, and noisy ones: what fit releases with ``scale=None``."""
    plan = model._plan(*X.shape)
    bits, order = RandomBits(seed, b"audit"), plan.order
    constant, norm = (0.5**0.5,) * 2 if model.fit_intercept else (None, 1.0)
    rows_map = UnitMap(
        np.zeros(1), np.full(1, norm), constant, weighted=False, limit=norm
    )
    gram, cross, _ = ls.gram_sums(rows_map.rows(X, 1.0), y)
    _, ratio = ls.joint_sensitivity(len(gram), 1, order, model.neighboring)
    out = []
    for _ in range(trials):
        found = ls.release_products(
            plan, plan.noises[0], rows_map.rows(X, 1.0), y, bits
        )
        out.append(ls.pack(*found[:2], ratio, order))
    return ls.pack(gram, cross, ratio, order), np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("relation, delta", PRICES)
def test_audit_of_the_joint_release(relation, delta):
    """20,000 releases each for worst neighbours: never above the claim, nor far below.

    The statistic is the likelihood ratio of the noise. A false alarm has a probability
    below 1e-6: each of four comparisons uses two Clopper-Pearson bounds of 1e-7.
    """
    model = DPRidge(3.0, delta, scale=None, neighboring=relation)
    model.set_params(fit_intercept=delta > 0)  # L1: one column is worst
    X, y = np.array([[1.0], [0.5], [-0.3]]), np.array([[1.0], [0.2], [-0.4]])
    if relation == "replace":
        flip = np.array([[-1], [1], [1]])
        other = (X * flip if delta else X), y * flip
    else:
        other = X[1:], y[1:]
    here, first = draws(model, X, y, 20_000, 1)
    there, second = draws(model, *other, 20_000, 2)
    event = model.privacy_cost(*X.shape)

    def statistic(values):
        """Increases with the privacy loss."""
        if delta:
            return (values - (here + there) / 2) @ (here - there)
        return (np.abs(values - there) - np.abs(values - here)).sum(axis=1)

    first, second = statistic(first), statistic(second)
    for at in (0.0, 1.0, 2.0):
        cut = np.quantile(second, 1 - math.exp(-at) / 2)  # any cut is valid
        assert shortfall(first - cut, second - cut, at) < event.profile(at)
    assert shortfall(first, second, 0.0) > event.profile(0.0) / 2


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
def test_audit_of_the_fitted_model(relation):
    """The whole fit on three rows never shows more than it claims."""
    model = DPRidge(3.0, 1e-5, neighboring=relation)
    X, y = np.array([[1.0], [0.5], [-0.3]]), np.array([1.0, 0.2, -0.4])
    keep = slice(1, None) if relation == "add_remove" else slice(None)
    Z, t = X.copy(), y.copy()
    Z[0], t[0] = -1.0, -1.0
    event = model.privacy_cost(*X.shape)
    found = [
        np.array([clone(model).fit(*pair).intercept_ for _ in range(3_000)])
        for pair in ((X, y), (Z[keep], t[keep]))
    ]
    middle = np.median(np.concatenate(found))
    for at in (0.0, 1.0):
        for sign in (1, -1):
            pair = [sign * (values - middle) for values in found]
            assert shortfall(*pair, at) < event.profile(at)
            assert shortfall(*pair[::-1], at) < event.profile(at)
