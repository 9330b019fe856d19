"""The sums of DPRidge: their values, what one row adds to them, and the solve."""

import math

import numpy as np
import pytest
from scipy import optimize, sparse

from skdp.erm.perturbation import Noise
from skdp.linear_model import _least_squares as ls
from skdp.linear_model import _ridge_solve as solve
from skdp.linear_model import _unit_rows as unit_rows
from skdp.noise import RandomBits

RELATIONS = ("replace", "add_remove")
WIDE = 40  # features: L1 bounds are near their limits for many


def weighted_map(d, constant=0.25, center=0.0):
    return unit_rows.UnitMap(np.full(d, center), np.ones(d), constant, weighted=True)


def plain_map(d, constant=None):
    return unit_rows.UnitMap(np.zeros(d), np.ones(d), constant, weighted=False)


def reference(rows_map, X, y):
    """Mapped rows and targets, from the definition."""
    V = (X - rows_map.center) * rows_map.scale
    one = np.full((len(X), 1), rows_map.constant or 0.0)
    if rows_map.weighted:
        V = np.hstack([V, one])
        q = 1 / np.maximum(np.linalg.norm(V, axis=1), rows_map.floor)
        V, t = V * q[:, None], y * q[:, None]
    else:
        norms = np.linalg.norm(V, axis=1, keepdims=True)
        V, t = np.hstack([V / np.maximum(norms, 1), one]), y
    t = t / np.maximum(np.linalg.norm(t, axis=1, keepdims=True), 1)
    return (V if rows_map.constant is not None else V[:, :-1]), t


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6)) * (rng.random((700, 6)) < 0.5)
    return X, rng.uniform(-1, 1, size=(700, 2))


