"""What all transformers share: budgets, prices, frames, pickles, bad input."""

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone

from skdp import BudgetAccountant
from skdp.exceptions import BudgetExceededError
from skdp.preprocessing import (
    BoundsScaler,
    DPKBinsDiscretizer,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
    RowNormClipper,
)

RELATIONS = ("replace", "add_remove")
SECRET = 98765.4321
VALUES = [[0, 1, 2], [0, 1, 2]]
PRIVATE = {
    "standard": DPStandardScaler(bounds=(0, 2)),
    "found bounds": DPStandardScaler(30.0, bounds=None, outer_bounds=(-9, 9)),
    "min max": DPMinMaxScaler(bounds=(0, 2)),
    "bins": DPKBinsDiscretizer(3, bounds=(0, 2), encode="ordinal"),
    "many bins": DPKBinsDiscretizer(20, bounds=(0, 2), encode="onehot-dense"),
    "mean": DPSimpleImputer("mean", bounds=(0, 2)),
    "median": DPSimpleImputer("median", bounds=(0, 2)),
    "mode": DPSimpleImputer("most_frequent", categories=VALUES),
    "one hot": DPOneHotEncoder(sparse_output=False),
}
FREE = {
    "clipper": RowNormClipper(),
    "bounds": BoundsScaler((0, 2)),
    "public bins": DPKBinsDiscretizer(
        3, bounds=(0, 2), strategy="uniform", encode="ordinal"
    ),
    "constant": DPSimpleImputer("constant"),
    "public one hot": DPOneHotEncoder(VALUES, sparse_output=False),
}
ALL = {**PRIVATE, **FREE}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).integers(0, 3, size=(600, 2)).astype(float)


@pytest.fixture(params=ALL)
def model(request):
    return clone(ALL[request.param])


@pytest.fixture(params=PRIVATE)
def private(request):
    return clone(PRIVATE[request.param])


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_a_fit_is_charged_once_and_rows_are_free(private, X, neighboring):
    budget = BudgetAccountant(100.0, 1e-3, neighboring=neighboring)
    private.set_params(accountant=budget, neighboring=neighboring)
    private.fit_transform(X)
    private.transform(X)
    if hasattr(private, "inverse_transform"):
        private.inverse_transform(private.transform(X))
    assert len(budget.spends) == 1
    event = private.privacy_cost(*X.shape)
    assert event == private.privacy_.event == budget.spends[0].event
    assert event.epsilon(private.delta) <= private.epsilon * (1 + 1e-9)
    assert event.neighboring == neighboring == private.privacy_.neighboring
    assert "Differentially private" in str(private.privacy_)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_prices_with_many_features(private, delta):
    if delta == 0 and isinstance(private, DPOneHotEncoder):
        return
    if private.get_params().get("categories"):
        private.set_params(categories=VALUES * 15)
    private.set_params(delta=delta)
    event = private.privacy_cost(10**6, 30)
    assert event.epsilon(delta) <= private.epsilon * (1 + 1e-9)


def test_the_number_of_rows_is_private(private):
    private.set_params(neighboring="add_remove")
    shape = (2,) if private.get_params().get("categories") else (3,)
    plans = [private._plan(n, *shape) for n in (100, 100_000)]
    assert plans[0].event == plans[1].event
    assert plans[0].release == plans[1].release


EXACT = ("min max", "bins", "many bins", "median", "mode", "one hot")


@pytest.mark.parametrize("name", PRIVATE)
def test_counts_and_ranks_allow_any_number_of_rows(name):
    model = clone(PRIVATE[name]).set_params(neighboring="add_remove")
    said = " ".join(model._assumptions())
    assert ("at most" in said) == (name not in EXACT)
    if name in EXACT:
        return model._check_rows(2**40)
    with pytest.raises(ValueError, match="n_samples_hint"):
        model._check_rows(2**40)


def test_assumptions_name_what_was_chosen():
    said = {name: " ".join(model._assumptions()) for name, model in PRIVATE.items()}
    assert "the bounds were chosen" in said["standard"]
    assert "the outer bounds were chosen" in said["found bounds"]
    assert "the categories were chosen" in said["mode"]
    assert "chosen" not in said["one hot"]


@pytest.mark.parametrize("name", FREE)
def test_free_fits_say_so(name, X):
    model = clone(FREE[name]).fit(X)
    assert model.privacy_.event is None
    assert "no privacy was spent" in str(model.privacy_)
    assert model.privacy_cost(*X.shape) is None
    with pytest.raises(ValueError, match="n_samples"):
        model.privacy_cost(0)


def test_too_little_budget_means_no_release(private, X):
    budget = BudgetAccountant(1e-3, 1e-3)
    with pytest.raises(BudgetExceededError):
        private.set_params(accountant=budget).fit(X)
    assert budget.spends == [] and not hasattr(private, "privacy_")
    public = {"n_features_in_"}
    assert {name for name in vars(private) if name.endswith("_")} <= public


@pytest.mark.parametrize(
    "bad",
    [
        lambda X: np.where(X == X, np.inf, X),
        lambda X: X[:, 0],
        lambda X: X + 1j,
        lambda X: np.full(X.shape, b"98765.4321x"),
        lambda X: np.full((3,), SECRET),
        lambda X: X[:0],
        lambda X: None,
        lambda X: SECRET,
    ],
)
def test_bad_input_costs_nothing_and_is_not_quoted(model, X, bad):
    budget = BudgetAccountant(1e3, 1e-3)
    if hasattr(model, "accountant"):
        model.set_params(accountant=budget)
    with pytest.raises((TypeError, ValueError)) as error:
        model.fit(bad(X))
    assert not re.search(r"9876|0\.|\[\[", str(error.value))
    assert budget.spends == []


def test_text_is_not_quoted(model, X):
    rows = np.full(X.shape, "98765.4321x", dtype=object)
    try:
        model.fit(rows).transform(rows)
    except (TypeError, ValueError) as error:
        assert "9876" not in str(error)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames(model, X, kind):
    library = pytest.importorskip(kind)
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    out = model.set_output(transform=kind).fit_transform(frame)
    assert isinstance(out, library.DataFrame)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert list(model.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[["b", "a"]])


def test_pickle(model, X):
    model.fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert clone(model).get_params().keys() == model.get_params().keys()


def test_a_seed_repeats_the_noise_and_is_admitted(private, X):
    private.set_params(random_state=0)
    first, second = (clone(private).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.transform(X), second.transform(X))
    assert first.privacy_.seeded and "seed" in str(first.privacy_)


def test_nothing_exact_is_stored(private, X):
    # Two rows that differ by a secret: it must not be found on the fitted estimator.
    rows = X.copy()
    rows[0] = 1.234567890123
    private.fit(rows)
    assert "1.234567890123" not in repr(sorted(map(repr, vars(private).values())))
    sizes = [np.size(v) for v in vars(private).values() if isinstance(v, np.ndarray)]
    assert max(sizes, default=0) < len(X)
