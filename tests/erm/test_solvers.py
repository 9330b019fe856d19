"""The solver: its minimum against others', its certificate against exact gradients."""

import math
import warnings

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.linear_model import LogisticRegression

from skdp.erm import Huber, Logistic, SmoothedHinge, Softmax, Squared
from skdp.erm.perturbation import _size_bound
from skdp.erm.rows import DenseRows
from skdp.erm.solvers import NotConvergedError, Problem, gradient_error, minimize
from skdp.erm.standardize import RowMap

LOSSES = {
    "logistic": Logistic(),
    "hinge": SmoothedHinge(0.3),
    "huber": Huber(0.4),
    "squared": Squared(),
    "softmax": Softmax(4),
}
BOUNDED = {name: loss for name, loss in LOSSES.items() if name != "squared"}
BOUNDED["narrow hinge"] = SmoothedHinge(1e-3)


def draw_targets(loss, n, rng):
    if loss.outputs > 1:
        return rng.integers(loss.outputs, size=n)
    if isinstance(loss, Huber | Squared):
        return rng.uniform(-1, 1, n)
    return rng.choice([-1.0, 1.0], n)


def draw_rows(n, width, rng, kind="dense", density=0.3):
    """Return rows of norm at most one, and their matrix."""
    X = rng.normal(size=(n, width)) * (rng.uniform(size=(n, width)) < density)
    center, scale = 0.2 * rng.normal(size=width), rng.uniform(0.5, 2, width)
    rows_map = RowMap(center, scale, float(math.sqrt(width)), 0.9, 0.4)
    rows = rows_map.rows(sparse.csr_matrix(X) if kind == "sparse" else X)
    return rows, rows_map.rows(X).Z


def draw_problem(loss, n, width, seed, kind="dense", ridge=1.0, linear=1.0):
    rng = np.random.default_rng(seed)
    rows, Z = draw_rows(n, width - 1, rng, kind)
    shape = (width,) if loss.outputs == 1 else (width, loss.outputs)
    ridges = ridge * rng.uniform(1, 3, width)
    targets = draw_targets(loss, n, rng)
    term = linear * rng.normal(size=shape)
    return Problem(loss, rows, targets, ridges, term), Z


# --- An independent gradient, in extended precision


def derivative(loss, scores, targets):
    """Return the derivative in the scores; in whatever precision they have."""
    one = np.longdouble(1)
    if isinstance(loss, Softmax):
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        odds[np.arange(targets.size), targets] -= one
        return odds
    targets = targets.astype(np.longdouble)
    if isinstance(loss, Logistic):
        margin = scores * targets
        with np.errstate(over="ignore"):
            return -targets / (one + np.exp(margin))
    error = scores - targets
    if isinstance(loss, Huber):
        return np.clip(error, -loss.transition, loss.transition)
    if isinstance(loss, Squared):
        return error
    inside = (one - scores * targets + loss.width) / (2 * np.longdouble(loss.width))
    return -targets * np.clip(inside, 0, 1)


def exact_gradient(problem, Z, w):
    """Return the gradient, its errors a thousand times smaller than float64's."""
    Z, w = Z.astype(np.longdouble), w.astype(np.longdouble)
    ridge = problem.ridge.astype(np.longdouble)
    total = Z.T @ derivative(problem.loss, Z @ w, problem.targets)
    return total + (ridge * w.T).T + problem.linear.astype(np.longdouble)


def reference(problem, Z):
    """Return the minimiser by another algorithm, polished by scipy."""
    shape = problem.linear.shape

    def fun(v):
        w = v.reshape(shape)
        return np.asarray(exact_gradient(problem, Z, w), dtype=float).ravel()

    start = np.zeros(problem.linear.size)
    return optimize.root(fun, start, method="hybr", tol=1e-13).x.reshape(shape)


# --- The minimum


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", LOSSES)
def test_minimum_is_the_zero_of_the_exact_gradient(name, kind):
    problem, Z = draw_problem(LOSSES[name], 300, 6, seed=1, kind=kind)
    w = minimize(problem, 1e-9)
    assert np.linalg.norm(problem.gradient(w).vector) <= 1e-9
    assert np.linalg.norm(exact_gradient(problem, Z, w)) <= 2e-9
    np.testing.assert_allclose(w, reference(problem, Z), atol=1e-8)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", LOSSES)
