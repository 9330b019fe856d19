"""Odd data: a clear error that costs nothing and quotes nothing, or a finite model."""

import numpy as np
import pytest
from scipy import sparse

from skdp import BudgetAccountant
from skdp.erm.standardize import look_sums, moments_map, plain_map, read_moments
from skdp.linear_model import (
    DPHuberRegressor,
    DPLinearSVC,
    DPLogisticRegression,
    DPRidge,
)

METHODS = ("objective", "output", "gradient")
KINDS = (DPLogisticRegression, DPLinearSVC, DPHuberRegressor)
SECRET = 98765.4321


@pytest.fixture
def accountant():
    return BudgetAccountant(1e4, 1e-2)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)), np.arange(40) % 2


def make(kind, **options):
    if kind is not DPHuberRegressor:
        options.setdefault("classes", [0, 1])
    return kind(**{"steps": 5, **options})


# --- Errors


BAD_ROWS = {
    "nan": lambda X: np.where(np.arange(3) == 1, np.nan, X),
    "inf": lambda X: np.where(np.arange(3) == 1, np.inf, X),
    "minus inf": lambda X: np.where(np.arange(3) == 1, -np.inf, X),
    "sparse nan": lambda X: sparse.csr_array(np.where(X > 0, np.nan, X)),
    "1-D": lambda X: X[:, 0],
    "3-D": lambda X: X[:, :, None],
    "scalar": lambda X: SECRET,
    "complex": lambda X: X + 1j,
    "text": lambda X: np.full(X.shape, "98765.4321x"),
    "object text": lambda X: np.full(X.shape, "98765.4321x", dtype=object),
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "other length": lambda X: X[:-1],
    "None": lambda X: None,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(accountant, data, kind, case):
    X, y = np.full((40, 3), SECRET), data[1]
    y = y[:0] if case == "no rows" else y
    estimator = make(kind, accountant=accountant)
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator.fit(BAD_ROWS[case](X), y)
    assert "98765" not in str(caught.value)
    assert accountant.spends == [] and not hasattr(estimator, "coef_")


@pytest.mark.parametrize("kind", KINDS)
def test_bad_rows_at_prediction_are_not_quoted(data, kind):
    estimator = make(kind).fit(*data)
    for X in (np.full(3, SECRET), np.full((1, 3), SECRET) + 1j, [["98765.4321x"] * 3]):
        with pytest.raises(ValueError) as caught:
            estimator.predict(X)
        assert "98765" not in str(caught.value)
    with pytest.raises(ValueError, match="features"):
        estimator.predict(data[0][:, :2])


BAD_LABELS = {
    "one class": np.zeros(40, dtype=int),
    "continuous": np.linspace(0, SECRET, 40),
    "nan": np.where(np.arange(40) % 2, np.nan, 1.0),
    "two columns": np.full((40, 2), SECRET),
    "mixed": np.array([SECRET, "98765"] * 20, dtype=object),
    "too short": np.zeros(39, dtype=int),
}


@pytest.mark.filterwarnings("ignore::skdp.exceptions.PrivacyWarning")
@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("case", BAD_LABELS)
@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_bad_labels(accountant, data, kind, case, classes):
    if case == "one class" and classes is not None:
        pytest.skip("data of one of the public classes are fine")
    estimator = make(kind, accountant=accountant, classes=classes)
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator.fit(data[0], BAD_LABELS[case])
    assert "98765" not in str(caught.value)
    assert accountant.spends == [] and not hasattr(estimator, "coef_")


BAD_TARGETS = {
    "text": np.array(["98765.4321x"] * 40),
    "object text": np.array(["98765.4321x"] * 40, dtype=object),
    "mixed": np.array([SECRET, "98765x"] * 20, dtype=object),
    "nan": np.where(np.arange(40) % 2, np.nan, SECRET),
    "complex": np.full(40, SECRET + 1j),
    "too short": np.full(39, SECRET),
}


@pytest.mark.parametrize("kind", [DPHuberRegressor, DPRidge])
@pytest.mark.parametrize("case", BAD_TARGETS)
def test_bad_targets(accountant, data, kind, case):
    estimator = kind(accountant=accountant)
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator.fit(data[0], BAD_TARGETS[case])
    assert "98765" not in str(caught.value)
    assert accountant.spends == [] and not hasattr(estimator, "coef_")


BAD_PARAMETERS = [
    {"epsilon": 0},
    {"epsilon": -1},
    {"epsilon": np.nan},
    {"epsilon": "1"},
    {"delta": 1},
    {"delta": -1e-9},
    {"method": "none"},
    {"neighboring": "other"},
    {"data_norm": 0},
    {"data_norm": np.inf},
    {"intercept_scaling": 0},
    {"C": 0},
    {"C": np.nan},
    {"C": 1e9},
    {"scale": "other"},
    {"row_norm": "other"},
    {"n_samples_hint": 0},
    {"steps": 0, "method": "gradient"},
    {"steps": 1.5, "method": "gradient"},
    {"batches": "other"},
    {"sampling_rate": 0},
    {"sampling_rate": 1.5},
    {"clip": 0, "method": "gradient"},
    {"step_size": -1, "method": "gradient"},
    {"random_state": "seed"},
    {"random_state": -1},
    {"accountant": "budget"},
    {"fit_intercept": "no"},
    {"fit_intercept": 1},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", BAD_PARAMETERS, ids=str)
def test_bad_parameters(accountant, data, kind, options):
    estimator = make(kind, **{"accountant": accountant, **options})
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        estimator.fit(*data)
    assert accountant.spends == [] and not hasattr(estimator, "coef_")


# --- Fine


ODD_ROWS = {
    "one row": lambda X: X[:1],
    "more columns than rows": lambda X: X[:2] @ np.ones((3, 50)),
    "zeros": lambda X: 0 * X,
    "constant": lambda X: 0 * X + 3,
    "huge": lambda X: 1e300 * np.sign(X),
    "one huge": lambda X: np.where(np.arange(40)[:, None] == 3, 1e300, X),
    "denormal": lambda X: 1e-310 * X,
    "tiny": lambda X: 1e-162 * X,
    "int": lambda X: np.round(10 * X).astype(int),
    "uint8": lambda X: np.abs(10 * X).astype(np.uint8),
    "bool": lambda X: X > 0,
    "float16": lambda X: X.astype(np.float16),
    "object numbers": lambda X: X.astype(object),
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("row_norm", ["clip", "normalize"])
@pytest.mark.parametrize("case", ODD_ROWS)
def test_odd_rows(data, case, row_norm, method):
    X = ODD_ROWS[case](data[0])
    y = data[1][: len(X)]
    for kind in KINDS:
        for scale in (None, "private"):
            estimator = make(kind, method=method, row_norm=row_norm, scale=scale)
            estimator.fit(X, y)
            assert np.isfinite(estimator.coef_).all()
            found = estimator.predict(X)
            assert found.shape == y.shape and set(np.isfinite(found)) == {True}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("case", [*ODD_ROWS, "mixed tiny", "mixed scales"])
def test_no_row_is_longer_than_its_bound(data, case, order):
    """What the guarantee rests on, for rows as odd as they come."""
    if case == "mixed tiny":
        X = np.full((1, 10_001), 1.5e-162)  # squares that vanish, but for one
        X[0, 0] = 2.3e-162
    elif case == "mixed scales":
        X = np.diag(10.0 ** np.arange(-300, 301, 50)) + 1e-200
    else:
        X = np.asarray(ODD_ROWS[case](data[0]), dtype=np.float64)
    for container in (np.asarray, sparse.csr_array):
        for normalize in (False, True):
            rows = plain_map(X.shape[1], 1.0, 0.5, normalize).rows(container(X))
            assert longest(rows) <= rows_bound(1.0, 0.5)
            for i in range(min(len(X), 3)):
                sums = look_sums(container(X[i : i + 1]), 1.0, order)
                length = np.linalg.norm(sums.astype(np.longdouble), order)
                assert np.isfinite(sums).all() and length <= 1
            sums = look_sums(X, 1.0)
            sums += np.random.default_rng(0).normal(scale=1e-3, size=sums.size)
            moments = read_moments(sums, 1e-3, 1.0)
            rows = moments_map(moments, 1.0, True, 1.0, normalize).rows(container(X))
            assert longest(rows) <= 1 + 1e-9


def rows_bound(norm, intercept):
    return np.hypot(norm, intercept) * (1 + 1e-9)


def longest(rows):
    """The largest norm, from products with the unit vectors."""
    units = np.eye(rows.shape[1]) if rows.shape[1] < 200 else None
    if units is None:
        if hasattr(rows, "Z"):
            return np.linalg.norm(rows.Z, axis=1).max()
        part = next(iter(rows.parts()))
        return np.linalg.norm(rows.gather(part, np.ones(1)))
    lengths = [
        np.linalg.norm(rows.scores(part, units), axis=1).max() for part in rows.parts()
    ]
    return max(lengths)


def test_a_memory_map_that_cannot_be_written(data, tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, data[0])
    X = np.load(path, mmap_mode="r")
    for method in METHODS:
        estimator = make(DPLogisticRegression, method=method).fit(X, data[1])
        assert np.isfinite(estimator.predict_proba(X)).all()
    np.testing.assert_array_equal(np.load(path), data[0])


def test_the_rows_are_not_changed(data):
    X, y = data[0].copy(), data[1].copy()
    X[3] = 1e300
    for container in (np.array, sparse.csr_array):
        rows = container(X)
        before = rows.copy()
        for method in METHODS:
            make(DPLogisticRegression, method=method, row_norm="normalize").fit(rows, y)
        assert np.abs(rows - before).max() == 0


# --- Sparse formats: all the same fit, seed included where the entries are the same


def duplicated(X):
    """Every entry in two halves."""
    rows, columns = np.nonzero(X)
    values = X[rows, columns] / 2
    twice = (np.r_[values, values], (np.r_[rows, rows], np.r_[columns, columns]))
    return sparse.coo_array(twice, shape=X.shape)


def raw_duplicates(X):
    """A CSR matrix that holds every entry twice, in halves and out of order."""
    width = X.shape[1]
    data = np.concatenate([np.r_[row[::-1], row] / 2 for row in X])
    indices = np.tile(np.r_[np.arange(width)[::-1], np.arange(width)], len(X))
    indptr = np.arange(len(X) + 1) * 2 * width
    return sparse.csr_array((data, indices, indptr), shape=X.shape)


def explicit_zeros(X):
    matrix = sparse.csr_array(np.ones_like(X))
    matrix.data = X.ravel().copy()
    return matrix


def wide_indices(X):
    matrix = sparse.csr_array(X)
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    return matrix


FORMATS = {
    "coo": sparse.coo_array,
    "csc": sparse.csc_matrix,
    "lil": sparse.lil_array,
    "duplicates": duplicated,
    "raw duplicates": raw_duplicates,
    "explicit zeros": explicit_zeros,
    "int64 indices": wide_indices,
    "float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "int": lambda X: sparse.csr_array(np.round(X).astype(int)),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("method", ["objective", "output"])
@pytest.mark.parametrize("scale", [None, "private"])
def test_sparse_formats(form, method, scale):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 3)) * (rng.random((500, 3)) < 0.5)
    y = (X[:, 0] + rng.normal(size=500) > 0) * 1
    X = np.round(X) if form == "int" else X
    fits = [
        make(
            DPLogisticRegression,
            epsilon=1e7,
            delta=0.0,
            C=1.0,
            method=method,
            scale=scale,
            data_norm=0.5,
        ).fit(rows, y)
        for rows in (X, FORMATS[form](X))
    ]
    size = np.abs(fits[0].coef_).max()
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=2e-3 * size)


@pytest.mark.parametrize("kind", [DPRidge, DPHuberRegressor])
@pytest.mark.parametrize("dtype", [object, str])
def test_an_error_about_targets_has_no_context(kind, dtype):
    """The original error, which numpy raised, quotes the target."""
    with pytest.raises(ValueError, match=r"numbers|text") as caught:
        kind().fit(np.zeros((4, 2)), np.array(["4711x"] * 4, dtype=dtype))
    assert "4711" not in str(caught.value)
    assert caught.value.__context__ is None
