"""One accountant, wherever scikit-learn, copies and pickles take the estimator."""

import copy
import gc
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline

from skdp import BudgetAccountant
from skdp.exceptions import BudgetExceededError, DetachedAccountantError
from tests.accounting.estimator import DPColumnMean

ROOT = Path(__file__).parents[2]


@pytest.fixture
def accountant():
    return BudgetAccountant(100.0, 0.0)


@pytest.fixture
def data():
    X = np.random.default_rng(0).random((60, 2))
    return X, X[:, 0]


def assert_each_once(accountant, count, epsilon=0.1):
    assert len(accountant.spends) == count
    assert accountant.total().epsilon == pytest.approx(count * epsilon, rel=1e-12)


# --- Copies


def test_copies_are_the_same_accountant(accountant):
    copies = [
        clone(accountant),
        copy.copy(accountant),
        copy.deepcopy(accountant),
        copy.deepcopy({"a": [accountant]})["a"][0],
        pickle.loads(pickle.dumps(accountant)),
    ]
    for i, other in enumerate(copies):
        assert other is accountant
        other.spend(epsilon=0.1)
        assert_each_once(accountant, i + 1)


@pytest.mark.parametrize("duplicate", [clone, copy.copy, copy.deepcopy])
def test_copies_of_an_estimator_share_the_accountant(accountant, data, duplicate):
    model = DPColumnMean(accountant=accountant)
    other = duplicate(model)
    assert other is not model and other.accountant is accountant
    assert model.get_params()["accountant"] is accountant
    other.fit(*data)
    duplicate(other).fit(*data)
    assert_each_once(accountant, 2)


def test_no_accountant_means_not_tracked(data):
    assert DPColumnMean().fit(*data).predict(data[0]).shape == (60,)


def test_invalid_data_cost_nothing(accountant):
    for X in ([[np.nan]], [], [["text"]], [1.0]):
        with pytest.raises(ValueError):
            DPColumnMean(accountant=accountant).fit(X)
    assert accountant.spends == []


def test_an_estimator_shows_its_accountant(accountant, data):
    model = DPColumnMean(accountant=accountant).fit(*data)
    assert "BudgetAccountant(epsilon=100" in repr(model)
    assert "BudgetAccountant(epsilon=100" in model._repr_html_()


# --- scikit-learn


def test_every_step_of_a_pipeline_is_recorded(accountant, data):
    step = DPColumnMean(accountant=accountant, random_state=0)
    model = make_pipeline(step, clone(step).set_params(epsilon=0.2))
    model.fit(*data)
    assert [spend.event.epsilon(0) for spend in accountant.spends] == [0.1, 0.2]
    assert [spend.seeded for spend in accountant.spends] == [True, True]
    clone(model).fit(*data)
    assert len(accountant.spends) == 4


def test_a_cached_step_is_recorded_once(accountant, data, tmp_path):
    steps = [
        ("centre", DPColumnMean(accountant=accountant)),
        ("mean", DPColumnMean(accountant=accountant, bounds=(-1.0, 1.0))),
    ]
    model = Pipeline(steps, memory=joblib.Memory(tmp_path, verbose=0))
    first = model.fit(*data).named_steps["centre"].mean_
    assert_each_once(accountant, 2)
    for fits in (1, 2, 3):
        again = clone(model).fit(*data)
        assert_each_once(accountant, 2 + fits)  # the last step is never cached
        np.testing.assert_array_equal(again.named_steps["centre"].mean_, first)
        assert again.named_steps["centre"].accountant is accountant
    model.fit(data[0][:30], data[1][:30])  # other data: a release of its own
    assert_each_once(accountant, 7)


def test_a_search_with_a_cached_step(accountant, data, tmp_path):
    steps = [
        ("centre", DPColumnMean(accountant=accountant)),
        ("mean", DPColumnMean(accountant=accountant, bounds=(-1.0, 1.0))),
    ]
    model = Pipeline(steps, memory=joblib.Memory(tmp_path, verbose=0))
    search = GridSearchCV(model, {"mean__random_state": [1, 2, 3]}, cv=4)
    search.fit(*data)
    # The step once for each fold and for the refit, the last one for each fit.
    assert_each_once(accountant, (4 + 1) + (3 * 4 + 1))


def fit_search(data, model, n_jobs, **options):
    search = GridSearchCV(model, {"random_state": [1, 2, 3]}, cv=4, n_jobs=n_jobs)
    return search.set_params(**options).fit(*data)


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_every_fit_of_a_search_is_recorded(accountant, data, n_jobs):
    with joblib.parallel_config(backend="threading"):
        search = fit_search(data, DPColumnMean(accountant=accountant), n_jobs)
    assert_each_once(accountant, 3 * 4 + 1)
    assert search.best_estimator_.accountant is accountant
    search.best_estimator_.fit(*data)
    assert_each_once(accountant, 3 * 4 + 2)


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_every_fit_of_a_cross_validation_is_recorded(accountant, data, n_jobs):
    model = make_pipeline(DPColumnMean(accountant=accountant), DPColumnMean())
    with joblib.parallel_config(backend="threading"):
        scores = cross_val_score(model, *data, cv=5, n_jobs=n_jobs)
    assert np.isfinite(scores).all()
    assert_each_once(accountant, 5)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_search_stops_at_the_ceiling(data, n_jobs):
    accountant = BudgetAccountant(0.5, 0.0)
    model = DPColumnMean(accountant=accountant)
    with joblib.parallel_config(backend="threading"):
        with pytest.raises(BudgetExceededError):
            fit_search(data, model, n_jobs, error_score="raise")
    assert_each_once(accountant, 5)


