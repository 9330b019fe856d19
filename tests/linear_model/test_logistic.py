"""Private logistic regression: the model, its classes, C, and what it publishes."""

import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp.exceptions import PrivacyWarning
from skdp.linear_model import DPLogisticRegression

METHODS = ("objective", "output", "gradient")
RELATIONS = ("replace", "add_remove")
CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]


@pytest.fixture(scope="module")
def data():
    return make_classification(300, 5, class_sep=2.0, random_state=0)


@pytest.fixture(scope="module")
def three_classes():
    return make_classification(
        300, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=1
    )


def model(**options):
    return DPLogisticRegression(**{"classes": [0, 1], "steps": 10, **options})


# --- What the coefficients mean


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_coefficients_are_the_model(data, method, container, fit_intercept):
    X, y = data
    fitted = model(method=method, fit_intercept=fit_intercept).fit(container(X), y)
    assert fitted.coef_.shape == (1, 5) and fitted.intercept_.shape == (1,)
    by_hand = 10 * X @ fitted.coef_.T + fitted.intercept_  # beyond the clipping norm
    scores = fitted.decision_function(container(10 * X))
    np.testing.assert_allclose(scores, by_hand[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(10 * X), (by_hand[:, 0] > 0) * 1)


@pytest.mark.parametrize("method", METHODS)
def test_the_coefficients_of_three_classes(three_classes, method):
    X, y = three_classes
    fitted = model(method=method, classes=[0, 1, 2]).fit(X, y)
    assert fitted.coef_.shape == (3, 5) and fitted.intercept_.shape == (3,)
    by_hand = X @ fitted.coef_.T + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(X), by_hand, rtol=1e-9)
    np.testing.assert_array_equal(fitted.predict(X), by_hand.argmax(axis=1))


@pytest.mark.parametrize("scale", [None, "private"])
@pytest.mark.parametrize("method", METHODS)
def test_normalised_rows_predict_alike(data, method, scale):
    X, y = data
    fitted = model(method=method, row_norm="normalize", scale=scale, epsilon=5).fit(
        X, y
    )
    scores = fitted.decision_function(X)
    for container in CONTAINERS[1:]:
        other = fitted.decision_function(container(X))
        np.testing.assert_allclose(other, scores, rtol=1e-7, atol=1e-9)
    if scale is None:
        rows = X / np.linalg.norm(X, axis=1, keepdims=True)
        by_hand = rows @ fitted.coef_[0] + fitted.intercept_
        np.testing.assert_allclose(scores, by_hand, rtol=1e-9)
        np.testing.assert_allclose(fitted.decision_function(7 * X), scores, rtol=1e-9)
    assert fitted.score(X, y) > 0.5
    fitted.set_params(row_norm="clip").fit(X, y)  # nothing of the map is left
    by_hand = X @ fitted.coef_[0] + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(X), by_hand, rtol=1e-9)


def test_dense_and_sparse_rows_are_clipped_alike():
    # Large epsilon leaves the clipping, which half of the maximal gradient needs.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = (X[:, 0] + rng.normal(size=2000) > 0) * 1
    for method in ("objective", "gradient"):
        found = [
            model(method=method, epsilon=1e5, steps=100).fit(container(X), y).coef_
            for container in CONTAINERS[:2]
        ]
        size = np.abs(found[0]).max()
        np.testing.assert_allclose(found[0], found[1], atol=0.03 * size)


# --- Probabilities


@pytest.mark.parametrize("labels", [["b", "a"], ["x", "z", "y"]])
@pytest.mark.parametrize("container", CONTAINERS)
def test_probabilities(three_classes, labels, container):
    X, y = three_classes
    y = np.array(labels)[y % len(labels)]
    fitted = model(classes=labels, epsilon=10.0).fit(container(X), y)
    assert fitted.classes_.tolist() == sorted(labels)
    found = fitted.predict_proba(container(X))
    assert found.shape == (300, len(labels)) and (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.log(found), fitted.predict_log_proba(container(X)))
    best = fitted.classes_[found.argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(container(X)), best)
    chance = np.mean(y == best)
    assert chance > 0.5  # the columns are those of the labels


def test_log_probabilities_do_not_overflow(data):
    fitted = model(epsilon=10.0).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fitted.predict_log_proba(1e6 * data[0])
    assert np.isfinite(found).all() and found.min() < -1e3


# --- pandas


def test_feature_names(data):
    X = pd.DataFrame(data[0], columns=list("abcde"))
    fitted = model().fit(X, pd.Series(data[1]))
    assert fitted.feature_names_in_.tolist() == list("abcde")
    assert fitted.n_features_in_ == 5
    by_hand = data[0] @ fitted.coef_[0] + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(X), by_hand, rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X[list("edcba")])


