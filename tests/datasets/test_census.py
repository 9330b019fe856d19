"""The census follows its stated law, stays in its bounds and is reproducible.

Random tests compare a mean with its exact value within 6 standard errors, at fixed
seeds: for a fresh seed each comparison would fail with probability 2e-9, the fewer
than 100 of them together with probability below 1e-6.
"""

import subprocess
import sys
from dataclasses import FrozenInstanceError
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.interpolate import CubicSpline

from skdp.datasets import CENSUS_LAW, CENSUS_MARGINS, make_census
from skdp.datasets import _census as module

LAW = CENSUS_LAW
COLUMNS = ["age", "sex", "education", "hours", "married", "region"]
N = 400_000


@cache
def sample():
    return make_census(N, random_state=20_240)


def assert_mean(values, expected, z=6.0):
    values = np.asarray(values, dtype=float)
    error = z * values.std() / np.sqrt(values.size)
    assert abs(values.mean() - expected) < error + 1e-12


# ---------------------------------------------------------------- the exact law


def rounded_normal_pmf(hours, mean, std, low, high):
    cdf = stats.norm(mean, std).cdf
    upper = np.where(hours >= high, 1.0, cdf(hours + 0.5))
    lower = np.where(hours <= low, 0.0, cdf(hours - 0.5))
    return np.where((hours >= low) & (hours <= high), upper - lower, 0.0)


def hours_pmf(part_time):
    """P(hours = 1..80 | working, probability of part time)."""
    hours = np.arange(1, 81)
    part = rounded_normal_pmf(hours, *LAW.part_time_hours, *LAW.part_time_range)
    full = rounded_normal_pmf(hours, *LAW.full_time_hours, *LAW.full_time_range)
    full = LAW.full_time_heap * (hours == 40) + (1 - LAW.full_time_heap) * full
    return part_time[..., None] * part + (1 - part_time[..., None]) * full


@cache
def cells():
    """Workers: (weight, location); others: (weight, location); P(income = 0)."""
    age = np.arange(18, 96)[:, None]
    sex = np.array([0, 1])
    female = LAW.female_probability(age)
    p_cell = LAW.age_pmf()[:, None] * np.hstack([1 - female, female])
    p_work = LAW.working_probability(age, sex)
    p_hours = (p_cell * p_work)[..., None] * hours_pmf(
        LAW.part_time_probability(age, sex)
    )
    p_school = LAW.education_pmf(age[:, 0])
    years = np.array(LAW.education_years)
    working = np.einsum(
        "ash,ae,r->asher", p_hours, p_school, np.array(LAW.region_shares)
    )
    where = LAW.log_earnings(
        age[:, :, None, None, None],
        sex[:, None, None, None],
        years[:, None],
        np.arange(1, 81)[:, None, None],
        np.arange(5),
    )
    idle = (p_cell * (1 - p_work)).sum(1)
    none = np.where(age[:, 0] >= LAW.pension_from, LAW.no_income[1], LAW.no_income[0])
    benefit = (idle * (1 - none))[:, None] * p_school
    return (
        (working.ravel(), where.ravel()),
        (benefit.ravel(), LAW.log_benefits(age, years).ravel()),
        float(idle @ none),
    )


def shock(location):
    """The law of log income among workers, a normal plus an exponential."""
    tail, sigma = LAW.income_tail, LAW.income_sigma
    return stats.exponnorm(tail / sigma, location - tail, sigma)


def exceeds(threshold):
    """P(income > threshold), threshold a whole number below the cap."""
    (w, at), (v, benefit_at), _ = cells()
    x = np.log(threshold + 0.5)
    return w @ shock(at).sf(x) + v @ stats.norm(benefit_at, LAW.benefit_sigma).sf(x)


def mean_income():
    """E min(income, cap): the integral of the survival function of log income."""
    (w, at), (v, benefit_at), _ = cells()
    x = np.linspace(-5, np.log(LAW.income_cap), 6001)
    grid = np.linspace(at.min(), at.max(), 400)
    earned = [np.trapezoid(np.exp(x) * shock(m).sf(x), x) for m in grid]
    normal = [
        np.trapezoid(np.exp(x) * stats.norm(m, LAW.benefit_sigma).sf(x), x)
        for m in benefit_at
    ]
    return w @ CubicSpline(grid, earned)(at) + v @ np.array(normal)