def test_by_default_a_search_turns_the_refusal_into_nan(data):
    accountant = BudgetAccountant(0.5, 0.0)
    model = DPColumnMean(accountant=accountant)
    with pytest.warns(FitFailedWarning, match="BudgetExceededError"):
        scores = cross_val_score(model, *data, cv=8)
    assert np.isnan(scores).sum() == 3
    assert_each_once(accountant, 5)


# --- Pickles and hashes


@pytest.mark.parametrize("module", [pickle, joblib])
def test_from_a_file_comes_the_same_accountant(accountant, data, module, tmp_path):
    model = DPColumnMean(accountant=accountant).fit(*data)
    path = tmp_path / "model"
    if module is joblib:
        joblib.dump(model, path)
        again = joblib.load(path)
    else:
        path.write_bytes(pickle.dumps(model))
        again = pickle.loads(path.read_bytes())
    assert again.accountant is accountant
    np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))
    again.fit(*data)
    assert_each_once(accountant, 2)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol(accountant, protocol):
    assert pickle.loads(pickle.dumps(accountant, protocol)) is accountant


def test_spending_does_not_change_the_hash(accountant):
    model = DPColumnMean(accountant=accountant)
    child = accountant.parallel(1)[0]
    things = (accountant, model, child, clone(model))
    before = [joblib.hash(thing) for thing in things]
    text = pickle.dumps(accountant)
    for spender in (accountant, child):
        spender.spend(epsilon=0.1)
        assert [joblib.hash(thing) for thing in things] == before
    assert pickle.dumps(accountant) == text
    assert before[1] == before[3]
    other = DPColumnMean(accountant=BudgetAccountant(100.0, 0.0))
    assert joblib.hash(other) != before[1]


def test_a_pickle_holds_no_totals(accountant):
    accountant.spend(epsilon=0.123456789, label="something said")
    text = pickle.dumps(accountant)
    assert b"something" not in text and b"123456" not in text


def test_a_pickle_comes_back_with_its_own_terms(tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    accountant = BudgetAccountant(1.0, ledger=url)
    accountant.spend(epsilon=0.1)
    mistaken = BudgetAccountant(5.0, ledger=url)  # no use of it, so no error yet
    again = pickle.loads(pickle.dumps(accountant))
    assert again.epsilon == 1.0 and again.total().epsilon == 0.1
    assert pickle.loads(pickle.dumps(mistaken)).epsilon == 5.0


# --- Detached


def assert_detached(accountant):
    assert (accountant.epsilon, accountant.delta, accountant.name) == (3.0, 1e-7, "x")
    assert (accountant.neighboring, accountant.composition) == ("replace", "adaptive")
    assert repr(accountant) == "BudgetAccountant(epsilon=3, delta=1e-07, name='x')"
    assert "another process" in str(accountant)
    assert "another process" in accountant._repr_html_()
    for act in (
        lambda: accountant.spend(epsilon=0.1),
        lambda: accountant.check(epsilon=0.1),
        lambda: accountant.parallel(2)[1].spend(epsilon=0.1),
        accountant.total,
        accountant.remaining,
        lambda: accountant.spends,
    ):
        with pytest.raises(DetachedAccountantError) as caught:
            act()
        message = str(caught.value)
        assert "'x'" in message and "ledger='sqlite:///" in message
        assert "n_jobs=1" in message and "threading" in message
        assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_without_its_accountant_a_pickle_is_detached(data):
    model = DPColumnMean(accountant=BudgetAccountant(3.0, 1e-7, name="x")).fit(*data)
    text, predictions = pickle.dumps(model), model.predict(data[0])
    del model
    gc.collect()
    again = pickle.loads(text)
    np.testing.assert_array_equal(again.predict(data[0]), predictions)
    assert_detached(again.accountant)
    assert clone(again).accountant is again.accountant
    assert pickle.loads(pickle.dumps(again.accountant)) is again.accountant
    with pytest.raises(DetachedAccountantError):
        again.fit(*data)


SCRIPT = """
import pickle, sys
import numpy as np
from skdp.exceptions import DetachedAccountantError
from tests.accounting.test_sharing import assert_detached

with open(sys.argv[1], "rb") as file:
    model, X, predictions = pickle.load(file)
np.testing.assert_array_equal(model.predict(X), predictions)
assert_detached(model.accountant)
try:
    model.fit(X)
except DetachedAccountantError:
    print("refused")
"""


def test_in_another_process_a_model_predicts_and_does_not_spend(data, tmp_path):
    accountant = BudgetAccountant(3.0, 1e-7, name="x")
    model = DPColumnMean(accountant=accountant).fit(*data)
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((model, data[0], model.predict(data[0]))))
    command = [sys.executable, "-c", SCRIPT, str(path)]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.stderr == "" and result.stdout == "refused\n"
    assert len(accountant.spends) == 1
