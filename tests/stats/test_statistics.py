"""Values, their errors and intervals: what a user relies on."""

import numpy as np
import pytest
from sklearn.base import clone

from skdp import BudgetAccountant, stats
from skdp.stats import (
    DPCount,
    DPMean,
    DPMedian,
    DPQuantile,
    DPStandardDeviation,
    DPSum,
    DPVariance,
)

RELATIONS = ("replace", "add_remove")
KINDS = {
    "mean": (DPMean, "mean_", np.mean, {}),
    "sum": (DPSum, "sum_", np.sum, {}),
    "var": (DPVariance, "var_", np.var, {}),
    "sample var": (
        DPVariance,
        "var_",
        lambda x, axis: x.var(axis, ddof=1),
        {"ddof": 1},
    ),
    "std": (DPStandardDeviation, "std_", np.std, {}),
}
BOUNDS = (np.array([-2.0, 10.0]), np.array([6.0, 13.0]))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return rng.uniform(*BOUNDS, (4000, 2))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("price", [(1e8, 0.0, "laplace"), (1e6, 0.1, "gaussian")])
def test_without_noise_it_is_numpy(table, name, relation, price):
    kind, attribute, theirs, options = KINDS[name]
    epsilon, delta, method = price
    model = kind(
        epsilon, delta, bounds=BOUNDS, method=method, neighboring=relation, **options
    ).fit(table)
    # Gaussian noise of epsilon 1e6 is about 1e-3 of one row.
    tolerance = 1e-6 if method == "laplace" else 1e-5
    expected = theirs(table, axis=0)
    np.testing.assert_allclose(getattr(model, attribute), expected, rtol=tolerance)
    np.testing.assert_array_equal(model.predict(table)[7], getattr(model, attribute))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_missing_values_are_left_out(table, name, relation):
    kind, attribute, theirs, options = KINDS[name]
    X = np.where(np.random.default_rng(1).random(table.shape) < 0.2, np.nan, table)
    model = kind(
        1e8, bounds=BOUNDS, missing="drop", neighboring=relation, **options
    ).fit(X)
    expected = [theirs(x[~np.isnan(x)], axis=0) for x in X.T]
    np.testing.assert_allclose(getattr(model, attribute), expected, rtol=1e-6)


def test_values_outside_are_clipped(table):
    X = np.array([[-100.0], [0.25], [100.0], [0.75]])
    assert DPMean(1e8, bounds=(0, 1)).fit(X).mean_[0] == pytest.approx(0.5)
    assert DPSum(1e8, bounds=(0, 1)).fit(X).sum_[0] == pytest.approx(2.0)


@pytest.mark.parametrize("kind", [bool, np.int8, np.int64, np.uint16, np.float32])
def test_kinds_of_numbers(kind):
    X = np.array([[0], [1], [1], [1]] * 100).astype(kind)
    assert DPMean(1e8, bounds=(0, 1)).fit(X).mean_[0] == pytest.approx(0.75)
    assert DPCount(1e8).fit(X).count_[0] == 300
    found = DPMedian(100.0, bounds=(0, 1), resolution=1).fit(X)
    assert found.median_[0] == 1


# --- The noise


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta, method", [(0.0, "laplace"), (1e-3, "gaussian")])
def test_the_standard_error_is_that_of_the_noise(name, relation, delta, method):
    """600 fits: the standard error of a std is below 4.6 %, 6 of them are allowed."""
    kind, attribute, theirs, options = KINDS[name]
    X = np.random.default_rng(2).uniform(0, 1, (3000, 1))
    model = kind(
        1.0, delta, bounds=(0, 1), method=method, neighboring=relation, **options
    )
    fits = [clone(model).fit(X) for _ in range(600)]
    values = [getattr(fit, attribute)[0] for fit in fits]
    claimed = np.mean([fit.standard_error_[0] for fit in fits])
    assert np.std(values) == pytest.approx(claimed, rel=0.28)
    # And without bias: 6 standard errors of the mean of 600.
    assert abs(np.mean(values) - theirs(X, axis=0)[0]) < 6 * claimed / np.sqrt(600)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_standard_error_of_a_count(relation):
    X = np.arange(1000)[:, None] < 400
    for delta, method in ((0.0, "laplace"), (1e-3, "gaussian")):
        model = DPCount(0.5, delta, method=method, neighboring=relation)
        fits = [clone(model).fit(X) for _ in range(600)]
        values = [fit.count_[0] for fit in fits]
        claimed = fits[0].standard_error_[0]
        assert np.std(values) == pytest.approx(claimed, rel=0.28)
        assert abs(np.mean(values) - 400) < 6 * claimed / np.sqrt(600)
        assert fits[0].count_.dtype.kind == "i"