@cache
def exact_margins():
    age = np.arange(18, 96)
    p_age = LAW.age_pmf()
    female = LAW.female_probability(age)
    p_cell = p_age[:, None] * np.column_stack([1 - female, female])
    cell = age[:, None], np.array([0, 1])
    p_work = p_cell * LAW.working_probability(*cell)
    hours = hours_pmf(LAW.part_time_probability(*cell)) @ np.arange(1, 81)
    return {
        "age": p_age @ age,
        "female": p_age @ female,
        "education": p_age @ LAW.education_pmf(age) @ np.array(LAW.education_years),
        "hours": (p_work * hours).sum(),
        "working": p_work.sum(),
        "married": (p_cell * LAW.married_probability(*cell)).sum(),
        "income": mean_income(),
        "median_income": optimize.brentq(lambda t: exceeds(t - 0.5) - 0.5, 1e4, 1e5),
        "no_income": cells()[2],
        "high_income": exceeds(LAW.high_income_above),
    }


def test_stated_margins_are_the_exact_ones():
    exact = exact_margins()
    assert set(exact) == set(CENSUS_MARGINS)
    for name, value in CENSUS_MARGINS.items():
        digits = 1 if value > 1000 else 4
        assert value == pytest.approx(exact[name], abs=0.6 * 10**-digits), name


def test_docs_state_the_same_margins():
    page = Path(__file__).parents[2] / "docs" / "datasets.rst"
    if not page.exists():
        pytest.skip("the documentation is not beside the tests")
    text = page.read_text(encoding="utf-8")
    for value in CENSUS_MARGINS.values():
        assert (f"{value:,.1f}" if value > 1000 else f"{value:.4f}") in text


# ------------------------------------------------------- the sample follows the law


def test_margins_of_the_sample():
    census, exact = sample(), exact_margins()
    columns = dict(zip(COLUMNS, census.data.T, strict=True))
    assert_mean(columns["age"], exact["age"])
    assert_mean(columns["sex"], exact["female"])
    assert_mean(columns["education"], exact["education"])
    assert_mean(columns["hours"], exact["hours"])
    assert_mean(columns["hours"] > 0, exact["working"])
    assert_mean(columns["married"], exact["married"])
    assert_mean(census.income, exact["income"])
    assert_mean(census.income > exact["median_income"], 0.5)
    assert_mean(census.income == 0, exact["no_income"])
    assert_mean(census.target, exact["high_income"])


def test_age_and_region_are_drawn_from_their_pmf():
    age, region = sample().data[:, 0].astype(int), sample().data[:, 5].astype(int)
    counts = np.bincount(age - 18, minlength=78)
    assert stats.chisquare(counts, N * LAW.age_pmf()).pvalue > 1e-9
    shares = np.bincount(region, minlength=5)
    assert stats.chisquare(shares, N * np.array(LAW.region_shares)).pvalue > 1e-9


@pytest.mark.parametrize(
    "low, high", [(18, 23), (24, 39), (40, 59), (60, 74), (75, 95)]
)
def test_conditional_laws_by_age(low, high):
    data = sample().data
    rows = data[(data[:, 0] >= low) & (data[:, 0] <= high)]
    age, sex = rows[:, 0].astype(int), rows[:, 1].astype(int)
    hours, married = rows[:, 3], rows[:, 4]
    assert_mean(sex - LAW.female_probability(age), 0.0)
    assert_mean(married - LAW.married_probability(age, sex), 0.0)
    assert_mean((hours > 0) - LAW.working_probability(age, sex), 0.0)
    school = rows[:, [2]] == LAW.education_years
    for column in (school - LAW.education_pmf(age)).T:
        assert_mean(column, 0.0)
    worker = hours > 0
    p_hours = hours_pmf(LAW.part_time_probability(age[worker], sex[worker]))
    assert_mean((hours[worker] < 30) - p_hours[:, :29].sum(1), 0.0)
    assert_mean((hours[worker] == 40) - p_hours[:, 39], 0.0)