def test_minimum_of_many_columns(name, kind):
    """More than 400 columns: L-BFGS, and conjugate gradients to the end."""
    problem, Z = draw_problem(LOSSES[name], 200, 430, seed=2, kind=kind, ridge=0.1)
    w = minimize(problem, 1e-8)
    assert np.linalg.norm(problem.gradient(w).vector) <= 1e-8
    exact = np.linalg.norm(exact_gradient(problem, Z, w))
    # Strong convexity makes of it a distance to the true minimiser.
    assert exact / problem.ridge.min() <= 2e-7


@pytest.mark.parametrize("name", LOSSES)
def test_value_is_the_objective(name):
    problem, Z = draw_problem(LOSSES[name], 80, 5, seed=3)
    rng = np.random.default_rng(3)
    w = rng.normal(size=problem.linear.shape)
    expected = problem.loss.evaluate(Z @ w, problem.targets).value
    expected += float(np.sum(problem.ridge * (w**2).T) / 2 + np.sum(problem.linear * w))
    assert problem.gradient(w).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_hessian_and_its_product(name):
    problem, _ = draw_problem(LOSSES[name], 400, 5, seed=4)
    rng = np.random.default_rng(4)
    w, v = rng.normal(size=(2, *problem.linear.shape))
    here = problem.gradient(w)
    step = 1e-6
    up = problem.gradient(w + step * v).vector
    down = problem.gradient(w - step * v).vector
    product = problem.hessian_times(here.second, v)
    # The seed has no row with a kink between the two points; rounding is 1e-8.
    np.testing.assert_allclose(product, (up - down) / (2 * step), atol=1e-6)
    if problem.loss.outputs == 1:
        matrix = problem.hessian(here.second)
        np.testing.assert_allclose(matrix @ v, product, rtol=1e-10, atol=1e-10)


def test_minimum_is_sklearns_logistic_regression():
    problem, Z = draw_problem(Logistic(), 500, 6, seed=5, linear=0.0)
    problem = Problem(
        Logistic(), problem.rows, problem.targets, np.full(6, 0.5), 0 * Z[0]
    )
    model = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-12, max_iter=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.fit(Z, problem.targets).coef_[0]
    np.testing.assert_allclose(minimize(problem, 1e-10), expected, atol=1e-6)


def test_minimum_is_sklearns_softmax_regression():
    problem, Z = draw_problem(Softmax(4), 500, 6, seed=6, linear=0.0)
    problem = Problem(
        Softmax(4), problem.rows, problem.targets, np.full(6, 0.5), np.zeros((6, 4))
    )
    model = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-12, max_iter=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.fit(Z, problem.targets).coef_
    np.testing.assert_allclose(minimize(problem, 1e-10).T, expected, atol=1e-6)


def test_minimum_of_the_squared_loss_is_ridge_regression():
    problem, Z = draw_problem(Squared(), 500, 6, seed=7)
    matrix = Z.T @ Z + np.diag(problem.ridge)
    expected = np.linalg.solve(matrix, Z.T @ problem.targets - problem.linear)
    np.testing.assert_allclose(minimize(problem, 1e-10), expected, atol=1e-10)


# --- The target is always reached


def plan_target(problem, norm, linear):
    """Return the target that a plan asks for: the rounding error of the gradient."""
    n, width = problem.rows.shape
    ridge = float(problem.ridge.min())
    size = _size_bound(problem.loss, n, ridge, linear)
    error = gradient_error(problem.loss, n, width, norm, problem.rows.magnitude, size)
    return error + 2.0**-40 * linear


def hard_problem(loss, case, seed):
    rng = np.random.default_rng(seed)
    n, width, ridge, linear = 300, 6, 1.0, 1.0
    if case == "tiny ridge":
        ridge = 1e-8
    elif case == "few rows":
        n, width, ridge = 4, 30, 1e-3
    elif case == "huge linear term":
        linear = 1e6
    elif case == "huge linear term, tiny ridge":
        linear, ridge = 1e4, 1e-4
    elif case == "many columns":
        n, width, ridge = 60, 420, 1e-2
    elif case == "uneven ridge":
        ridge = 1e-3
    problem, Z = draw_problem(loss, n, width, seed, ridge=ridge, linear=linear)
    targets, ridges = problem.targets, problem.ridge
    if case == "duplicate rows":
        Z = np.repeat(Z[:6], 50, axis=0)
        targets = np.repeat(targets[:6], 50)
    elif case == "separable":
        ridges = np.full(width, 1e-6)
        if loss.outputs == 1:
            targets = np.where(Z[:, 0] > 0, 1.0, -1.0)
        else:
            targets = np.argmax(Z[:, : loss.outputs], axis=1)
    elif case == "uneven ridge":
        ridges = ridges * 10.0 ** rng.uniform(0, 6, width)
    rows = DenseRows(Z, 1.0)
    return Problem(loss, rows, targets, ridges, problem.linear), Z


