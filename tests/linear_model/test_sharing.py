"""One budget pays for every fit, and no two fits share noise."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skdp import BudgetAccountant
from skdp.exceptions import BudgetExceededError
from skdp.linear_model import DPHuberRegressor, DPLinearSVC, DPLogisticRegression

METHODS = ("objective", "output", "gradient")
RELATIONS = ("replace", "add_remove")
KINDS = (DPLogisticRegression, DPLinearSVC, DPHuberRegressor)


@pytest.fixture(scope="module")
def data():
    return make_classification(120, 4, class_sep=2.0, random_state=0)


def make(kind=DPLogisticRegression, **options):
    if kind is not DPHuberRegressor:
        options.setdefault("classes", [0, 1])
    return kind(**{"steps": 5, **options})


def budget(**options):
    return BudgetAccountant(1e3, 1e-3, **options)


# --- Every fit is charged, and charged what was said before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [None, "private"])
def test_a_fit_charges_its_price_once(data, kind, neighboring, method, scale):
    accountant = budget(neighboring=neighboring)
    model = make(
        kind, neighboring=neighboring, method=method, accountant=accountant, scale=scale
    )
    cost = model.privacy_cost(120, 4)
    assert accountant.spends == []
    for count in (1, 2):
        model.fit(*data)
        assert len(accountant.spends) == count
        spend = accountant.spends[-1]
        assert spend.event == cost == model.privacy_.event
        assert spend.label == kind.__name__ and spend.seeded is False
        assert not model.privacy_.seeded
    if neighboring == "add_remove":
        assert model.privacy_cost(99_999, 4) == cost
        assert model.privacy_cost(1, 4) == cost


def test_the_number_of_classes_is_public(data):
    X, y = data
    for kind in KINDS[:2]:
        accountant = budget()
        model = make(kind, classes=[0, 1, 2], accountant=accountant).fit(X, y)
        assert accountant.spends[0].event == model.privacy_cost(120, 4)
        assert model.privacy_cost(120, 4, n_classes=3) == model.privacy_cost(120, 4)
    with pytest.raises(ValueError, match="n_classes"):
        model.privacy_cost(120, 4, n_classes=1)
    with pytest.raises(ValueError, match="n_samples"):
        model.privacy_cost(0, 4)
    with pytest.raises(TypeError, match="n_classes"):
        DPHuberRegressor().privacy_cost(120, 4, n_classes=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6, 1e-2])
def test_the_price_is_what_was_asked_for(kind, neighboring, method, delta):
    if method == "objective" and delta == 0 and kind is not DPLogisticRegression:
        pytest.skip("no theorem")
    for epsilon in (0.05, 1.0, 10.0):
        for scale in (None, "private"):
            model = make(
                kind,
                epsilon=epsilon,
                delta=delta,
                neighboring=neighboring,
                method=method,
                scale=scale,
            )
            price = model.privacy_cost(1000, 10).epsilon(delta)
            assert 0.9 * epsilon < price <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_budget_of_one_fit_pays_for_one(data, neighboring, method, delta):
    accountant = BudgetAccountant(1.0, delta, neighboring=neighboring)
    model = make(
        delta=delta, neighboring=neighboring, method=method, accountant=accountant
    )
    model.fit(*data)
    with pytest.raises(BudgetExceededError):
        clone(model).fit(*data)
    assert len(accountant.spends) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_refused_fit_publishes_nothing(data, kind, method):
    accountant = BudgetAccountant(0.1, 1e-6)
    model = make(kind, accountant=accountant, method=method)
    with pytest.raises(BudgetExceededError):
        model.fit(*data)
    assert accountant.spends == []
    left = set(vars(model)) - set(model.get_params())
    assert left <= {"n_features_in_"}


def test_a_refused_refit_leaves_the_model_as_it_was(data):
    X, y = data
    accountant = BudgetAccountant(1.5, 1e-5)
    model = make(accountant=accountant).fit(X, y)
    before = pickle.dumps((model.coef_, model.classes_, model.privacy_))
    model.set_params(classes=["a", "b", "c"])
    with pytest.raises(BudgetExceededError):
        model.fit(X, np.array(["a", "c"])[y])
    assert pickle.dumps((model.coef_, model.classes_, model.privacy_)) == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_other_relation_is_refused(data, kind):
    for mine, other in (RELATIONS, RELATIONS[::-1]):
        accountant = budget(neighboring=other)
        model = make(kind, neighboring=mine, accountant=accountant)
        with pytest.raises(ValueError, match=r"replace|add_remove"):
            model.fit(*data)
        assert accountant.spends == [] and not hasattr(model, "coef_")


# --- scikit-learn's tools


def test_copies_share_the_accountant(data):
    accountant = budget()
    model = make(accountant=accountant)
    assert clone(model).accountant is accountant
    assert pickle.loads(pickle.dumps(model)).accountant is accountant
    pipeline = make_pipeline(MinMaxScaler(), model)
    clone(pipeline).fit(*data)
    assert len(accountant.spends) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_searches_charge_every_fit(data, kind):
    accountant = budget()
    pipeline = make_pipeline(MinMaxScaler(), make(kind, accountant=accountant))
    name = kind.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__epsilon": [1.0, 2.0]}, cv=3).fit(*data)
    assert len(accountant.spends) == 2 * 3 + 1
    cross_val_score(search.best_estimator_, *data, cv=4, error_score="raise")
    assert len(accountant.spends) == 2 * 3 + 1 + 4


def test_workers_charge_one_ledger_and_do_not_share_noise(data, tmp_path):
    accountant = budget(ledger=f"sqlite:///{tmp_path / 'budget.db'}")
    model = make(accountant=accountant, random_state=np.random.default_rng(0))
    grid = {"C": [0.01, 0.010000001]}
    search = GridSearchCV(model, grid, cv=3, n_jobs=2, error_score="raise").fit(*data)
    assert len(accountant.spends) == 2 * 3 + 1
    assert all(spend.seeded for spend in accountant.spends)
    assert search.best_estimator_.privacy_.seeded
    # Copies of one generator, on the same rows, in two workers and at home.
    for state in (None, np.random.default_rng(0)):
        model = make(random_state=state, epsilon=0.1)
        fits = joblib.Parallel(n_jobs=2)(
            joblib.delayed(model.fit)(*data) for _ in "abcd"
        )
        coefs = [fit.coef_[0] for fit in [*fits, model.fit(*data)]]
        assert len({coef.tobytes() for coef in coefs}) == 5


# --- Noise


def noise_of(X, y, **options):
    """Coefficients on rows of zeros: noise, up to a factor."""
    options = {"scale": None, "C": 0.01, **options}
    return make(**options).fit(np.zeros_like(X), y).coef_.ravel()


def related(a, b):
    """Whether two noise vectors are equal or proportional."""
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    return abs(cosine) > 1 - 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_seeds(data, method):
    X, y = data
    options = {"method": method, "random_state": 7}
    first = noise_of(X, y, **options)
    np.testing.assert_array_equal(first, noise_of(X, y, **options))
    others = [
        noise_of(X, y, method=method, random_state=8),
        noise_of(X, y, method=method),
        noise_of(X, y, method=method),
        noise_of(X, y, epsilon=2.0, **options),
        noise_of(X, y, delta=1e-7, **options),
        noise_of(X, y, data_norm=2.0, **options),
        noise_of(X, y, neighboring="add_remove", **options),
        noise_of(X[1:], y[1:], **options),  # another fold
        noise_of(X, 1 - y, **options),  # other labels
        noise_of(X + 0.0, np.r_[1 - y[:1], y[1:]], **options),  # another row
        make(scale=None, C=0.01, **options).fit(X, y).coef_.ravel(),
    ]
    everything = [first, *others]
    for i, one in enumerate(everything):
        for other in everything[:i]:
            assert not related(one, other)


@pytest.mark.parametrize("method", METHODS)
def test_one_row_changes_all_the_noise(data, method):
    # With the same noise the difference would be the row's own small effect.
    X, y = data
    other = X.copy()
    other[0, 0] += 1e-9
    options = {"method": method, "random_state": 7, "scale": None}
    gap = make(**options).fit(X, y).coef_ - make(**options).fit(other, y).coef_
    assert np.abs(gap).min() > 1e-6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_classes_do_not_share_noise(data, method, kind):
    X, y = data
    y = np.arange(len(y)) % 3
    coefs = noise_of(X, y, kind=kind, classes=[0, 1, 2], method=method, random_state=0)
    coefs = coefs.reshape(3, 4)
    assert len(np.unique(np.abs(coefs))) == 12
    assert not any(related(coefs[i], coefs[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize("state", [3, np.random.default_rng(3), None])
def test_folds_do_not_share_noise(data, state):
    X = np.zeros((120, 4))
    y = np.arange(120) % 2
    model = make(scale=None, C=0.01, random_state=state)
    # A copied seed on equal rows repeats a fit, which tells nothing new.
    search = [clone(model).fit(X[:60], y[:60]) for _ in range(2)]
    first, second = (fit.coef_.ravel() for fit in search)
    assert related(first, second) == (state is not None)
    assert search[0].privacy_.seeded == (state is not None)
    assert not related(first, clone(model).fit(X[:58], y[:58]).coef_.ravel())
