"""Wrong input: a clear error, no data in it, and nothing spent."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skdp import BudgetAccountant
from skdp.stats import (
    DPCount,
    DPMean,
    DPMedian,
    DPQuantile,
    DPStandardDeviation,
    DPSum,
    DPVariance,
)

KINDS = (DPMean, DPSum, DPVariance, DPStandardDeviation, DPMedian, DPQuantile)
GOOD = np.linspace(0, 1, 20).reshape(10, 2)


def refused(model, X, *words):
    accountant = BudgetAccountant(10.0, 0.1, neighboring=model.neighboring)
    with pytest.raises((ValueError, TypeError)) as caught:
        model.set_params(accountant=accountant).fit(X)
    assert accountant.spends == []
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert "0.4711" not in message
    return message


@pytest.mark.parametrize("kind", (*KINDS, DPCount))
def test_data(kind):
    secret = np.full((10, 2), 0.4711)
    broken = secret.copy()
    broken[3, 1] = np.nan
    refused(kind(), broken, "NaN", "missing='drop'")
    broken[3, 1] = np.inf
    refused(kind(), broken, "infinity")
    refused(kind(missing="drop"), broken, "infinity")
    refused(kind(), secret[:, 0], "2D")
    refused(kind(), [["0.4711x", "a"]] * 4, "text")
    dates = np.arange(8).reshape(4, 2).astype("datetime64[D]")
    refused(kind(), dates, "dates or durations")
    refused(kind(), pd.DataFrame({"day": dates[:, 0], "n": 0.4711}), "dates")
    refused(kind(), dates - dates[0, 0], "dates or durations")
    refused(kind(), np.empty((0, 2)), "0 sample")
    refused(kind(), np.full((4, 1), 0.4711 + 1j), "Complex")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "bounds",
    [
        None,
        3,
        "ab",
        (1, 0),
        (0, 0),
        (0, np.nan),
        (0, np.inf),
        (0, 1, 2),
        ([0, 0, 0], [1, 1, 1]),
        ([0, 2], [1, 1]),
        (0, 1e200),
        (0, True),
    ],
    ids=str,
)
def test_bounds(kind, bounds):
    refused(kind(bounds=bounds), GOOD, "bounds")


@pytest.mark.parametrize("kind", (*KINDS, DPCount))
@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0},
        {"epsilon": -1.0},
        {"epsilon": np.nan},
        {"epsilon": "1"},
        {"missing": "ignore"},
        {"method": "magic"},
        {"neighboring": "both"},
    ],
    ids=str,
)
def test_parameters(kind, options):
    accountant = BudgetAccountant(1.0)
    (name,) = options
    with pytest.raises((ValueError, TypeError), match=name):
        kind(accountant=accountant, **options).fit(GOOD)
    assert accountant.spends == []


def test_special_parameters():
    for delta in (-0.1, 1.0, "0"):
        refused(DPMean(delta=delta), GOOD, "delta")
    refused(DPMean(method="gaussian"), GOOD, "delta > 0")
    refused(DPVariance(ddof=2), GOOD, "ddof")
    refused(DPCount(what="all"), GOOD, "what")
    for q in (-0.1, 1.1, [], [[0.1]], "x", [np.nan]):
        refused(DPQuantile(q), GOOD, "'q'")
    refused(DPQuantile(np.arange(1, 12) / 12, method="joint"), GOOD, "recursive")
    refused(DPMedian(confidence=1.0), GOOD, "confidence")
    refused(DPMedian(resolution=-1.0), GOOD, "resolution")
    refused(DPMedian(resolution=5.0), GOOD, "resolution")
    refused(DPMedian(1e-9), GOOD, "'epsilon' parameter is too small: 1e-09", "2 feat")
    refused(DPQuantile([0.2, 0.8], 1e-7), GOOD, "epsilon")
    refused(DPQuantile([0.2, 0.8], 1e-4, method="joint"), GOOD, "epsilon")
    fine = {"resolution": 1e-9}
    refused(DPQuantile([0.2, 0.8], method="joint", **fine), GOOD, "resolution")
    DPQuantile([0.2, 0.8], **fine).fit(GOOD)
    refused(DPMean(bounds=None, outer_bounds=None), GOOD, "outer_bounds")
    refused(DPMean(n_samples_hint=0), GOOD, "n_samples_hint")


def test_too_many_rows_for_the_hint():
    X = np.zeros((70_000, 1))
    model = DPMean(neighboring="add_remove", n_samples_hint=1000)
    refused(model, X, "n_samples_hint", "65,536")
    model.set_params(n_samples_hint=40_000, accountant=None).fit(X)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("kind", (*KINDS, DPCount))
def test_huge_and_constant_values(kind, relation):
    for X in (np.full((20, 1), 1e300), np.full((20, 1), -1e308), np.zeros((20, 1))):
        model = kind(neighboring=relation).fit(X)
        assert np.isfinite(getattr(model, model._value)).all()


def test_other_data_at_predict():
    model = DPMean().fit(GOOD)
    with pytest.raises(ValueError, match="2 features"):
        model.predict(GOOD[:, :1])


@pytest.mark.parametrize("kind", (*KINDS, DPCount))
def test_no_warning_tells_about_the_data(kind):
    """numpy warns where sums overflow; whether they do is private."""
    X = np.zeros((6, 4))
    X[2] = [1e308, 1e308, -1e308, -1e308]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind().fit(X)


def test_an_error_has_no_context():
    with pytest.raises(ValueError, match="text") as caught:
        DPMean().fit([["secret"]] * 3)
    assert caught.value.__context__ is None


def test_dates_in_a_list():
    dates = [[np.datetime64("2020-01-01")], [np.datetime64("2021-01-01")]]
    refused(DPMean(), dates, "dates")
    refused(DPMedian(), dates, "dates")


def test_bounds_that_float64_cannot_hold():
    for bounds in ((1e16, 1e16 + 2), (0, 5e-324), (1, 1 + 1e-14)):
        refused(DPMean(bounds=bounds), GOOD, "wider")
    outer = {"bounds": None, "outer_bounds": (1e12, 1e12 + 1)}
    refused(DPMean(**outer), GOOD, "outer_bounds")


def test_shares_never_exceed_the_whole():
    for d in (3, 5, 10, 20, 33):
        model = DPMedian(1.0, 1e-5, method="smooth-laplace", confidence=0.9)
        assert model.privacy_cost(1000, d).epsilon(1e-5) <= 1.0 + 1e-12
        model = DPQuantile([0.1, 0.4, 0.9], 0.3, method="exponential")
        assert sum(e.epsilon(0) for e in [model.privacy_cost(50, d)]) <= 0.3 * (
            1 + 1e-15
        )
