"""The guarantee that a fitted estimator carries, and the hash that separates noise."""

import dataclasses
import pickle

import numpy as np
import pytest
from scipy import sparse

from skdp import events
from skdp.base import PrivacyGuarantee, digest
from skdp.linear_model import DPHuberRegressor, DPLinearSVC, DPLogisticRegression

GAUSSIAN = events.Gaussian(2.0, "replace")


def test_the_guarantee_in_words():
    text = str(PrivacyGuarantee(0.5, 1e-6, "replace", GAUSSIAN, ("a thing", "another")))
    assert text == (
        "Differentially private with epsilon = 0.5, delta = 1e-06, when one row is "
        "replaced by any other (the number of rows is public). Assumes a thing; "
        "another."
    )
    text = str(PrivacyGuarantee(2.0, 0.0, "add_remove", GAUSSIAN, (), True))
    assert "delta" not in text and "epsilon = 2," in text
    assert "added or removed (the number of rows is private)" in text
    assert "Assumes" not in text and "from a seed" in text


def test_the_guarantee_is_frozen():
    guarantee = PrivacyGuarantee(0.5, 1e-6, "replace", GAUSSIAN)
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.1
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
    assert repr(guarantee).startswith("PrivacyGuarantee(epsilon=0.5, delta=1e-06")
    assert "noise_multiplier=2" in repr(guarantee)


@pytest.mark.parametrize("neighboring", ["replace", "add_remove"])
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearSVC, DPHuberRegressor])
@pytest.mark.parametrize("scale", [None, "private"])
def test_a_fit_states_its_guarantee(kind, neighboring, scale):
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50) % 2
    options = {} if kind is DPHuberRegressor else {"classes": [0, 1]}
    model = kind(0.7, 1e-5, neighboring=neighboring, scale=scale, **options)
    found = model.set_params(data_norm=2.5).fit(X, y).privacy_
    assert (found.epsilon, found.delta, found.neighboring) == (0.7, 1e-5, neighboring)
    assert found.event == model.privacy_cost(50, 2) and not found.seeded
    assert found.event.epsilon(1e-5) <= 0.7 * (1 + 1e-9)
    text = str(found)
    assert "epsilon = 0.7, delta = 1e-05" in text and "every person is one row" in text
    assert ("replaced" in text) == (neighboring == "replace")
    assert ("at most" in text) == (neighboring == "add_remove")
    assert "without the data" in text and "seed" not in text
    assert "seed" in str(model.set_params(random_state=1).fit(X, y).privacy_)


def test_a_digest_sees_every_value():
    X = np.arange(6.0).reshape(2, 3)
    variants = [
        (X,),
        (X.T,),
        (X.ravel(),),
        (X.astype(np.float32),),
        (X, None),
        (X + np.eye(2, 3) * 1e-15,),
        (X[:1], X[1:]),
        (sparse.csr_array(X),),
        (sparse.csr_array(X[:, ::-1]),),
        ("text",),
        (),
    ]
    assert len({digest(*parts) for parts in variants}) == len(variants)
    assert digest(X, "a") == digest(np.asfortranarray(X), "a")


def test_a_digest_sees_the_middle_of_long_arrays():
    """The text of a long array leaves its middle out."""
    X = np.zeros(5000)
    other = X.copy()
    other[2500] = 1
    assert digest(X) != digest(other)
