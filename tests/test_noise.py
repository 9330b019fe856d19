"""Every sampler follows its stated law, exactly.

False alarms. A random test computes p-values and fails below ALARM = 1e-9, at fixed
seeds. With a fresh seed each p-value would fall below it with probability 1e-9: exact
binomial and Dvoretzky-Kiefer-Wolfowitz tails, or chi-square and normal tails at group
sizes (LEAST) where the far tail is right within a factor of three. There are fewer than
200 p-values: for any seeds together the false-alarm rate is below 1e-6. The power tests
show that the same p-values catch a scale that is wrong by 5 %.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from skdp import noise
from skdp.noise import (
    bernoulli_exp,
    bernoulli_odds,
    discrete_cauchy,
    discrete_gaussian,
    discrete_laplace,
    gamma_norm,
    uniform_integers,
)

ALARM = 1e-9
LEAST = 500  # expected number in every group of a chi-square test
N = 200_000
LARGE = 2**42

# --- p-values


def binomial_p(count, n, probability):
    """Exact two-sided p-value of a number of successes."""
    law = stats.binom(n, probability)
    return min(1.0, 2 * min(law.cdf(count), law.sf(count - 1)))


def chi_square_p(counts, expected):
    statistic = ((counts - expected) ** 2 / expected).sum()
    return stats.chi2.sf(statistic, counts.size - 1)


def normal_p(values, mean, std):
    """p-value of a sample mean, given the exact moments of one value."""
    return 2 * stats.norm.sf(abs(values.mean() - mean) / std * math.sqrt(values.size))


def uniform_p(values):
    """p-value that values are uniform on [0, 1], without any approximation (DKW)."""
    distance = stats.kstest(values, "uniform").statistic
    return min(1.0, 2 * math.exp(-2 * values.size * distance**2))


def grouped(expected):
    """Label neighbouring cells so that every group expects LEAST at least."""
    labels, label, mass = [], 0, 0.0
    for one in expected:
        labels.append(label)
        mass += one
        if mass >= LEAST:
            label, mass = label + 1, 0.0
    return np.minimum(labels, max(label - 1, 0))


# --- Exact laws


def laplace_weight(k, scale):
    return np.exp(-np.abs(k) / scale)


def gaussian_weight(k, sigma):
    return np.exp(-0.5 * (k / sigma) ** 2)


def cauchy_weight(exponent):
    return lambda k, scale: 1 / (1 + np.abs(k / scale) ** exponent)


def laplace_total(scale):
    return 1 / math.tanh(0.5 / scale)


def gaussian_total(sigma):
    """The theta function: the sum over all integers."""
    return float(mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * mpmath.mpf(sigma) ** 2))))


def cauchy_total(exponent):
    """Sum over all integers of 1/(1 + (k/scale)^exponent), exponent even.

    With the roots r of r^exponent = -1, by partial fractions: the sum of
    r scale pi cot(pi scale r) / exponent.
    """

    def total(scale):
        roots = [
            mpmath.expjpi(mpmath.mpf(2 * j + 1) / exponent) for j in range(exponent)
        ]
        terms = [root * mpmath.cot(mpmath.pi * scale * root) for root in roots]
        return float(mpmath.re(mpmath.pi * scale * mpmath.fsum(terms) / exponent))

    return total


def table(weight, total, scale):
    """The pmf on -w..w; the tails beyond are added to the two ends."""
    width = math.ceil(60 * scale) + 2
    k = np.arange(-width, width + 1)
    pmf = weight(k, scale) / total(scale)
    rest = max(0.0, 1 - math.fsum(pmf)) / 2
    pmf[[0, -1]] += rest
    return k, pmf


# name: sampler, weight, total, scales
SMALL = {
    "laplace": (discrete_laplace, laplace_weight, laplace_total),
    "gaussian": (discrete_gaussian, gaussian_weight, gaussian_total),
    "cauchy 2": (
        lambda scale, *args: discrete_cauchy(scale, 2, *args),
        cauchy_weight(2),
        cauchy_total(2),
    ),
    "cauchy 4": (
        lambda scale, *args: discrete_cauchy(scale, 4, *args),
        cauchy_weight(4),
        cauchy_total(4),
    ),
    "cauchy 16": (
        lambda scale, *args: discrete_cauchy(scale, 16, *args),
        cauchy_weight(16),
        cauchy_total(16),
    ),
}
SCALES = [
    *((name, scale) for name in list(SMALL)[:2] for scale in (0.05, 0.3, 1, 3.7, 50)),
    *((name, scale) for name in list(SMALL)[2:] for scale in (1, 3, 20, 50)),
]


def small_p(name, sample, scale):
    """The smaller p-value of two: of P(X = 0), and of the law in groups."""
    _, weight, total = SMALL[name]
    k, pmf = table(weight, total, scale)
    counts = np.bincount(np.clip(sample, k[0], k[-1]) - k[0], minlength=k.size)
    at_zero = binomial_p(counts[k == 0][0], sample.size, pmf[k == 0][0])
    labels = grouped(sample.size * pmf)
    if labels[-1] == 0:  # one group only: all but a few values are zero
        return at_zero
    groups = chi_square_p(
        np.bincount(labels, counts), sample.size * np.bincount(labels, pmf)
    )
    return min(at_zero, groups)


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_totals_of_the_laws(name, scale):
    _, weight, total = SMALL[name]
    k = np.arange(-20_000, 20_001)
    power = {"cauchy 2": 2, "cauchy 4": 4}.get(name, 16)
    beyond = 2 * scale**power * 20_000.5 ** (1 - power) / (power - 1)
    heavy = name.startswith("cauchy")
    partial = math.fsum(weight(k, scale)) + (beyond if heavy else 0)
    assert partial == pytest.approx(total(scale), rel=1e-8)


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_small_scale_follows_the_pmf(name, scale):
    sample = SMALL[name][0](scale, N, 1)
    assert small_p(name, sample, scale) > ALARM


@pytest.mark.parametrize(
    ("name", "scale"),
    [case for case in SCALES if case[1] in (0.3, 1, 3.7, 50) and "c" not in case[0]]
    + [("cauchy 2", 20), ("cauchy 4", 20), ("cauchy 16", 20)],
)
def test_power_small_scale_off_by_five_percent(name, scale):
    wrong = 21 if scale == 20 else Fraction(scale) * Fraction(21, 20)
    sample = SMALL[name][0](wrong, N, 2)
    assert small_p(name, sample, scale) < ALARM


# At large scales: cells are ranges of the value x residues of its last bits. The
# distribution functions of the continuous laws at k + 1/2 are exact to 2**-80, and the
# last bits are uniform in every range to 2**-35.


def cauchy_cdf(exponent):
    def primitive(z):
        return z * special.hyp2f1(1, 1 / exponent, 1 + 1 / exponent, -(z**exponent))

    half = math.pi / exponent / math.sin(math.pi / exponent)
    return lambda z: 0.5 + np.sign(z) * primitive(abs(z)) / (2 * half)


LARGE_LAWS = {
    "laplace": (discrete_laplace, stats.laplace.cdf),
    "gaussian": (discrete_gaussian, stats.norm.cdf),
    **{
        f"cauchy {g}": (
            lambda scale, size, seed, g=g: discrete_cauchy(scale, g, size, seed),
            cauchy_cdf(g),
        )
        for g in (2, 3, 4, 16)
    },
}


def large_p(name, sample, scale):
    cdf = LARGE_LAWS[name][1]
    position = np.linspace(-40, 40, 200_001)
    levels = np.interp(np.arange(1, 48) / 48, cdf(position), position)
    edges = np.rint(levels * scale).astype(np.int64)  # P(X <= edge) is known exactly
    ranges = np.diff(np.r_[0.0, cdf((edges + 0.5) / scale), 1.0])
    cells = 8 * np.searchsorted(edges, sample) + sample % 8
    expected = np.repeat(sample.size * ranges / 8, 8)
    assert expected.min() >= 0.9 * LEAST
    return chi_square_p(np.bincount(cells, minlength=expected.size), expected)


@pytest.mark.parametrize("name", LARGE_LAWS)
def test_large_scale_follows_the_law(name):
    sample = LARGE_LAWS[name][0](LARGE, N, 3)
    assert large_p(name, sample, LARGE) > ALARM


@pytest.mark.parametrize("name", LARGE_LAWS)
def test_power_large_scale_off_by_five_percent(name):
    sample = LARGE_LAWS[name][0](LARGE * 21 // 20, 3 * N, 4)
    assert large_p(name, sample, LARGE) < ALARM


def test_power_large_scale_last_bits():
    sample = discrete_gaussian(LARGE, N, 5)
    sample[::10] &= -2  # one value in ten has lost its last bit
    assert large_p("gaussian", sample, LARGE) < ALARM


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.3, 1, 3.7, 50, LARGE])
def test_moments(name, scale):
    if scale == LARGE:
        second, fourth = {"laplace": (2.0, 24.0), "gaussian": (1.0, 3.0)}[name]
        values = LARGE_LAWS[name][0](scale, N, 6) / scale
    else:
        sampler, weight, total = SMALL[name]
        k, pmf = table(weight, total, scale)
        second, fourth = (pmf * k**2.0).sum(), (pmf * k**4.0).sum()
        values = sampler(scale, N, 6)
    assert normal_p(values, 0.0, math.sqrt(second)) > ALARM
    assert normal_p(values**2.0, second, math.sqrt(fourth - second**2)) > ALARM


@pytest.mark.parametrize("exponent", [2, 4])
@pytest.mark.parametrize("scale", [1, 20])
def test_moments_of_cut_off_cauchy(exponent, scale):
    # The moments themselves do not exist, or are too noisy to test.
    _, weight, total = SMALL[f"cauchy {exponent}"]
    k, pmf = table(weight, total, scale)
    cut = np.minimum(np.abs(k), 10 * scale)
    values = discrete_cauchy(scale, exponent, N, 7)
    mean, square = (pmf * cut).sum(), (pmf * cut**2).sum()
    sizes = np.minimum(np.abs(values), 10 * scale)
    assert normal_p(sizes, mean, math.sqrt(square - mean**2)) > ALARM
    assert normal_p(np.sign(values) * sizes, 0.0, math.sqrt(square)) > ALARM


def test_values_are_independent_of_their_predecessors():
    values = discrete_gaussian(LARGE, N, 8) / LARGE
    for lag in (1, 2, 3):
        assert normal_p(values[lag:] * values[:-lag], 0.0, 1.0) > ALARM


@pytest.mark.parametrize("exponent", [2, 3])
@pytest.mark.parametrize("scale", [2**53, 2**53 - 1])
def test_cauchy_beyond_int64_is_capped(exponent, scale):
    sample = np.abs(discrete_cauchy(scale, exponent, N, 9))
    tail = 2 * (1 - cauchy_cdf(exponent)(2**62 / scale))
    assert binomial_p((sample >= 2**62).sum(), N, tail) > ALARM
    assert sample.max() <= 2**62


def test_laplace_scale_is_rounded_up_slightly():
    for scale in (2.0**-17, 0.05, 0.3, 1, 3.7, 50, 1e9 / 7, 2.0**42, 2**53):
        drawn = noise._LaplaceSampler(Fraction(scale)).scale
        assert 0 <= drawn / Fraction(scale) - 1 <= Fraction(1, 2**38)


@pytest.mark.parametrize("sampler", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("scale", [1e-5, 1e-20, 1e-200, 5e-324, Fraction(1, 10**400)])
def test_vanishing_scale_gives_zeros(sampler, scale):
    # P(X != 0) < 2 exp(-1/1e-5): never.
    assert not sampler(scale, 1000, 0).any()


@pytest.mark.parametrize("sampler", [discrete_laplace, discrete_gaussian])
def test_type_of_scale_does_not_matter(sampler):
    expected = sampler(12, 50, 0)
    for same in (12.0, Fraction(12), np.float64(12), np.int64(12), np.int32(12)):
        np.testing.assert_array_equal(sampler(same, 50, 0), expected)


def test_large_numpy_integer_scale():
    np.testing.assert_array_equal(
        discrete_gaussian(np.int64(2**40), 50, 0), discrete_gaussian(2**40, 50, 0)
    )


# --- Uniform and Bernoulli


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 100])
def test_uniform_integers(bound):
    counts = np.bincount(uniform_integers(bound, N, 10), minlength=bound)
    assert counts.size == bound
    assert chi_square_p(counts, np.full(bound, N / bound)) > ALARM or bound == 1


@pytest.mark.parametrize("bound", [2**63, 2**63 - 1, 3 * 2**61 + 1, 10**18 + 9])
def test_uniform_integers_large_bound(bound):
    sample = uniform_integers(bound, N, 11)
    assert sample.min() >= 0 and int(sample.max()) < bound
    assert uniform_p(sample / bound) > ALARM
    low = np.bincount(sample % 128, minlength=128)
    assert chi_square_p(low, np.full(128, N / 128)) > ALARM


@pytest.mark.parametrize("exponent", [0, 1e-12, 1e-3, 0.5, 1, 3.25, 10, 40])
def test_bernoulli_exp(exponent):
    count = bernoulli_exp(np.full(N, exponent), 1, 12).sum()
    assert binomial_p(count, N, math.exp(-exponent)) > ALARM
    if 1e-3 <= exponent <= 3.25:
        assert binomial_p(count, N, math.exp(-1.05 * exponent - 0.01)) < ALARM


def test_bernoulli_exp_with_a_divisor():
    exponents = np.arange(8, dtype=np.int64)[:, None] * np.ones(N // 8, np.int64)
    accepted = bernoulli_exp(exponents, 3, 13)
    assert accepted.shape == exponents.shape and accepted.dtype == bool
    for k, row in enumerate(accepted):
        assert binomial_p(row.sum(), row.size, math.exp(-k / 3)) > ALARM


@pytest.mark.parametrize("weight", [1, 3, 1000])
@pytest.mark.parametrize("gamma", [0, 0.1, 1, 8.5])
def test_bernoulli_odds(weight, gamma):
    sample = bernoulli_odds(weight, gamma, N, 14)
    assert set(np.unique(sample)) <= {0, 1}
    odds = weight * math.exp(-gamma)
    assert binomial_p(sample.sum(), N, odds / (1 + odds)) > ALARM


@pytest.mark.parametrize("gamma", [1e3, 1e300, np.finfo(float).max])
def test_bernoulli_of_a_huge_exponent(gamma):
    assert bernoulli_exp(gamma, 1, 0) is False
    assert bernoulli_odds(5, float(gamma), None, 0) == 0


# --- Gamma norm


def norm_p(vectors, scale):
    radii = np.linalg.norm(vectors / scale, axis=1)
    return uniform_p(special.gammainc(vectors.shape[1], radii))


@pytest.mark.parametrize("n_features", [1, 2, 3, 10])
def test_gamma_norm_radius(n_features):
    vectors = gamma_norm(2.0**30, n_features, N // 4, 15)
    assert norm_p(vectors, 2.0**30) > ALARM
    assert norm_p(vectors, 1.05 * 2.0**30) < ALARM  # power


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_gamma_norm_direction_moments(d):
    vectors = gamma_norm(2.0**30, d, N // 4, 16)
    radii = np.linalg.norm(vectors, axis=1)
    unit = vectors / radii[:, None]
    assert normal_p(unit[:, 0], 0.0, math.sqrt(1 / d)) > ALARM
    # E[u_i^2] = 1/d, E[u_i^4] = 3/(d (d+2)) and E[u_i^2 u_j^2] = 1/(d (d+2))
    if d > 1:
        spread = math.sqrt(3 / (d * (d + 2)) - 1 / d**2)
        assert normal_p(unit[:, -1] ** 2, 1 / d, spread) > ALARM
        product = unit[:, 0] * unit[:, -1]
        assert normal_p(product, 0.0, math.sqrt(1 / (d * (d + 2)))) > ALARM
    # The direction does not depend on the radius.
    centred = (radii / 2.0**30 - d) / math.sqrt(d)
    assert normal_p(centred * unit[:, 0], 0.0, math.sqrt(1 / d)) > ALARM


def test_gamma_norm_direction_is_uniform():
    plane = gamma_norm(2.0**30, 2, N // 4, 17)
    angle = np.arctan2(plane[:, 1], plane[:, 0])
    assert uniform_p(angle / (2 * np.pi) + 0.5) > ALARM
    space = gamma_norm(2.0**30, 3, N // 4, 18)
    height = space[:, 2] / np.linalg.norm(space, axis=1)  # Archimedes: uniform
    assert uniform_p((height + 1) / 2) > ALARM