def test_auto_is_the_least_noise():
    X = np.random.default_rng(0).random((500, 40))
    errors = {
        method: DPMean(1.0, 1e-6, bounds=(0, 1), method=method)
        .fit(X)
        .standard_error_[0]
        for method in ("auto", "laplace", "gaussian")
    }
    assert errors["auto"] == errors["gaussian"] < errors["laplace"]
    one = X[:, :1]
    few = DPMean(1.0, 1e-6, bounds=(0, 1)).fit(one).standard_error_[0]
    assert few == DPMean(1.0, bounds=(0, 1)).fit(one).standard_error_[0]


# --- Intervals


def covered(kind, attribute, truth, draw, count=400, **options):
    inside = 0
    for seed in range(count):
        X = draw(np.random.default_rng(seed))
        low, high = kind(**options).fit(X).interval(0.9)
        assert (low <= high).all()
        inside += bool(low[0] <= truth <= high[0])
    return inside / count


DRAWS = {
    "uniform": (lambda rng: rng.random((300, 1)), 0.5, 1 / 12),
    "two points": (lambda rng: (rng.random((300, 1)) < 0.5) * 1.0, 0.5, 0.25),
    "skewed": (lambda rng: rng.beta(1, 8, (300, 1)), 1 / 9, 8 / (81 * 10)),
}


