"""As epsilon grows, the private model becomes the plain one."""

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from skdp.linear_model import DPHuberRegressor, DPLinearSVC, DPLogisticRegression

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]
PERTURBED = ["objective", "output"]


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        400, 6, n_informative=4, n_redundant=0, class_sep=0.6, random_state=3
    )
    return X, y


@pytest.fixture(scope="module")
def three_classes():
    X, y = make_classification(
        300, 4, n_informative=4, n_redundant=0, n_classes=3, random_state=4
    )
    return X, y


def clipped(X, norm, constant):
    """The rows that the fit sees: clipped, with the constant column."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    rows = X * np.minimum(1, norm / np.maximum(lengths, 1e-300))
    if constant is None:
        return rows
    return np.column_stack([rows, np.full(len(rows), constant)])


def gap(delta):
    # Gaussian noise falls with the root of epsilon only: its standard deviation here
    # is 1.5e-4 at most, and a gap of 2e-3 takes 13 of them (probability below 1e-30).
    return 2e-3 if delta else 1e-3


def plain(X, y, norm, constant, C):
    model = LogisticRegression(
        C=C, fit_intercept=False, tol=1e-12, solver="lbfgs", max_iter=10_000
    )
    coef = model.fit(clipped(X, norm, constant), y).coef_
    if constant is None:
        return coef, np.zeros(len(coef))
    return coef[:, :-1], constant * coef[:, -1]


def assert_close(model, coef, intercept, rtol=1e-3):
    size = np.abs(coef).max()
    np.testing.assert_allclose(model.coef_, coef, rtol=rtol, atol=rtol * size)
    np.testing.assert_allclose(model.intercept_, intercept, rtol=rtol, atol=rtol * size)


# --- Logistic regression against scikit-learn


@pytest.mark.parametrize("method", PERTURBED)
@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    "C, norm, constant", [(1.0, 1.0, 1.0), (0.01, 3.0, 0.5), (100.0, 0.2, None)]
)
def test_logistic_regression(data, method, neighboring, container, C, norm, constant):
    X, y = data
    model = DPLogisticRegression(
        1e8,
        0.0,
        method=method,
        C=C,
        data_norm=norm,
        fit_intercept=constant is not None,
        intercept_scaling=constant or 1.0,
        scale=None,
        classes=[0, 1],
        neighboring=neighboring,
        n_samples_hint=400,
    ).fit(container(X), y)
    assert_close(model, *plain(X, y, norm, constant, C))
    assert model.coef_.shape == (1, 6) and model.intercept_.shape == (1,)
    assert model.coef_.dtype == np.float64


@pytest.mark.parametrize("method", PERTURBED)
@pytest.mark.parametrize("container", CONTAINERS)
def test_float32(data, method, container):
    X, y = data
    X = X.astype(np.float32)
    model = DPLogisticRegression(
        1e8, 0.0, method=method, C=1.0, scale=None, classes=[0, 1]
    ).fit(container(X), y)
    assert_close(model, *plain(X.astype(float), y, 1.0, 1.0, 1.0))


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("method, delta", [("output", 0.0), ("objective", 1e-6)])
def test_softmax(three_classes, method, delta, container):
    X, y = three_classes
    model = DPLogisticRegression(
        1e8,
        delta,
        method=method,
        C=1.0,
        scale=None,
        classes=[0, 1, 2],
        neighboring="add_remove",
        n_samples_hint=300,
    ).fit(container(X), y)
    assert_close(model, *plain(X, y, 1.0, 1.0, 1.0), rtol=gap(delta))


def test_the_limit_is_approached(data):
    # The error falls with epsilon: neither a bias, nor noise that stays.
    X, y = data
    coef, _ = plain(X, y, 1.0, 1.0, 1.0)
    for method in PERTURBED:
        errors = [
            np.linalg.norm(
                DPLogisticRegression(
                    epsilon, 0.0, method=method, C=1.0, scale=None, classes=[0, 1]
                )
                .fit(X, y)
                .coef_
                - coef
            )
            for epsilon in (1e3, 1e6)
        ]
        # Both ratios are 1000 up to the luck of seven Laplace numbers.
        assert errors[1] < errors[0] / 10


# --- Gradient steps, by the value of the objective


def logistic_value(w, Z, signs, C):
    return np.logaddexp(0, -signs * (Z @ w)).sum() + w @ w / (2 * C)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("epsilon", [1e6, 1e8])
@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
def test_gradient_steps_reach_the_minimum(data, container, epsilon, neighboring):
    X, y = data
    model = DPLogisticRegression(
        epsilon,
        1e-6,
        method="gradient",
        C=1.0,
        scale=None,
        classes=[0, 1],
        neighboring=neighboring,
    ).fit(container(X), y)
    Z, signs = clipped(X, 1.0, 1.0), 2 * y - 1
    best = np.append(*(part.ravel() for part in plain(X, y, 1.0, 1.0, 1.0)))
    w = np.append(model.coef_, model.intercept_)
    lowest = logistic_value(best, Z, signs, 1.0)
    assert logistic_value(w, Z, signs, 1.0) <= 1.01 * lowest
    assert (
        logistic_value(np.zeros(7), Z, signs, 1.0) > 1.05 * lowest
    )  # it says something


@pytest.mark.parametrize("batches", ["poisson", "disjoint"])
def test_batches_learn(data, batches):
    X, y = data
    model = DPLogisticRegression(
        5.0,
        1e-6,
        method="gradient",
        batches=batches,
        steps=40 if batches == "poisson" else 5,
        sampling_rate=0.5,
        scale=None,
        classes=[0, 1],
    ).fit(X, y)
    best = LogisticRegression().fit(X, y).score(X, y)
    assert model.score(X, y) > best - 0.15 and best > 0.7


@pytest.mark.parametrize("method", ["objective", "output", "gradient"])
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearSVC])
def test_private_scaling_is_as_accurate(data, method, kind):
    X, y = data
    moved = X * [1, 10, 0.1, 1, 3, 1] + [0, 20, 1, -1, 5, 0]
    best = LogisticRegression().fit(X, y).score(X, y)
    model = kind(
        1e6, 1e-6, method=method, scale="private", classes=[0, 1], data_norm=5.0
    )
    assert model.fit(moved, y).score(moved, y) > best - 0.04


# --- The other losses against scipy


def minimum(value, width):
    found = optimize.minimize(
        value, np.zeros(width), method="BFGS", options={"gtol": 1e-9}
    )
    return found.x


def smoothed_hinge(gap, width):
    middle = (gap + width) ** 2 / (4 * width)
    return np.where(gap > width, gap, np.where(gap < -width, 0.0, middle))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("method, delta", [("output", 0.0), ("objective", 1e-6)])
def test_linear_svc(data, method, delta, container):
    X, y = data[0][:, :3], data[1]
    Z, signs = clipped(X, 2.0, 0.7), 2 * y - 1
    w = minimum(lambda w: smoothed_hinge(1 - signs * (Z @ w), 0.5).sum() + w @ w / 2, 4)
    model = DPLinearSVC(
        1e8,
        delta,
        method=method,
        C=1.0,
        scale=None,
        classes=[0, 1],
        data_norm=2.0,
        intercept_scaling=0.7,
        neighboring="add_remove",
    ).fit(container(X), y)
    assert_close(model, w[None, :3], [0.7 * w[3]], rtol=gap(delta))


def test_linear_svc_of_three_classes(three_classes):
    X, y = three_classes
    Z = clipped(X, 1.0, 1.0)
    model = DPLinearSVC(
        1e8, 0.0, method="output", C=1.0, scale=None, classes=[0, 1, 2]
    ).fit(X, y)
    for code in range(3):
        signs = np.where(y == code, 1, -1)
        w = minimum(
            lambda w, signs=signs: (
                smoothed_hinge(1 - signs * (Z @ w), 0.5).sum() + w @ w / 2
            ),
            5,
        )
        found = np.append(model.coef_[code], model.intercept_[code])
        np.testing.assert_allclose(found, w, rtol=1e-3, atol=1e-3)


def huber(error, edge):
    size = np.abs(error)
    return np.where(size <= edge, size**2 / 2, edge * (size - edge / 2))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("method, delta", [("output", 0.0), ("objective", 1e-6)])
def test_huber(method, delta, container, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) / 2
    y = 4 + X @ [1.0, -2.0, 0.5] + rng.standard_t(2, size=300) / 3
    low, high = 0.0, 10.0
    middle, half = (5.0, 5.0) if fit_intercept else (0.0, 10.0)
    Z = clipped(X, 1.0, 1.0 if fit_intercept else None)
    target = (np.clip(y, low, high) - middle) / half
    w = half * minimum(
        lambda w: huber(Z @ w - target, 0.2).sum() + w @ w / 2, Z.shape[1]
    )
    model = DPHuberRegressor(
        1e8,
        delta,
        method=method,
        C=1.0,
        scale=None,
        bounds_y=(low, high),
        fit_intercept=fit_intercept,
        neighboring="add_remove",
    ).fit(container(X), y)
    rtol = gap(delta)
    np.testing.assert_allclose(model.coef_, w[:3], rtol=rtol, atol=rtol)
    intercept = middle + w[3] if fit_intercept else 0.0
    assert model.intercept_ == pytest.approx(intercept, rel=rtol, abs=rtol)


def test_huber_with_private_scaling():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 4)) * [1, 5, 0.2, 1] + [0, 10, 1, 3]
    y = X @ [1.0, -0.3, 4.0, 0.5] + rng.normal(size=2000) / 5
    for method in ("objective", "output", "gradient"):
        model = DPHuberRegressor(
            1e6, method=method, bounds_y=(-10, 10), scale="private", data_norm=5.0
        )
        assert model.fit(X, y).score(X, y) > 0.85