def test_least_squares_finds_the_true_income_coefficients():
    data, income = sample().data[:100_000], sample().income[:100_000]
    data, income = data[data[:, 3] > 0], income[data[:, 3] > 0]
    age, sex, education, hours, married, region = data.T
    design = np.column_stack(
        [
            np.ones(len(data)),
            education - 12,
            np.log(hours / 40),
            (age - LAW.income_peak_age) ** 2,
            sex,
            *(region == code for code in range(1, 5)),
            married,
        ]
    )
    truth = [
        LAW.income_log,
        LAW.income_per_school_year,
        LAW.income_hours_elasticity,
        LAW.income_age_curvature,
        LAW.income_female,
        *LAW.income_region[1:],
        0.0,
    ]
    # The cap moves each coefficient by less than a third of its standard error.
    coef, *_ = np.linalg.lstsq(design, np.log(income), rcond=None)
    residual = np.log(income) - design @ coef
    std_error = residual.std() * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    assert np.all(np.abs(coef - truth) < 6 * std_error)
    spread = np.hypot(LAW.income_sigma, LAW.income_tail)
    assert residual.std() == pytest.approx(spread, rel=0.05)


def test_signs_of_the_correlations():
    age, sex, education, hours, married, region = sample().data.T
    income = sample().income
    for column, sign in [(sex, -1), (education, 1), (hours, 1), (married, 1)]:
        assert sign * stats.spearmanr(column, income).statistic > 0.02
    grown = age >= 30
    assert np.corrcoef(age[grown], education[grown])[0, 1] < -0.1
    assert np.corrcoef(age[age < 45], married[age < 45])[0, 1] > 0.3
    assert income[region == 4].mean() > income[region == 2].mean()
    middle = income[(age > 40) & (age < 60)].mean()
    assert middle > income[age < 30].mean() and middle > income[age > 70].mean()
    assert stats.skew(income) > 2