@pytest.mark.parametrize("shape", DRAWS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta, method", [(0.0, "laplace"), (1e-4, "gaussian")])
def test_coverage(shape, relation, delta, method):
    """90 % is wanted of 400: below 0.82 has a probability under 1e-6."""
    draw, mean, variance = DRAWS[shape]
    options = {"epsilon": 0.5, "delta": delta, "bounds": (0, 1), "method": method}
    options["neighboring"] = relation
    assert covered(DPMean, "mean_", mean, draw, **options) > 0.82
    assert covered(DPVariance, "var_", variance, draw, **options) > 0.82
    root = np.sqrt(variance)
    assert covered(DPStandardDeviation, "std_", root, draw, **options) > 0.82


def test_coverage_is_not_wasted():
    """Of a mean of two points, where the worst case of the variance is met."""
    draw, mean, _ = DRAWS["two points"]
    found = covered(DPMean, "mean_", mean, draw, epsilon=1.0, bounds=(0, 1))
    assert 0.82 < found < 0.97


def test_intervals_of_totals():
    X = np.random.default_rng(0).random((500, 1))
    truth, inside = X.sum(), [0, 0]
    for _ in range(400):
        low, high = DPSum(1.0, bounds=(0, 1)).fit(X).interval(0.9)
        inside[0] += bool(low[0] <= truth <= high[0])
        low, high = DPCount(1.0).fit(X > 0.5).interval(0.9)
        inside[1] += bool(low[0] <= np.sum(X > 0.5) <= high[0])
    assert min(inside) / 400 > 0.82 and inside[0] / 400 < 0.97


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", ["exponential", "smooth-cauchy"])
def test_coverage_of_a_median(relation, method):
    if relation == "add_remove" and method != "exponential":
        pytest.skip("the smooth methods are for 'replace'")
    hint = 2000 if relation == "add_remove" else None
    inside = 0
    for seed in range(200):
        X = np.random.default_rng(seed).exponential(10, (2000, 1))
        model = DPMedian(
            2.0,
            bounds=(0, 100),
            method=method,
            confidence=0.9,
            neighboring=relation,
            n_samples_hint=hint,
        ).fit(X)
        low, high = model.interval()
        inside += bool(low[0] <= 10 * np.log(2) <= high[0])
    # 90 % is wanted of 200: below 0.78 has a probability under 1e-6.
    assert inside / 200 > 0.78


def test_an_interval_of_quantiles_is_planned():
    X = np.random.default_rng(0).random((3000, 2))
    model = DPQuantile([0.2, 0.8], 4.0, bounds=(0, 1), confidence=0.95).fit(X)
    low, high = model.interval(0.95)
    assert low.shape == high.shape == model.quantiles_.shape == (2, 2)
    assert (low < [[0.2], [0.8]]).all() and (high > [[0.2], [0.8]]).all()
    assert (high - low < 0.4).all()
    with pytest.raises(ValueError, match=r"must be 0\.95"):
        model.interval(0.5)
    with pytest.raises(ValueError, match="must be planned"):
        DPQuantile(0.5, bounds=(0, 1)).fit(X).interval()
    with pytest.raises(ValueError, match="n_samples_hint"):
        DPMedian(confidence=0.9, neighboring="add_remove").fit(X)


# --- Results make sense


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_results_make_sense_under_heavy_noise(relation, missing):
    X = np.array([[0.1, 5.0], [0.2, 5.0]])
    options = {"neighboring": relation, "missing": missing}
    for seed in range(60):
        for kind in (DPMean, DPVariance, DPStandardDeviation):
            model = kind(0.01, bounds=(0, 5), random_state=seed, **options).fit(X)
            value = getattr(model, model._value)
            assert np.isfinite(value).all() and (value >= 0).all()
            assert np.isfinite(model.standard_error_).all()
            low, high = model.interval()
            assert np.isfinite(low).all() and (low <= high).all()
        count = DPCount(0.01, random_state=seed, **options).fit(X).count_
        assert (count >= 0).all()
        mean = DPMean(0.01, bounds=(0, 5), random_state=seed, **options).fit(X).mean_
        assert ((mean >= 0) & (mean <= 5)).all()
        found = DPQuantile(
            [0.9, 0.1, 0.5], 0.01, bounds=(0, 5), random_state=seed, **options
        ).fit(X)
        middle, low, high = found.quantiles_[[2, 1, 0]]
        assert (0 <= low).all() and (low <= middle).all() and (middle <= high).all()
        assert (high <= 5).all()


def test_all_missing():
    X = np.full((50, 1), np.nan)
    for kind in (DPMean, DPVariance, DPStandardDeviation, DPSum, DPCount, DPMedian):
        model = kind(missing="drop").fit(X)
        assert np.isfinite(getattr(model, model._value)).all()


def test_one_row():
    for kind in (DPMean, DPVariance, DPStandardDeviation, DPSum, DPCount, DPMedian):
        model = kind().fit([[0.5, 0.2]])
        assert getattr(model, model._value).shape == (2,)


# --- CoinPress


def test_coinpress_needs_no_bounds():
    rng = np.random.default_rng(0)
    X = rng.normal([40.0, -70.0, 5.0], [3.0, 0.5, 8.0], (10_000, 3))
    options = {"method": "coinpress", "radius": 100.0, "spread": (0.1, 20)}
    model = DPMean(1.0, 1e-6, **options).fit(X)
    far = np.abs(model.mean_ - X.mean(axis=0)) / model.standard_error_
    assert far.max() < 6  # Gaussian noise: beyond 6 once in 1e8
    # Bounds of the same public knowledge, +-200, would have this noise.
    wide = DPMean(1.0, 1e-6, bounds=(-200, 200)).fit(X)
    assert (model.standard_error_ < 0.3 * wide.standard_error_).all()
    low, high = model.interval(0.999)
    assert (low < [40, -70, 5]).all() and (high > [40, -70, 5]).all()
    assert not hasattr(model, "bounds_")
    assert model.privacy_.event.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    for bad in ({"missing": "drop"}, {"neighboring": "add_remove"}, {"delta": 0.0}):
        with pytest.raises(ValueError, match="coinpress"):
            DPMean(**{"delta": 1e-6, **options, **bad}).fit(X)


# --- Quantiles


@pytest.mark.parametrize("method", ["exponential", "joint", "recursive"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_quantiles_are_near(method, relation):
    X = np.random.default_rng(0).uniform(0, 100, (20_000, 1))
    q = [0.9, 0.05, 0.5]
    model = DPQuantile(q, 2.0, bounds=(0, 100), method=method, neighboring=relation)
    found = model.fit(X).quantiles_[:, 0]
    # Ranks are off by a few hundred at most: 1 % of 20,000 rows is 200.
    np.testing.assert_allclose(found, [90, 5, 50], atol=2.0)
    assert model.predict(X[:3]).shape == (3, 3, 1)


def test_the_same_quantile_twice():
    X = np.random.default_rng(0).random((1000, 1))
    found = DPQuantile([0.5, 0.2, 0.5], bounds=(0, 1)).fit(X).quantiles_
    assert found[0] == found[2] >= found[1]


def test_resolution():
    X = np.random.default_rng(0).integers(0, 100, (1000, 1))
    model = DPMedian(1.0, bounds=(0, 99), resolution=1).fit(X)
    assert model.median_[0] == int(model.median_[0])
    with pytest.raises(ValueError, match="resolution"):
        DPMedian(bounds=(0, 1), resolution=1e-30).fit(X)


@pytest.mark.parametrize(
    "method", ["smooth-laplace", "smooth-cauchy", "smooth-gaussian"]
)
def test_smooth_medians(method):
    X = np.random.default_rng(0).uniform(0, 100, (20_000, 2))
    delta = 0.0 if method == "smooth-cauchy" else 1e-6
    model = DPMedian(8.0, delta, bounds=(0, 100), method=method).fit(X)
    # The largest noise, Gaussian, has a scale of about 0.5 here.
    np.testing.assert_allclose(model.median_, 50, atol=5)
    for bad in ({"neighboring": "add_remove"}, {"missing": "drop"}):
        with pytest.raises(ValueError, match="exponential"):
            DPMedian(1.0, delta, method=method, **bad).fit(X)
    if delta:
        with pytest.raises(ValueError, match="needs delta > 0"):
            DPMedian(1.0, method=method).fit(X)


# --- Functions


def test_functions_are_the_estimators():
    x = np.random.default_rng(0).uniform(0, 10, 300)
    options = {"bounds": (0, 10), "random_state": 3}
    column = x[:, None]
    assert stats.mean(x, **options) == DPMean(**options).fit(column).mean_[0]
    assert stats.total(x, **options) == DPSum(**options).fit(column).sum_[0]
    assert stats.var(x, **options) == DPVariance(**options).fit(column).var_[0]
    assert stats.std(x, **options) == DPStandardDeviation(**options).fit(column).std_[0]
    assert stats.median(x, **options) == DPMedian(**options).fit(column).median_[0]
    found = stats.quantile(x, [0.2, 0.4], **options)
    model = DPQuantile([0.2, 0.4], **options).fit(column)
    np.testing.assert_array_equal(found, model.quantiles_[:, 0])
    assert isinstance(stats.quantile(x, 0.2, **options), float)
    assert isinstance(stats.count(x > 5), int)
    accountant = BudgetAccountant(1.0, 0.0)
    stats.mean(x, 0.25, bounds=(0, 10), accountant=accountant)
    assert accountant.total().epsilon == 0.25
    press = {"method": "coinpress", "radius": 10.0, "spread": (1, 4)}
    many = np.random.default_rng(1).normal(5, 2, 5000)
    found = stats.mean(many, 2.0, 1e-6, bounds=None, **press)
    assert abs(found - 5) < 1
    assert abs(stats.cov(many[:, None], 2.0, bounds=None, **press)[0, 0] - 4) < 2
    with pytest.raises(TypeError, match="bounds"):
        stats.mean(x)
    with pytest.raises(ValueError, match="one-dimensional"):
        stats.mean(column, bounds=(0, 1))
