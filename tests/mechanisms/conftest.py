"""Exact hockey sticks, audits and goodness of fit, as fixtures that return functions.

Random tests fail by chance with a probability below 1e-7 each: audits use
Clopper-Pearson bounds at that level, goodness of fit a chi-square test at 1e-8.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

AUDIT_FAILURE = 1e-7
FIT_FAILURE = 1e-8


# --- Distributions of integer noise, in exact proportion


def _laplace_pmf(scale, width):
    """P(X = k) for k in -width..width, with P(X = k) ~ exp(-|k|/scale)."""
    k = np.abs(np.arange(-width, width + 1))
    return math.tanh(0.5 / scale) * np.exp(-k / scale)


def _gaussian_pmf(sigma, width):
    """P(X = k) for k in -width..width, with P(X = k) ~ exp(-k^2/(2 sigma^2))."""
    weights = np.exp(-0.5 * (np.arange(-width, width + 1) / sigma) ** 2)
    return weights / math.fsum(weights)


def _hockey_stick(first, second, epsilon):
    """The smallest delta for which first <= e^epsilon second + delta on every event."""
    gap = np.asarray(first) - math.exp(epsilon) * np.asarray(second)
    return math.fsum(gap[gap > 0])


def _shifted(pmf, shift):
    """The pmf and its copy that is moved by ``shift``, on a common support."""
    pad = np.zeros(shift)
    return np.concatenate([pmf, pad]), np.concatenate([pad, pmf])


def _gaussian_delta(epsilon, shift):
    """Balle and Wang's profile to 60 digits; ``shift`` is sensitivity/sigma."""
    with mpmath.workdps(60):
        m, e = mpmath.mpf(shift), mpmath.mpf(epsilon)
        lower = mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        return float(mpmath.ncdf(m / 2 - e / m) - lower)


# --- Audits


def _clopper_pearson(count, trials, failure=AUDIT_FAILURE):
    """Bounds on a probability; each of the two fails with probability failure/2."""
    low = stats.beta.ppf(failure / 2, count, trials - count + 1) if count else 0.0
    high = stats.beta.isf(failure / 2, count + 1, trials - count)
    return float(low), 1.0 if count == trials else float(high)


def _bound(inside, outside, trials, delta, failure):
    low = _clopper_pearson(inside, trials[0], failure)[0] - delta
    high = _clopper_pearson(outside, trials[1], failure)[1]
    return math.log(low / high) if low > 0 else -math.inf


def _events(outputs):
    """Half lines between the quantiles and, for few values, each value."""
    values = np.unique(outputs)
    if values.size > 64:
        values = np.unique(np.quantile(outputs, np.linspace(0.005, 0.995, 61)))
    for value in values:
        yield lambda y, value=value: y <= value
        yield lambda y, value=value: y >= value
        yield lambda y, value=value: y == value


def _audit(first, second, delta=0.0):
    """A lower bound on epsilon from the outputs on two neighbours.

    It lies above the true epsilon with probability 1e-7 at most. The event, and which
    neighbour is the likelier one, are chosen on the first quarter of the outputs; the
    others are measured.
    """
    sides = [np.split(np.asarray(one), [len(one) // 4]) for one in (first, second)]
    found = []
    for a, b in (sides, sides[::-1]):
        trials = (a[0].size, b[0].size)
        for event in _events(np.concatenate([a[0], b[0]])):
            counts = np.count_nonzero(event(a[0])), np.count_nonzero(event(b[0]))
            found.append((_bound(*counts, trials, delta, 1e-4), event, a[1], b[1]))
    _, event, a, b = max(found, key=lambda item: item[0])
    counts = np.count_nonzero(event(a)), np.count_nonzero(event(b))
    return max(0.0, _bound(*counts, (a.size, b.size), delta, AUDIT_FAILURE))


# --- Goodness of fit


def _fits(counts, probabilities):
    """Whether a chi-square test at level 1e-8 accepts the probabilities.

    Bins with fewer than 10 expected counts are merged into one.
    """
    counts = np.asarray(counts, dtype=float)
    expected = counts.sum() * np.asarray(probabilities, dtype=float)
    small = expected < 10
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
        if expected[-1] < 10:  # what is left must be as rare as it should be
            rare = stats.poisson.sf(counts[-1] - 1, expected[-1])
            if rare < FIT_FAILURE / 2:
                return False
            counts, expected = counts[:-1], expected[:-1]
    if expected.size < 2:
        return True
    statistic = ((counts - expected) ** 2 / expected).sum()
    return stats.chi2.sf(statistic, expected.size - 1) > FIT_FAILURE / 2


def _fits_cdf(values, cdf, bins=64):
    """Whether the chi-square test accepts a continuous distribution function."""
    position = np.clip((cdf(np.ravel(values)) * bins).astype(int), 0, bins - 1)
    return _fits(np.bincount(position, minlength=bins), np.full(bins, 1 / bins))


@pytest.fixture(scope="session")
def laplace_pmf():
    return _laplace_pmf


@pytest.fixture(scope="session")
def gaussian_pmf():
    return _gaussian_pmf


@pytest.fixture(scope="session")
def hockey_stick():
    return _hockey_stick


@pytest.fixture(scope="session")
def shifted():
    return _shifted


@pytest.fixture(scope="session")
def gaussian_delta():
    return _gaussian_delta


@pytest.fixture(scope="session")
def clopper_pearson():
    return _clopper_pearson


@pytest.fixture(scope="session")
def audit():
    return _audit


@pytest.fixture(scope="session")
def fits():
    return _fits


@pytest.fixture(scope="session")
def fits_cdf():
    return _fits_cdf
