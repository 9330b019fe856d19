"""Audits: what an adversary learns from releases on two worst-case neighbours.

One feature, and rows at the ends of the bounds: there every row does what the theorem
allows. The bounds have a confidence of 1 - 1e-7, so that a tight mechanism passes.
"""

from dataclasses import replace

import numpy as np
import pytest

from skdp.random_bits import RandomBits
from skdp.stats import (
    DPCount,
    DPMean,
    DPMedian,
    DPQuantile,
    DPStandardDeviation,
    DPSum,
    DPVariance,
)
from skdp.stats._base import Table
from skdp.stats._sums import bernstein, table_sums
from tests.auditing import lower_bound

RELATIONS = ("replace", "add_remove")
DELTA = 0.1  # a large delta has its worst event in the bulk, where there are counts


def neighbours(relation, rows=4):
    """Half of the rows at either end, and one that moves from end to end or goes."""
    X = np.array([[0.0], [1.0]] * rows + [[1.0]])
    other = X[:-1] if relation == "add_remove" else np.vstack([X[:-1], [[0.0]]])
    return X, other


def releases(model, X, count, noise=1.0):
    """Values of the release step; the plan sees no data and is made once."""
    model._check_budget()
    plan = model._plan(len(X), X.shape[1])
    if noise != 1.0:
        plan = replace(plan, release=_weaker(plan.release, noise))
    data, bits = Table(X), RandomBits()
    for _ in range(count):
        model._release(plan, data, bits, None)
        yield np.ravel(getattr(model, model._value)).copy()


def _weaker(release, noise):
    """The same release with a part of its noise."""
    if hasattr(release, "rate"):
        return replace(release, rate=release.rate / noise)
    return replace(release, point=release.point / noise)


def audit(model, first, second, count, noise=1.0, column=0):
    values = [
        np.array([value[column] for value in releases(model, X, count, noise)])
        for X in (first, second)
    ]
    return lower_bound(*values, model.delta)


# Of a variance the mean of the rows must lie at an end, and all but one row with it.
def apart(relation, rows=200):
    X = np.zeros((rows, 1))
    far = np.vstack([X, [[1.0]]])
    return far, (X if relation == "add_remove" else np.vstack([X, [[0.0]]]))


CASES = {
    "mean": (DPMean, neighbours, {"bounds": (0, 1)}),
    "sum": (DPSum, neighbours, {"bounds": (0, 1)}),
    "count": (DPCount, neighbours, {}),
    "mean, missing": (DPMean, neighbours, {"bounds": (0, 1), "missing": "drop"}),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["sum", "count"])
@pytest.mark.parametrize("price", [(1.0, 0.0, "laplace"), (1.0, DELTA, "gaussian")])
def test_totals(name, relation, price):
    kind, data, options = CASES[name]
    model = kind(*price[:2], method=price[2], neighboring=relation, **options)
    # Rounded Gaussian noise has fewer events: measured between 0.4 and 0.6.
    least = 0.3 if (name, price[2]) == ("count", "gaussian") else 0.5
    assert least < audit(model, *data(relation, rows=20), 8000) <= 1.0


@pytest.mark.parametrize("price", [(1.0, 0.0, "laplace"), (1.0, DELTA, "gaussian")])
@pytest.mark.parametrize("kind", [DPMean, DPVariance])
def test_means_and_variances_of_a_public_number(kind, price):
    """Within the clip to the bounds the release is tight: few rows, wide bounds."""
    model = kind(*price[:2], method=price[2], bounds=(0, 1))
    data = neighbours("replace", rows=30) if kind is DPMean else apart("replace")
    found = audit(model, *data, 8000)
    # A variance cannot be negative: half of the outputs are 0, and tell less.
    assert (0.5 if kind is DPMean else 0.35) < found <= 1.0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize("kind", [DPMean, DPVariance, DPStandardDeviation])
def test_the_bernstein_sums_of_a_private_number(kind, relation, missing):
    """The sums themselves, which hold more than the value that is made of them."""
    if relation == "replace" and missing == "error":
        pytest.skip("the number is public")
    model = kind(1.0, bounds=(0, 1), neighboring=relation, missing=missing)
    first, second = neighbours(relation)
    plan = model._plan(len(first), 1)
    degree = 1 if kind is DPMean else 2
    sums = [
        bernstein(table_sums(X, np.zeros(1), np.ones(1), degree, True))
        for X in (first, second)
    ]
    direction = np.sign(np.ravel(sums[0] - sums[1]))
    bits, found = RandomBits(), []
    for one in sums:
        noisy = [np.ravel(plan.release.add(one, bits)) for _ in range(8000)]
        # Laplace noise: the loss counts what lies beyond each coordinate.
        shift = np.clip(noisy - np.ravel(sums[1]), *_ends(sums, direction))
        found.append(shift @ direction)
    assert 0.5 < lower_bound(*found) <= 1.0


def _ends(sums, direction):
    change = np.ravel(sums[0] - sums[1])
    return np.minimum(change, 0), np.maximum(change, 0)


