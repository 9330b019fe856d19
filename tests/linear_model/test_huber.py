"""Private robust regression."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skdp.linear_model import DPHuberRegressor

METHODS = ("objective", "output", "gradient")
RELATIONS = ("replace", "add_remove")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    return X, 2 + X @ [1.0, -0.5, 0.2, 0.0] + rng.standard_t(3, size=500) / 5


def model(**options):
    return DPHuberRegressor(**{"bounds_y": (-2, 6), "steps": 10, **options})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_coefficients_are_the_model(data, method, container, fit_intercept):
    X, y = data
    fitted = model(method=method, fit_intercept=fit_intercept, clip_predictions=False)
    fitted.fit(container(X), y)
    assert fitted.coef_.shape == (4,) and isinstance(fitted.intercept_, float)
    by_hand = 10 * X @ fitted.coef_ + fitted.intercept_
    np.testing.assert_allclose(fitted.predict(container(10 * X)), by_hand, rtol=1e-9)
    fitted.set_params(clip_predictions=True)
    found = fitted.predict(container(10 * X))
    np.testing.assert_allclose(found, np.clip(by_hand, -2, 6), rtol=1e-9)
    assert found.min() >= -2 and found.max() <= 6


def test_normalised_rows_predict_alike(data):
    X, y = data
    fitted = model(row_norm="normalize", scale=None, clip_predictions=False).fit(X, y)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    by_hand = rows @ fitted.coef_ + fitted.intercept_
    np.testing.assert_allclose(fitted.predict(X), by_hand, rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(sparse.csr_array(X)), by_hand, rtol=1e-7)


def test_targets_are_clipped(data):
    # Beyond the bounds nothing changes: the seed, too, sees the clipped targets.
    X, y = data
    y = np.where(y > 2, 6.0, -2.0)
    first = model(random_state=0).fit(X, y).coef_
    second = model(random_state=0).fit(X, np.where(y > 2, 1e300, -1e300)).coef_
    np.testing.assert_array_equal(first, second)


def test_units_of_the_target(data):
    # Bounds and targets in other units: the same fit in these units.
    X, y = data
    options = {"epsilon": 1e8, "neighboring": "add_remove", "C": 1.0, "scale": None}
    first = model(**options).fit(X, y)
    second = model(bounds_y=(-2000, 6000), **options).fit(X, 1000 * y)
    np.testing.assert_allclose(second.coef_, 1000 * first.coef_, rtol=0.02, atol=2)
    assert second.intercept_ == pytest.approx(1000 * first.intercept_, rel=0.01)


def test_feature_names(data):
    X = pd.DataFrame(data[0], columns=list("abcd"))
    fitted = model().fit(X, pd.Series(data[1]))
    assert fitted.feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize(
    "bounds", [(6, -2), (1, 1), (0, np.inf), (np.nan, 1), 3, (1, 2, 3), None, "ab"]
)
def test_wrong_bounds(data, bounds):
    with pytest.raises((ValueError, TypeError), match="bounds_y"):
        model(bounds_y=bounds).fit(*data)


@pytest.mark.parametrize("transition", [0.0, -1.0, np.nan, np.inf, "a", None])
def test_wrong_transition(data, transition):
    with pytest.raises((ValueError, TypeError), match="transition"):
        model(transition=transition).fit(*data)


def test_wrong_targets_are_not_quoted(data):
    X, _ = data
    for y in (["98765.4321x"] * 500, np.array(["98765.4321x"] * 500, dtype=object)):
        with pytest.raises(ValueError) as caught:
            model().fit(X, y)
        assert "98765" not in str(caught.value)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model().fit(X, np.full(500, bad))
    with pytest.raises(ValueError, match="1d array"):
        model().fit(X, X)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("scale", [None, "auto"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_largest_c_is_named_and_accepted(data, neighboring, scale, epsilon):
    fitted = model(epsilon=epsilon, neighboring=neighboring, scale=scale, C=1e9)
    with pytest.raises(ValueError, match="'C' parameter must be at most") as caught:
        fitted.fit(*data)
    largest = float(re.search(r"at most ([-+.e\d]+)", str(caught.value))[1])
    fitted.set_params(C=largest).fit(*data)
    assert fitted.privacy_.event.epsilon(1e-6) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_the_default_c_works(data, neighboring, method, epsilon):
    for scale in (None, "auto"):
        fitted = model(
            epsilon=epsilon, method=method, neighboring=neighboring, scale=scale
        ).fit(*data)
        assert np.isfinite(fitted.coef_).all()
        assert fitted.privacy_.event.epsilon(1e-6) <= epsilon * (1 + 1e-5)


def test_pure_objective_names_what_works(data):
    with pytest.raises(
        ValueError, match=r"delta > 0, method='output' or .* Got delta=0\."
    ):
        model(delta=0.0).fit(*data)


@pytest.mark.parametrize("method", METHODS)
def test_only_documented_attributes(data, method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = model(method=method).fit(*data)
    known = {"coef_", "intercept_", "n_features_in_", "privacy_"}
    known |= {"coef_std_"} if method == "output" else set()
    assert set(vars(fitted)) - set(fitted.get_params()) == known


def test_weights_are_not_accepted(data):
    with pytest.raises(TypeError):
        model().fit(*data, sample_weight=np.ones(500))


def test_outliers_matter_little(data):
    X, y = data
    options = {"epsilon": 50.0, "transition": 0.05}
    plain = model(**options).fit(X, y)
    wild = y.copy()
    wild[:25] = 6.0  # one in twenty
    robust = model(**options).fit(X, wild)
    assert np.abs(robust.coef_ - plain.coef_).max() < 0.4
    assert robust.score(X, y) > 0.4