def test_logistic_regression_learns_it():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = make_census(20_000, random_state=3, return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(X[:10_000], y[:10_000])
    scores = model.decision_function(X[10_000:])
    # The standard error is about 0.004; 0.85 is 12 of them from either limit.
    assert 0.80 < roc_auc_score(y[10_000:], scores) < 0.90
    assert 0.20 < y.mean() < 0.30


# --------------------------------------------------------- what the arrays look like


@pytest.mark.parametrize("n_samples", [1, 2, module._BLOCK, module._BLOCK + 1, N])
def test_bounds_are_never_left(n_samples):
    census = sample() if n_samples == N else make_census(n_samples, random_state=1)
    low, high = census.bounds
    assert census.data.shape == (n_samples, 6)
    assert np.all((census.data >= low) & (census.data <= high))
    assert np.all(census.data == np.rint(census.data))
    assert np.all(np.isin(census.data[:, 2], list(census.categories["education"])))
    assert census.income_bounds == (0.0, 500_000.0)
    assert np.all((census.income >= 0) & (census.income <= 500_000))
    assert np.all(census.income == np.rint(census.income))
    assert np.all(census.data[:, 2] <= census.data[:, 0] - 6)


def test_the_bounds_hold_because_the_law_clips(monkeypatch):
    class Extreme:
        def __init__(self, sign):
            self.sign = sign

        def random(self, n):
            return np.full(n, np.nextafter(1.0, 0.0) if self.sign > 0 else 0.0)

        def standard_normal(self, n):
            return np.full(n, self.sign * 40.0)

        def standard_exponential(self, n):
            return np.full(n, 100.0 if self.sign > 0 else 0.0)

    for sign in (-1, 1):
        monkeypatch.setattr(module, "_generator", lambda _, s=sign: Extreme(s))
        census = make_census(3)
        low, high = census.bounds
        assert np.all((census.data >= low) & (census.data <= high))
        assert np.all((census.income >= 0) & (census.income <= 500_000))


def test_bunch():
    census = make_census(100, random_state=0)
    assert census.data.dtype == np.float64 and census.income.dtype == np.float64
    assert census.target.dtype == np.int64
    assert census.data.flags.c_contiguous
    assert np.array_equal(census.target, census.income > 50_000)
    assert census.frame is None
    assert census.feature_names == COLUMNS and len(census.target_names) == 2
    assert census.categories["sex"] == {0: "male", 1: "female"}
    assert census.categories["region"][4] == "capital"
    assert all(len(bound) == 6 for bound in census.bounds)
    assert "high_income" in census.DESCR


def test_defaults():
    assert make_census().data.shape == (50_000, 6)


def test_the_law_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        LAW.income_log = 0.0
    with pytest.raises(TypeError):
        CENSUS_MARGINS["age"] = 0.0
    make_census(1).categories["sex"][0] = "changed"
    assert make_census(1).categories["sex"][0] == "male"


# ------------------------------------------------------------------------ the seeds


@pytest.mark.parametrize(
    "seed",
    [
        lambda: 7,
        lambda: np.int64(7),
        lambda: np.random.default_rng(7),
        lambda: np.random.RandomState(7),
    ],
)
def test_seeds_reproduce(seed):
    first, second = make_census(500, seed()), make_census(500, random_state=seed())
    assert np.array_equal(first.data, second.data)
    assert np.array_equal(first.income, second.income)


def test_different_seeds_differ():
    rng, legacy = np.random.default_rng(0), np.random.RandomState(0)
    seeds = [0, 1, None, None, rng, rng, legacy, legacy]
    # Generator(0) starts as the seed 0 does, so it is left to its second draw.
    draws = [make_census(500, seed).income.tobytes() for seed in seeds]
    assert draws[4] == draws[0]
    assert len(set(draws)) == len(draws) - 1


# --------------------------------------------------------------------- pandas frames


def test_frame_equals_arrays():
    pd = pytest.importorskip("pandas")
    arrays = make_census(2_000, random_state=5)
    census = make_census(2_000, random_state=5, as_frame=True)
    frame = census.frame
    assert list(frame) == [*COLUMNS, "income", "high_income"]
    assert list(census.data) == COLUMNS
    assert np.array_equal(census.data.to_numpy(), arrays.data)
    assert np.array_equal(census.target, arrays.target)
    assert np.array_equal(census.income, arrays.income)
    assert census.target.name == "high_income" and census.income.name == "income"
    for name in ("age", "hours", "married", "income", "high_income"):
        expected = {
            **census.data,
            "income": arrays.income,
            "high_income": arrays.target,
        }
        assert np.array_equal(frame[name], expected[name])
    for name, words in arrays.categories.items():
        assert isinstance(frame[name].dtype, pd.CategoricalDtype)
        assert list(frame[name].cat.categories) == list(words.values())
        assert np.array_equal(frame[name], census.data[name].map(words))
    assert frame["education"].cat.ordered and not frame["region"].cat.ordered
    assert frame["age"].dtype == np.int64 and frame["married"].dtype == bool


def test_return_X_y():
    X, y = make_census(50, 2, return_X_y=True)
    census = make_census(50, 2)
    assert np.array_equal(X, census.data) and np.array_equal(y, census.target)


def test_return_X_y_as_frame():
    pytest.importorskip("pandas")
    X, y = make_census(50, 2, return_X_y=True, as_frame=True)
    assert list(X) == COLUMNS and y.name == "high_income"


def test_missing_pandas_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"as_frame=True.*needs pandas"):
        make_census(10, as_frame=True)
    assert make_census(10).data.shape == (10, 6)


def test_import_is_light():
    code = (
        "import sys, skdp; before = set(sys.modules); import skdp.datasets as d;"
        "new = set(sys.modules) - before;"
        "assert not new & {'sklearn', 'pandas', 'matplotlib'}, new"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ----------------------------------------------------------------------- the errors


@pytest.mark.parametrize(
    "value, error",
    [(0, ValueError), (-3, ValueError)]
    + [(bad, TypeError) for bad in (True, np.True_, 10.0, "10", None, [10])],
)
def test_bad_n_samples(value, error):
    with pytest.raises(error, match="'n_samples' parameter of make_census") as info:
        make_census(value)
    assert f"Got {value!r} instead" in str(info.value)


@pytest.mark.parametrize(
    "value, error",
    [(-1, ValueError), (True, TypeError), (1.5, TypeError), ("seed", TypeError)],
)
def test_bad_random_state(value, error):
    with pytest.raises(error, match="'random_state' parameter of make_census") as info:
        make_census(10, value)
    assert f"Got {value!r} instead" in str(info.value)


@pytest.mark.parametrize("name", ["as_frame", "return_X_y"])
@pytest.mark.parametrize("value", [1, "yes", None])
def test_bad_flags(name, value):
    with pytest.raises(TypeError, match=f"'{name}' parameter of make_census"):
        make_census(10, **{name: value})


def test_as_frame_is_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        make_census(10, 0, True)