@pytest.mark.parametrize("name", ["mean", "sum", "count"])
@pytest.mark.parametrize("price", [(1.0, 0.0, "laplace"), (1.0, DELTA, "gaussian")])
def test_half_the_noise_is_caught(name, price):
    kind, data, options = CASES[name]
    model = kind(*price[:2], method=price[2], **options)
    assert audit(model, *data("replace", rows=30), 3000, noise=0.5) > 1.0


# --- Quantiles: a row that crosses a heavy middle


def crossing(relation, rows=2):
    X = np.repeat([[0.0], [0.5], [1.0]], rows, axis=0)
    other = X[:-1] if relation == "add_remove" else np.vstack([X[:-1], [[0.0]]])
    return X, other


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_medians(relation, noise):
    """On the three points of a coarse grid; the exact loss is 1.85 of 3 (replace)."""
    model = DPMedian(3.0, bounds=(0, 1), resolution=0.5, neighboring=relation)
    found = audit(model, *crossing(relation), 8000, noise)
    assert found <= 3.0 * (1 if noise == 1.0 else 2)
    least = {"replace": 1.0, "add_remove": 0.5}[relation]
    assert found > least * (1 if noise == 1.0 else 1.7)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exponential", "joint", "recursive"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_several_quantiles(method, relation):
    """Exact laws are enumerated in tests.stats.laws; this is the whole release."""
    options = {"bounds": (0, 1), "resolution": 0.5, "neighboring": relation}
    model = DPQuantile([0.3, 0.7], 8.0, method=method, **options)
    data = crossing(relation)
    if relation == "add_remove":  # a row that matters to all three methods
        data = np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [1.0]])
    values = [np.array(list(releases(model, X, 5000))) for X in data]
    found = [lower_bound(*(v[:, column] for v in values)) for column in (0, 1)]
    assert 0.3 < max(found) <= 8.0


# Price, releases and lower limit. The noise is for any smooth sensitivity, and here it
# is as large as can be: a loss of half of epsilon, and of Gaussian noise much less.
SMOOTH = {
    "smooth-cauchy": (5.0, 0.0, 4000, 0.6),
    "smooth-laplace": (5.0, 0.05, 4000, 1.0),
    "smooth-gaussian": (10.0, 1e-3, 8000, 0.05),
}


@pytest.mark.parametrize("method", SMOOTH)
def test_smooth_medians(method):
    """The median itself goes from end to end; limits are six errors away or more."""
    epsilon, delta, count, least = SMOOTH[method]
    model = DPMedian(epsilon, delta, bounds=(0, 1), method=method)
    first = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    second = np.array([[0.0], [0.0], [0.0], [1.0], [1.0]])
    assert least < audit(model, first, second, count) <= epsilon


# --- Bounds that are found: a row that moves the third quartile over two others


def quartile_crossing(relation, quarter=25):
    """The first quartile is a tie at 0, and the upper bound five times the third.

    It is 1 where the third lies above 0.2: the two gaps are as far from its rank in
    the first table, and differ by two ranks in the second ("add_remove": 1.5). That is
    all of the epsilon of one quartile, 3 here, and odds of 4 become 4 exp(-3).
    """
    zeros, ones = 3 * quarter - 1, quarter - 1
    X = np.repeat([[0.0], [0.2], [1.0]], [zeros, 2, ones], axis=0)
    other = X[:-1] if relation == "add_remove" else np.vstack([X[:-1], [[0.0]]])
    return X, other


def found_audit(relation, count, data):
    """Bounds on the loss of the mean and of the bounds, and the price of the bounds."""
    model = DPMean(20.0, bounds=None, outer_bounds=(0, 1), neighboring=relation)
    plan, bits, values = model._plan(len(data[0]), 1), RandomBits(), []
    for X in data:
        runs = []
        for _ in range(count):
            model._release(plan, Table(X), bits, None)
            runs.append([*model.mean_, *model.bounds_[1]])
        values.append(np.transpose(runs))
    found = [lower_bound(*pair) for pair in zip(*values, strict=True)]
    return *found, plan.search.epsilon


@pytest.mark.parametrize("relation", RELATIONS)
def test_found_bounds(relation):
    """Of the bounds log(0.8 / 0.17) = 1.6 is to be seen, 1.2 or more at this count."""
    whole, upper, price = found_audit(relation, 2500, quartile_crossing(relation))
    assert 0.3 * 20 <= price < 0.33 * 20
    assert 0.8 < upper <= price and whole <= 20.0


@pytest.mark.parametrize("relation", RELATIONS)
def test_means_within_found_bounds(relation):
    """The whole release, on rows at the ends."""
    whole, upper, price = found_audit(relation, 2500, neighbours(relation, rows=25))
    assert 0.5 < whole <= 20.0 and upper <= price


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", [DPMean, DPVariance, DPStandardDeviation, DPMedian])
def test_whole_fits(kind, relation):
    """Through validation, planning and publishing."""
    model = kind(1.0, bounds=(0, 1), neighboring=relation)
    data = crossing(relation, 10) if kind is DPMedian else neighbours(relation, 10)
    values = [
        np.array([getattr(model.fit(X), model._value)[0] for _ in range(6000)])
        for X in data
    ]
    assert lower_bound(*values) <= 1.0
