"""Categories, public or found."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from skdp import BudgetAccountant
from skdp.categories import column_counts
from skdp.preprocessing import DPOneHotEncoder

RELATIONS = ("replace", "add_remove")
SECRET = "my very own value"


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.column_stack(
        [rng.choice(list("abc"), 3000), rng.choice(["u", "v"], 3000)]
    )


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_found_categories_equal_scikit_learn(X, neighboring):
    ours = DPOneHotEncoder(neighboring=neighboring).fit(X)
    theirs = OneHotEncoder().fit(X)
    for found, expected in zip(ours.categories_, theirs.categories_, strict=True):
        assert found.tolist() == expected.tolist()
    Z = ours.transform(X)
    assert sparse.issparse(Z)
    np.testing.assert_array_equal(Z.toarray(), theirs.transform(X).toarray())
    names = theirs.get_feature_names_out(["p", "q"])
    np.testing.assert_array_equal(ours.get_feature_names_out(["p", "q"]), names)
    np.testing.assert_array_equal(ours.inverse_transform(Z), X)
    event = ours.privacy_.event
    assert event == ours.privacy_cost(3000, 2)
    assert event.epsilon(1e-6) == pytest.approx(1.0)


def test_rare_values_are_ignored(X):
    rows = [*X.tolist(), [SECRET, "u"]]
    encoder = DPOneHotEncoder(sparse_output=False).fit(rows)
    assert SECRET not in encoder.categories_[0]
    np.testing.assert_array_equal(encoder.transform([[SECRET, "u"]]), [[0, 0, 0, 1, 0]])
    back = encoder.inverse_transform([[0, 0, 0, 1, 0]])
    assert back.tolist() == [[None, "u"]]


def test_public_categories_cost_nothing(X):
    budget = BudgetAccountant(1.0)
    given = [["c", "a", "zzz"], ["v"]]
    encoder = DPOneHotEncoder(given, accountant=budget, delta=0.0).fit(X)
    assert budget.spends == [] and encoder.privacy_.event is None
    assert encoder.threshold_ is None and encoder.privacy_cost(5, 2) is None
    theirs = OneHotEncoder(categories=given, handle_unknown="ignore").fit(X)
    np.testing.assert_array_equal(
        encoder.transform(X).toarray(), theirs.transform(X).toarray()
    )
    strict = DPOneHotEncoder(given, handle_unknown="error").fit(X)
    with pytest.raises(ValueError, match="none of the public") as error:
        strict.transform([[SECRET, "v"]])
    assert SECRET not in str(error.value)


def test_numbers():
    X = np.array([[1], [2], [2]] * 500)
    for rows in (X, X.astype(float), X.tolist(), X.astype(object)):
        encoder = DPOneHotEncoder().fit(rows)
        assert encoder.categories_[0].tolist() == [1, 2]
        assert encoder.get_feature_names_out().tolist() == ["x0_1", "x0_2"]
        assert encoder.inverse_transform([[0, 1]]).tolist() == [[2]]


def test_one_row_does_not_change_what_others_count_as():
    # numpy would read the whole list as text.
    assert column_counts(np.array([1, 1, "a"], dtype=object)) == {1.0: 2, "a": 1}
    encoder = DPOneHotEncoder().fit([[1]] * 500 + [["a"]])
    assert encoder.categories_[0].tolist() == [1]
    assert column_counts(np.array([1.0, np.nan, 1.0])) == {1.0: 2}
    mixed = np.array([True, np.float32(1), None, pd.NA, "1"], dtype=object)
    assert column_counts(mixed) == {1.0: 2, "1": 1}


def test_missing_values_are_no_category():
    X = np.array([["a"], [None], [np.nan]] * 300, dtype=object)
    encoder = DPOneHotEncoder().fit(X)
    assert encoder.categories_[0].tolist() == ["a"]
    assert encoder.transform(X).toarray().ravel().tolist() == [1, 0, 0] * 300


def test_nothing_found():
    encoder = DPOneHotEncoder(delta=1e-12, sparse_output=False)
    encoder.fit(np.arange(20)[:, None])
    assert encoder.transform([[3]]).shape == (1, 0)
    assert encoder.get_feature_names_out().size == 0


def test_output_norm(X):
    encoder = DPOneHotEncoder(sparse_output=False).fit(X)
    assert np.linalg.norm(encoder.transform(X), axis=1).max() <= encoder.output_norm_


@pytest.mark.parametrize(
    "options",
    [
        {"delta": 0.0},
        {"handle_unknown": "error"},
        {"handle_unknown": "skip"},
        {"categories": [["a"]]},
        {"categories": ["ab", "cd"]},
        {"categories": [["a", "a"], ["b"]]},
        {"categories": [["a", None], ["b"]]},
        {"categories": 3},
        {"sparse_output": 1},
    ],
)
def test_bad_parameters(X, options):
    budget = BudgetAccountant(1.0)
    with pytest.raises((TypeError, ValueError)):
        DPOneHotEncoder(accountant=budget, **options).fit(X)
    assert budget.spends == []


def test_odd_values_cost_nothing():
    budget = BudgetAccountant(1.0)
    X = np.array([["a"], [{"key": SECRET}]], dtype=object)
    with pytest.raises(TypeError) as error:
        DPOneHotEncoder(accountant=budget).fit(X)
    assert SECRET not in str(error.value) and budget.spends == []


@pytest.mark.parametrize("kind", [np.str_, object])
def test_seeds_with_text(X, kind):
    rows = X.astype(kind)
    rows[0, 0] = "b"
    fits = [DPOneHotEncoder(epsilon=0.1, random_state=0).fit(rows) for _ in range(2)]
    assert fits[0].get_feature_names_out().tolist() == (
        fits[1].get_feature_names_out().tolist()
    )


@pytest.mark.parametrize("other", [0.5, "a"])
def test_the_sign_of_zero_is_nobodys(other):
    found = []
    for zero in (0.0, -0.0):
        X = np.array([[zero]] + [[0.0]] * 999 + [[other]] * 1000, dtype=object)
        encoder = DPOneHotEncoder(epsilon=5.0, delta=1e-6).fit(X)
        found.append(repr(encoder.categories_))
    assert found[0] == found[1] and "-0" not in found[1]