HARD = (
    "tiny ridge",
    "duplicate rows",
    "few rows",
    "huge linear term",
    "huge linear term, tiny ridge",
    "many columns",
    "separable",
    "uneven ridge",
)


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("name", BOUNDED)
def test_the_plans_target_is_reached(name, case):
    for seed in range(1 if case == "many columns" else 3):
        problem, Z = hard_problem(BOUNDED[name], case, seed)
        linear = float(np.linalg.norm(problem.linear))
        target = plan_target(problem, 1.0, linear)
        w = minimize(problem, target)
        assert np.linalg.norm(problem.gradient(w).vector) <= target
        # What the guarantee needs: the true gradient there is at most twice that.
        assert np.linalg.norm(exact_gradient(problem, Z, w)) <= 2 * target
        size = _size_bound(problem.loss, Z.shape[0], problem.ridge.min(), linear)
        assert np.linalg.norm(w) <= size


def test_the_plans_target_is_reached_for_a_sharp_hinge_and_a_small_ridge():
    rng, n = np.random.default_rng(2), 371
    Z = rng.normal(size=(n, 3)) * [1, 0.05, 0.003]
    Z /= np.maximum(1, np.linalg.norm(Z, axis=1, keepdims=True))
    y, term = rng.choice([-1.0, 1.0], n), 20 * rng.normal(size=3)
    rows, ridge = DenseRows(Z, 1.0), np.full(3, 2e-4)
    problem = Problem(SmoothedHinge(1e-3), rows, y, ridge, term)
    minimize(problem, plan_target(problem, 1.0, float(np.linalg.norm(term))))


def test_only_an_impossible_target_is_refused():
    problem, _ = draw_problem(Logistic(), 300, 6, seed=8)
    with pytest.raises(NotConvergedError, match="no model was released, but an acc"):
        minimize(problem, 1e-30)


# --- The error bound of the gradient


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", BOUNDED)
def test_the_error_bound_holds(name, kind):
    """Against extended precision, at random points."""
    loss, closest = BOUNDED[name], 0.0
    for seed, (n, width) in enumerate([(20, 4), (3000, 4), (2000, 60), (40, 300)]):
        rng = np.random.default_rng(seed)
        problem, _ = draw_problem(loss, n, width, seed, kind=kind, linear=0.0)
        rows = problem.rows
        if kind == "dense":
            Z = rows.Z
        else:  # the transformed rows, to more digits than float64 has
            X = rows.X.toarray().astype(np.longdouble)
            Z = rows.factor[:, None] * (X * rows.scale - rows.center)
            Z = np.column_stack([Z, np.full(n, np.longdouble(rows.intercept))])
        for size in (1.0, 30.0):
            w = rng.normal(size=problem.linear.shape)
            w *= size / np.linalg.norm(w)
            found = problem.gradient(w).vector
            error = float(np.linalg.norm(found - exact_gradient(problem, Z, w)))
            bound = gradient_error(loss, n, width, 1.0, rows.magnitude, size)
            assert error <= bound
            closest = max(closest, error / bound)
    # Worst cases add up, random errors cancel: within a factor of 10^5 is normal.
    assert closest > 1e-5


def test_the_error_bound_grows_as_its_terms():
    """Twice the rows, the norm or the bend: no term may be missing."""
    base = gradient_error(SmoothedHinge(0.5), 1000, 10, 1.0, 1.0, 100.0)
    assert gradient_error(SmoothedHinge(0.5), 2000, 10, 1.0, 1.0, 100.0) > 2 * base
    sharp = gradient_error(SmoothedHinge(0.005), 1000, 10, 1.0, 1.0, 100.0)
    assert sharp > 20 * base
    # u = 2^-53: at least one rounding of each score, and of each row's term.
    least = 1000 * 2.0**-53 * (1.0 * 10 * 100.0)
    assert least <= base <= 200 * least
