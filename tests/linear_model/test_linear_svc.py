"""Private linear support vector classification."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from skdp.exceptions import PrivacyWarning
from skdp.linear_model import DPLinearSVC

METHODS = ("objective", "output", "gradient")
RELATIONS = ("replace", "add_remove")


@pytest.fixture(scope="module")
def data():
    return make_classification(300, 4, class_sep=2.0, random_state=0)


@pytest.fixture(scope="module")
def three_classes():
    return make_classification(
        600, 4, n_informative=4, n_redundant=0, n_classes=3, random_state=1
    )


def model(**options):
    return DPLinearSVC(**{"classes": [0, 1], "steps": 10, **options})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_coefficients_are_the_model(data, three_classes, method, container):
    for (X, y), classes in ((data, [0, 1]), (three_classes, [0, 1, 2])):
        fitted = model(method=method, classes=classes).fit(container(X), y)
        rows = 1 if len(classes) == 2 else 3
        assert fitted.coef_.shape == (rows, 4) and fitted.intercept_.shape == (rows,)
        by_hand = 10 * X @ fitted.coef_.T + fitted.intercept_
        scores = fitted.decision_function(container(10 * X))
        np.testing.assert_allclose(scores.reshape(by_hand.shape), by_hand, rtol=1e-9)
        codes = by_hand.argmax(axis=1) if rows == 3 else by_hand[:, 0] > 0
        np.testing.assert_array_equal(fitted.predict(10 * X), codes * 1)
    assert not hasattr(fitted, "predict_proba")


@pytest.mark.parametrize("method", METHODS)
def test_three_classes_are_learnt(three_classes, method):
    X, y = three_classes
    y = np.array(["c", "a", "b"])[y]
    fitted = model(method=method, classes=["c", "b", "a"], epsilon=20.0, steps=50)
    # About .7 without noise, 1/3 by chance: at epsilon 20 the noise is negligible.
    assert fitted.fit(X, y).score(X, y) > 0.5
    assert fitted.classes_.tolist() == ["a", "b", "c"]


def test_classes(data):
    X, y = data
    with pytest.warns(PrivacyWarning, match="'classes'"):
        model(classes=None).fit(X, y)
    with pytest.raises(ValueError, match="not in the 'classes'") as caught:
        model().fit(X, 12345 * y)
    assert "12345" not in str(caught.value)
    for method in METHODS:
        fitted = model(method=method, classes=[0, 1, 2]).fit(X[:1], [2])
        assert np.isfinite(fitted.decision_function(X)).all()


def test_feature_names(data):
    X = pd.DataFrame(data[0], columns=list("abcd"))
    assert model().fit(X, data[1]).feature_names_in_.tolist() == list("abcd")


def test_no_weights(data):
    with pytest.raises(TypeError):
        model().fit(*data, sample_weight=np.ones(300))
    for name in ("class_weight", "max_iter", "calibration"):
        with pytest.raises(TypeError):
            DPLinearSVC(**{name: None})


@pytest.mark.parametrize("width", [0.0, -1.0, 1.5, np.nan, "a", None])
def test_wrong_hinge_width(data, width):
    with pytest.raises((ValueError, TypeError), match="hinge_width"):
        model(hinge_width=width).fit(*data)


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


def test_many_classes_at_a_small_epsilon_do_not_blame_c(three_classes):
    with pytest.raises(ValueError, match=r"share epsilon=0\.05 over 30 classes"):
        model(epsilon=0.05, classes=list(range(30))).fit(*three_classes)


def test_a_c_that_classes_cannot_share_is_refused(three_classes):
    """The largest C of two classes may be too large for ten."""
    largest = 0.5 * np.expm1(0.9)
    try:
        fitted = model(C=0.999 * largest, classes=list(range(10))).fit(*three_classes)
    except ValueError as error:
        assert "C" in str(error)
    else:
        assert fitted.privacy_.event.epsilon(1e-6) <= 1 + 1e-9


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_the_default_c_works(data, three_classes, neighboring, method, epsilon):
    options = {"epsilon": epsilon, "method": method, "neighboring": neighboring}
    for scale in (None, "auto"):
        for rows, classes in ((data, [0, 1]), (three_classes, [0, 1, 2])):
            fitted = model(scale=scale, classes=classes, **options).fit(*rows)
            assert np.isfinite(fitted.coef_).all()
            assert fitted.privacy_.event.epsilon(1e-6) <= epsilon * (1 + 1e-5)


def test_pure_objective_names_what_works(data):
    with pytest.raises(
        ValueError, match=r"delta > 0, method='output' or .* Got delta=0\."
    ):
        model(delta=0.0).fit(*data)
    for method in ("output", "gradient"):
        fitted = model(delta=0.0, method=method).fit(*data)
        assert fitted.privacy_.event.epsilon(0) == pytest.approx(1.0)


@pytest.mark.parametrize("method", METHODS)
def test_only_documented_attributes(data, method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = model(method=method).fit(*data)
    known = {"classes_", "coef_", "intercept_", "n_features_in_", "privacy_"}
    known |= {"coef_std_"} if method == "output" else set()
    assert set(vars(fitted)) - set(fitted.get_params()) == known


def test_classes_do_not_share_noise():
    # All rows are zero: what differs from class to class is noise.
    X, y = np.zeros((30, 4)), np.arange(30) % 3
    for method in METHODS:
        fitted = model(
            method=method, classes=[0, 1, 2], scale=None, random_state=0
        ).fit(X, y)
        coef = fitted.coef_
        assert len(set(np.abs(coef).ravel())) == 12
        for i, j in ((0, 1), (0, 2), (1, 2)):
            ratio = coef[i] / coef[j]
            assert np.ptp(ratio) > 1e-3 * np.abs(ratio).max()