def test_a_pipeline_with_pandas_output(data):
    X = pd.DataFrame(data[0], columns=list("abcde"))
    pipeline = make_pipeline(StandardScaler(), model(epsilon=10.0))
    pipeline.set_output(transform="pandas").fit(X, data[1])
    assert pipeline[-1].feature_names_in_.tolist() == list("abcde")
    assert pipeline.score(X, data[1]) > 0.7
    assert clone(pipeline).fit(X, data[1]).predict(X).shape == (300,)


# --- Classes


def test_without_classes_the_labels_are_read_with_a_warning(data):
    X, y = data
    with pytest.warns(PrivacyWarning, match="'classes'") as caught:
        fitted = model(classes=None).fit(X, np.where(y, "yes", "no"))
    assert caught[0].filename == __file__
    assert fitted.classes_.tolist() == ["no", "yes"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(X, y)


@pytest.mark.parametrize("method", METHODS)
def test_a_class_may_be_missing(data, method):
    X, _ = data
    fitted = model(method=method, classes=["a", "b", "c"]).fit(X, ["b"] * 300)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.predict_proba(X).shape == (300, 3)
    one = model(method=method).fit(X[:1], [1])
    assert np.isfinite(one.coef_).all() and one.predict(X).shape == (300,)


@pytest.mark.parametrize(
    "classes, labels",
    [
        ([0, 1], [0, 98765]),
        (["a", "b"], ["a", "98765"]),
        (["a", "b"], [0, 98765]),
        ([0, 1], ["0", "98765"]),
        ([0, 1], [0.0, 98765.0]),
        ([0, 1], [-98765, 1]),
    ],
)
def test_other_labels_are_refused_without_a_quote(data, classes, labels):
    with pytest.raises(ValueError, match="not in the 'classes'") as caught:
        model(classes=classes).fit(data[0], np.array(labels)[data[1]])
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize(
    "classes",
    [[], [1], [1, 1], 3, "ab", [[0, 1]], [[0], [1, 2]], [0, "a", None], {0, 1}],
)
def test_wrong_classes(data, classes):
    with pytest.raises(ValueError, match=r"'classes' .* list or array .* each once"):
        model(classes=classes).fit(*data)


def test_weights_are_not_accepted(data):
    with pytest.raises(TypeError, match="sample_weight"):
        model().fit(*data, sample_weight=np.ones(300))
    with pytest.raises(TypeError, match="class_weight"):
        DPLogisticRegression(class_weight="balanced")
    with pytest.raises(TypeError, match="max_iter"):
        DPLogisticRegression(max_iter=10)


# --- C


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("scale", [None, "auto"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.03, 1.0, 7.0])
def test_the_largest_c_is_named_and_accepted(data, neighboring, scale, delta, epsilon):
    options = {"neighboring": neighboring, "scale": scale, "data_norm": 1.3}
    fitted = model(epsilon=epsilon, delta=delta, C=1e6, **options)
    with pytest.raises(ValueError, match="'C' parameter must be at most") as caught:
        fitted.fit(*data)
    largest = float(re.search(r"at most ([-+.e\d]+)", str(caught.value))[1])
    fitted.set_params(C=largest).fit(*data)
    assert fitted.privacy_.event.epsilon(delta) <= epsilon * (1 + 1e-9)
    with pytest.raises(ValueError, match="at most"):
        fitted.set_params(C=1.001 * largest).fit(*data)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("scale", [None, "auto"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_pure_theorem_holds_for_every_c(neighboring, scale, epsilon):
    """Theorem A, pure: s rate + log(1 + s(1-s) q) must not exceed its price."""
    rows = 2 if neighboring == "replace" else 1
    largest = 0.95 * epsilon / rows
    norm = 2.0 if scale is None else 1.0
    for C in (None, 0.9 * largest / norm, 0.9999 * largest / norm):
        planner = model(
            epsilon=epsilon, delta=0.0, neighboring=neighboring, scale=scale, C=C
        )
        try:
            plan = planner._plan(100, 3)
        except ValueError:  # a smaller largest C is fine as well
            continue
        q, rate = plan.norm**2 / plan.ridge, plan.planned.method.noise.rate
        s = np.linspace(0, 1, 100_001)
        loss = rows * np.max(s * rate + np.log1p(s * (1 - s) * q))
        others = plan.event.epsilon(0) - plan.event.events[0].epsilon(0)
        assert loss + others <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0, 100.0])
def test_the_default_c_works(data, three_classes, neighboring, method, epsilon):
    options = {"epsilon": epsilon, "method": method, "neighboring": neighboring}
    for scale in (None, "auto"):
        for delta in (0.0, 1e-6):
            fitted = model(scale=scale, delta=delta, **options).fit(*data)
            assert np.isfinite(fitted.coef_).all()
        fitted = model(scale=scale, classes=[0, 1, 2], **options).fit(*three_classes)
        assert np.isfinite(fitted.coef_).all()


def test_what_has_no_theorem_names_what_works(data):
    with pytest.raises(
        ValueError, match=r"delta > 0, method='output' or .* Got delta=0\."
    ):
        model(delta=0.0, classes=[0, 1, 2]).fit(*data)
    with pytest.raises(ValueError, match="'full' or 'disjoint'"):
        model(delta=0.0, method="gradient", batches="poisson").fit(*data)
    with pytest.raises(ValueError, match="delta > 0"):
        model(delta=0.0, calibration="kst", scale=None).fit(*data)
    with pytest.raises(ValueError, match="delta=0"):
        model(calibration="cms", scale=None).fit(*data)
    with pytest.raises(ValueError, match=r"scale=None or 'auto'\. Got scale='private'"):
        model(calibration="kst", scale="private").fit(*data)
    with pytest.raises(ValueError, match="method='objective'"):
        model(calibration="kst", method="output").fit(*data)
    with pytest.raises(ValueError, match=r"'kst' cannot be confirmed .* 3 classes"):
        model(calibration="kst", classes=[0, 1, 2]).fit(*data)


def test_a_round_limit_of_c_is_named_as_it_is(data):
    with pytest.raises(ValueError, match=r"at most 0\.475 for .* Got 0\.4751\."):
        model(C=0.4751).fit(*data)
    fitted = model(C=0.475).fit(*data)
    assert fitted.privacy_.event.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_the_largest_c_of_kst(data, neighboring):
    rows = 2 if neighboring == "replace" else 1
    options = {"calibration": "kst", "neighboring": neighboring, "fit_intercept": False}
    assert model(C=2 / rows, **options).fit(*data).privacy_.event.epsilon(1e-6) <= 1
    with pytest.raises(ValueError, match=f"at most {2 / rows:g} for"):
        model(C=2.001 / rows, **options).fit(*data)


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_the_guarantee_says_what_it_assumes(data, neighboring):
    options = {"neighboring": neighboring, "n_samples_hint": 50_000}
    people = "every person is one row"
    chosen = "the parameters were chosen without the data"
    rows = ("there are at most 100,000 rows",) if neighboring == "add_remove" else ()
    found = model(**options).fit(*data).privacy_.assumptions
    assert found == (people, chosen, *rows)
    with pytest.warns(PrivacyWarning):
        found = model(classes=None, **options).fit(*data).privacy_.assumptions
    labels = "the set of labels, which was read from the data, is public"
    assert found == (people, chosen, labels, *rows)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("calibration, delta", [("kst", 1e-6), ("cms", 0.0)])
def test_lesson_calibrations_are_noisier(data, calibration, delta, neighboring):
    options = {"scale": None, "delta": delta, "neighboring": neighboring, "C": 0.2}
    lesson = model(calibration=calibration, **options)
    exact = model(**options)
    rates = [one._plan(300, 5).planned.method.noise.rate for one in (lesson, exact)]
    assert 0 < rates[0] < rates[1]
    assert lesson.fit(*data).privacy_.event.epsilon(delta) <= 1 + 1e-9


# --- Nothing else is published


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("row_norm", ["clip", "normalize"])
@pytest.mark.parametrize("method", METHODS)
def test_only_documented_attributes(data, method, row_norm, neighboring):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no ConvergenceWarning either
        fitted = model(method=method, row_norm=row_norm, neighboring=neighboring)
        fitted.fit(X, y)
    known = {"classes_", "coef_", "intercept_", "n_features_in_", "privacy_", "margin_"}
    known |= {"coef_std_"} if method == "output" else set()
    known |= {"_map_"} if row_norm == "normalize" else set()
    assert set(vars(fitted)) - set(fitted.get_params()) == known
    text = pickle.dumps(fitted)
    for private in (X, X.astype(np.float32), y, y.astype(np.uint8), 2.0 * y - 1):
        assert private.tobytes() not in text
    assert not any(row.tobytes() in text for row in X)
    assert len(text) < 20_000
    again = pickle.loads(text)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_standard_deviation_of_output_perturbation(data, delta):
    X, y = data
    fits = [
        model(method="output", delta=delta, scale=None, C=0.01).fit(X, y)
        for _ in range(400)
    ]
    claim = fits[0].coef_std_
    assert claim.shape == (1, 5) and (claim > 0).all()
    found = np.sqrt(np.var([fit.coef_[0] for fit in fits], axis=0).mean())
    # 2,000 numbers; the standard error of found/claim is 1.6 % (Gaussian) and 2.5 %
    # (Laplace): 14 % is 5.6 of them, with a probability below 1e-7.
    assert math.isclose(found, claim[0, 0], rel_tol=0.14)