# --- Values


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("constant", [None, 0.25])
@pytest.mark.parametrize("weighted", [True, False])
def test_sums_are_those_of_the_definition(data, make, constant, weighted):
    X, y = data
    center = np.full(6, 0.3 if weighted and constant else 0.0)
    rows_map = unit_rows.UnitMap(center, np.linspace(0.2, 2, 6), constant, weighted)
    P, t = reference(rows_map, X, y)
    rows = rows_map.rows(make(X), 1.0)
    gram, cross, used = ls.gram_sums(rows, y)
    np.testing.assert_allclose(gram, P.T @ P, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(cross, P.T @ t, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(used, t, rtol=1e-7)
    w = np.random.default_rng(1).normal(size=(P.shape[1], 2))
    width = np.array([0.5, 0.9])
    R = (t - P @ w) / width
    R /= np.maximum(np.linalg.norm(R, axis=1, keepdims=True), 1)
    found = ls.residual_sums(rows, used, w, width)
    np.testing.assert_allclose(found, P.T @ R, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, np.float32])
def test_moment_sums_without_noise_are_read_as_moments(data, order, counted, make):
    X, y = data
    X = 2.0 + 1e-3 * X  # nearly equal norms: weighted moments are plain ones
    sums, used = ls.moment_sums(make(X), y, 2.0, order, counted)
    assert used == len(y)
    n_rows = None if counted else float(len(X))
    found = ls.read_ridge_moments(sums, 1e-9, 6, order, n_rows, True)
    np.testing.assert_allclose(found.mean, X.mean(axis=0) / 2, rtol=1e-4)
    np.testing.assert_allclose(found.y_mean, y.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.y_variance, y.var(axis=0), rtol=1e-6)
    assert found.count == pytest.approx(len(X)) and found.usable


@pytest.mark.parametrize("order", [1, 2])
def test_unpack_undoes_pack(order):
    rng = np.random.default_rng(0)
    gram = rng.normal(size=(4, 4))
    gram += gram.T
    cross = rng.normal(size=(4, 3))
    vector = ls.pack(gram, cross, 0.7, order)
    if order == 2:
        size = np.sum(gram**2) + np.sum((0.7 * cross) ** 2)
        assert vector @ vector == pytest.approx(size)
    found = ls.unpack(vector, 4, 0.7, order)
    np.testing.assert_allclose(found[0], gram)
    np.testing.assert_allclose(found[1], cross)


def test_tame_copies_only_what_is_wild():
    X = sparse.csr_array(np.array([[1.0, 0.0], [3.0, -4.0]]))
    assert unit_rows.tame(X, 1.0) is X
    wild = sparse.csr_array(np.array([[1e300, 0.0], [3.0, -1e300]]))
    found = unit_rows.tame(wild, 2.0)
    assert abs(found).max() == 2e20 and abs(wild).max() == 1e300
    assert unit_rows.tame(sparse.csr_array((2, 0)), 1.0).shape == (2, 0)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_huge_row_changes_no_other_one(order, weighted):
    """Not the rows that overflow with it, nor those that only nearly do."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.uniform(-1, 1, (50, 1))
    X[7] = [1e60, -3e59, 1.0]  # large, but no sum overflows
    huge = X.copy()
    huge[3] = [1e300, -1e308, 1.0]
    without = np.delete(np.arange(50), 3)
    sums = [ls.moment_sums(Z, y, 1.0, order, True)[0] for Z in (X, huge)]
    alone = [ls.moment_sums(Z[3:4], y[3:4], 1.0, order, True)[0] for Z in (X, huge)]
    np.testing.assert_allclose(sums[0] - alone[0], sums[1] - alone[1], atol=1e-12)
    rows_map = unit_rows.UnitMap(np.ones(3), np.ones(3), 0.5, weighted)
    w = rng.normal(size=(4, 1))
    found = []
    for Z in (X, huge):
        rows = rows_map.rows(Z, 1.0)
        (part,) = rows.parts()
        ls.gram_sums(rows, y)
        found.append((rows.factors[without], rows.scores(part, w)[without]))
        assert np.all(np.isfinite(rows.scores(part, w)))
        assert np.all(np.isfinite(rows.gather(part, y)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_the_place_of_a_row_does_not_matter(order):
    """Rows near every limit, moved by one place: sums change by the missing row alone.

    Sizes were rounded otherwise at the end of a block, and a row there was tamed or
    not; the blocks of 10 columns have 13107 rows.
    """
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(19, 21, (30_000, 1))
    X = size * rng.normal(size=(30_000, 10))
    X[::7] *= 1e105  # squares near 1e250
    X[0] = 0.0
    y = np.zeros((30_000, 1))
    rows_map = unit_rows.UnitMap(np.zeros(10), np.ones(10), None, False)
    moments = [ls.moment_sums(Z, y[: len(Z)], 1.0, order, True)[0] for Z in (X, X[1:])]
    assert np.linalg.norm(moments[0] - moments[1], order) <= 1 + 1e-6
    grams = [ls.gram_sums(rows_map.rows(Z, 1.0), y[: len(Z)])[0] for Z in (X, X[1:])]
    assert np.linalg.norm(grams[0] - grams[1]) < 1e-6


def test_thinned_moments_use_a_part_of_every_block():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40_000, 2)), rng.uniform(-1, 1, (40_000, 1))
    sums, used = ls.moment_sums(X, y, 1.0, 2, False, 4)
    index = np.concatenate(
        [
            np.arange(a, a + -(-min(16384, 40_000 - a) // 4))
            for a in range(0, 40_000, 16384)
        ]
    )
    expected, count = ls.moment_sums(X[index], y[index], 1.0, 2, False)
    assert used == count == len(index)
    np.testing.assert_allclose(sums, expected)


# --- Sensitivity: random search on the sums themselves


def contribution(rows_map, x, t, order):
    """What one row adds to the joint release, by the functions that fit uses."""
    gram, cross, _ = ls.gram_sums(rows_map.rows(x[None], 1.0), t[None])
    _, ratio = ls.joint_sensitivity(len(gram), t.size, order, "replace")
    return ls.pack(gram, cross, ratio, order)


def signs(rng, size):
    return rng.choice([-1.0, 1.0], size=size)


def random_row(rng, d, k):
    kind = rng.integers(4)
    x = rng.normal(size=d) if kind < 2 else signs(rng, d)
    x = x * 10.0 ** rng.uniform(-2, 2) / math.sqrt(d) if kind % 2 else x
    t = rng.normal(size=k) if kind == 0 else signs(rng, k)
    return x, t * (1.0 if kind else 0.3)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("targets", [1, 3])
def test_no_pair_of_rows_exceeds_the_joint_sensitivity(order, weighted, targets):
    rng = np.random.default_rng(order + targets)
    for d, needed in ((2, 0.0), (WIDE, 0.6)):
        rows_map = weighted_map(d, None) if weighted else plain_map(d)
        found = {"replace": 0.0, "add_remove": 0.0}
        rows = [random_row(rng, d, targets) for _ in range(60)]
        half = np.ones(d)
        half[: d // 2] = -1  # orthogonal to the row of ones
        third = np.ones(d)
        third[: d // 4] = -1  # at an inner product of one half
        ones = np.ones(targets)
        rows += [(np.ones(d), ones), (half, -ones), (third, -ones)]
        parts = [contribution(rows_map, x, t, order) for x, t in rows]
        for i, part in enumerate(parts):
            found["add_remove"] = max(
                found["add_remove"], np.linalg.norm(part, ord=order)
            )
            for other in parts[:i]:
                change = np.linalg.norm(part - other, ord=order)
                found["replace"] = max(found["replace"], change)
        for relation in RELATIONS:
            bound, _ = ls.joint_sensitivity(d, targets, order, relation)
            assert needed * bound <= found[relation] <= bound * (1 + 1e-9)


def test_the_gaussian_joint_sensitivities_are_reached():
    """Unit rows at an inner product of one half, opposite targets: 3/sqrt(2)."""
    rows_map, one = plain_map(2), np.ones(1)
    turned = np.array([0.5, math.sqrt(0.75)])
    first = contribution(rows_map, np.array([1.0, 0.0]), one, 2)
    change = first - contribution(rows_map, turned, -one, 2)
    bound, _ = ls.joint_sensitivity(2, 1, 2, "replace")
    assert np.linalg.norm(change) == pytest.approx(bound, rel=1e-6)
    bound, _ = ls.joint_sensitivity(2, 1, 2, "add_remove")
    assert np.linalg.norm(first) == pytest.approx(bound, rel=1e-6)


def test_the_bound_of_the_joint_release_is_a_maximum_for_every_ratio():
    """The proof's function of norms and inner product, on a fine grid."""
    a, b, g = np.meshgrid(*[np.linspace(0, 1, 41)] * 3)
    g = g * np.sqrt(a * b)
    for c2 in (0.1, 0.5, 1.0, 1.7, 2.0):
        size = a**2 + b**2 - 2 * g**2 + c2 * (a + b + 2 * g)
        assert np.max(size) <= (2 + c2) ** 2 / 2 * (1 + 1e-12)
        assert np.max(size) >= 0.99 * (2 + c2) ** 2 / 2


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("d, targets", [(1, 1), (2, 1), (3, 2), (6, 1)])
def test_maximisation_finds_no_worse_pair(order, d, targets):
    """A numeric search over all pairs of rows of norm at most one."""
    rng = np.random.default_rng(d)
    bound, ratio = ls.joint_sensitivity(d, targets, order, "replace")

    def ball(v):
        return v / max(1.0, np.linalg.norm(v))

    def change(z):
        x, z = ball(z[:d]), z[d:]
        u, z = ball(z[:d]), z[d:]
        t, s = ball(z[:targets]), ball(z[targets:])
        gram = np.outer(x, x) - np.outer(u, u)
        cross = np.outer(x, t) - np.outer(u, s)
        return -np.linalg.norm(ls.pack(gram, cross, ratio, order), ord=order)

    best = 0.0
    for _ in range(12):
        start = 2 * rng.normal(size=2 * (d + targets))
        best = max(best, -optimize.minimize(change, start, method="Powell").fun)
    reached = 1.0 if order == 2 and d > 1 else 0.6
    assert (reached - 1e-3) * bound <= best <= bound * (1 + 1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("counted", [True, False])
def test_no_row_adds_more_than_one_to_the_moments(order, counted):
    rng = np.random.default_rng(0)
    rows = [random_row(rng, WIDE, 2) for _ in range(200)]
    rows += [(np.full(WIDE, v), np.full(2, s)) for v in (0.2, -0.2) for s in (1, -1)]
    parts = [
        ls.moment_sums(x[None], np.clip(t, -1, 1)[None], 1.0, order, counted)[0]
        for x, t in rows
    ]
    sizes = [np.linalg.norm(part, ord=order) for part in parts]
    assert 0.9 <= max(sizes) <= 1
    changes = [np.linalg.norm(p - q, ord=order) for p in parts for q in parts]
    assert 1.2 <= max(changes) <= 2


@pytest.mark.parametrize("order", [1, 2])
def test_no_row_adds_more_than_its_bound_to_the_residuals(order):
    rng = np.random.default_rng(0)
    rows_map = weighted_map(WIDE)
    w = rng.normal(size=(WIDE + 1, 2))
    bound = 1.0 if order == 2 else math.sqrt(w.size)
    found = []
    for _ in range(200):
        x, t = random_row(rng, WIDE, 2)
        rows = rows_map.rows(x[None], 1.0)
        _, _, used = ls.gram_sums(rows, t[None])
        sums = ls.residual_sums(rows, used, w, np.array([0.1, 0.2]))
        found.append(np.linalg.norm(sums.ravel(), ord=order))
    assert 0.6 * bound <= max(found) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_float_sums_stay_within_their_error_bound(make):
    """Against exact sums, with cancelling terms that are bad for floats."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 2)) + 1.0
    y = signs(rng, (40_000, 1))
    rows_map = weighted_map(2, center=5.0)
    rows = rows_map.rows(make(X), 1.0)
    gram, cross, used = ls.gram_sums(rows, y)
    x = (X[:, 0] - 5.0) * rows.factors
    error = ls.sum_error(len(X), 3) * rows.gram_magnitude
    assert abs(gram[0, 0] - math.fsum(x * x)) <= error
    assert abs(cross[0, 0] - math.fsum(x * used[:, 0])) <= error
    assert error < 1e-3


# --- Noise


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_releases_have_the_noise_that_the_event_states(kind, relation):
    """Sensitivity times the noise multiplier of the event, and not below."""
    rows = 2 if relation == "replace" else 1
    noise = Noise(kind, 0.5)
    plan = ls.RidgePlan((noise,) * 3, noise.event(relation), 3.0, 1, relation)
    mapped = plain_map(1).rows(np.ones((3, 1)), 1.0)
    y = np.ones((3, 1))
    order = plan.order
    bits = RandomBits(0)
    _, _, stds, used = ls.release_products(plan, noise, mapped, y, bits)
    sensitivity, ratio = ls.joint_sensitivity(1, 1, order, relation)
    multiplier = 1 / (rows * 0.5)
    assert noise.event(relation) == type(noise.event(relation))(multiplier, relation)
    scale = stds[1] * ratio / (1 if order == 2 else math.sqrt(2))
    assert scale >= sensitivity * multiplier
    assert scale == pytest.approx(sensitivity * multiplier, rel=1e-6)
    w, clip = np.zeros((1, 1)), np.ones(1)
    _, std = ls.release_residuals(plan, mapped, used, w, clip, bits)
    scale = std / (1 if order == 2 else math.sqrt(2))
    assert scale >= rows * multiplier
    assert scale == pytest.approx(rows * multiplier, rel=1e-6)


# --- After the noise


def test_posterior_mean_approaches_least_squares_without_noise():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 4))
    A, w = A.T @ A, np.array([1.0, -0.5, 0.2, 0.0])
    found = solve.posterior_mean(*np.linalg.eigh(A), A @ w, 0.0, 1e-9, 1e-9, 100.0)
    np.testing.assert_allclose(found, w, atol=1e-6)


def test_posterior_mean_of_noise_is_small():
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(np.eye(20))
    found = solve.posterior_mean(
        values, vectors, rng.normal(size=20), 0, 50.0, 0.1, 1.0
    )
    assert np.linalg.norm(found) < 0.1


def test_shrink_keeps_a_matrix_without_noise_and_drops_mere_noise():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 5))
    A += A.T
    kept, share = solve.shrink(A, 0.0, np.zeros(5))
    np.testing.assert_allclose(kept, A)
    assert share == 1
    dropped, share = solve.shrink(A, 100.0, np.ones(5))
    np.testing.assert_allclose(dropped, np.eye(5))
    assert share == 0


def test_line_search_only_shortens():
    w, A = np.array([1.0, 1.0]), np.eye(2)
    np.testing.assert_allclose(solve.line_search(w, A, 5 * w, 0.0), w)
    np.testing.assert_allclose(solve.line_search(w, A, 0.5 * w, 0.0), w / 2)
    np.testing.assert_allclose(solve.line_search(w, A, -w, 0.0), 0 * w)
    np.testing.assert_allclose(solve.line_search(0 * w, A, w, 0.0), 0 * w)
