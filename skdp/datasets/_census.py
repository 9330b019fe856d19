"""Drawing a synthetic census from its law."""

from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np

from skdp.datasets._census_law import CENSUS_LAW

# Rows are drawn in blocks, so that the temporaries stay small at any n_samples.
_BLOCK = 65_536

_FEATURES = ("age", "sex", "education", "hours", "married", "region")
_SEXES = ("male", "female")

_DESCR = """\
Synthetic census: a made-up population drawn from skdp.datasets.CENSUS_LAW

age          years, 18 to 95
sex          0 male, 1 female
education    years of schooling: 9, 12, 14, 16, 18 or 21
hours        paid hours per week, 0 to 80
married      0 or 1
region       0 north, 1 east, 2 south, 3 west, 4 capital
income       whole units per year, 0 to 500,000
high_income  1 if income > 50,000 (the target)
"""


def _cumulative(pmf):
    cdf = np.cumsum(pmf, axis=-1)
    cdf[..., -1] = 1.0  # a uniform draw below 1 must not fall behind the last one
    return cdf


def _tables(law):
    """The probabilities, by age along the rows and by sex along the columns."""
    low, high = law.age_range
    ages = np.arange(low, high + 1)
    cell = ages[:, None], np.array([0, 1])
    return SimpleNamespace(
        age=_cumulative(law.age_pmf()),
        female=law.female_probability(ages),
        education=_cumulative(law.education_pmf(ages)),
        region=_cumulative(law.region_shares),
        married=law.married_probability(*cell),
        working=law.working_probability(*cell),
        part_time=law.part_time_probability(*cell),
    )


def _rounded_normal(z, mean_and_std, bounds):
    mean, std = mean_and_std
    return np.clip(np.rint(mean + std * z), *bounds)


def _draw_hours(law, rng, p_working, p_part_time):
    n = len(p_working)
    z = rng.standard_normal(n)
    full = _rounded_normal(z, law.full_time_hours, law.full_time_range)
    full[rng.random(n) < law.full_time_heap] = 40
    part = _rounded_normal(z, law.part_time_hours, law.part_time_range)
    hours = np.where(rng.random(n) < p_part_time, part, full)
    hours[rng.random(n) >= p_working] = 0
    return hours


def _draw_income(law, rng, age, female, education, hours, region):
    n = len(age)
    working = hours > 0
    z = rng.standard_normal(n)
    tail = law.income_tail * (rng.standard_exponential(n) - 1.0)
    some_hours = np.maximum(hours, 1.0)  # the log of 0 hours would not be used
    earned = law.log_earnings(age, female, education, some_hours, region)
    earned += law.income_sigma * z + tail
    benefit = law.log_benefits(age, education) + law.benefit_sigma * z
    income = np.exp(np.where(working, earned, benefit))
    p_none = np.asarray(law.no_income)[(age >= law.pension_from).astype(np.intp)]
    income[~working & (rng.random(n) < p_none)] = 0.0
    return np.minimum(np.rint(income), law.income_cap)


def _fill(law, tables, rng, data, income):
    """Draw one block of rows into `data` and `income`."""
    n = len(income)
    row = np.searchsorted(tables.age, rng.random(n), side="right")
    age = row + law.age_range[0]
    female = (rng.random(n) < tables.female[row]).astype(np.intp)
    rank = rng.random(n)
    level = np.zeros(n, dtype=np.intp)
    for at_most in tables.education.T[:-1]:
        level += rank >= at_most[row]
    education = np.asarray(law.education_years)[level]
    region = np.searchsorted(tables.region, rng.random(n), side="right")
    p_working, p_part_time = tables.working[row, female], tables.part_time[row, female]
    hours = _draw_hours(law, rng, p_working, p_part_time)
    married = rng.random(n) < tables.married[row, female]
    for j, column in enumerate((age, female, education, hours, married, region)):
        data[:, j] = column
    income[:] = _draw_income(law, rng, age, female, education, hours, region)


def _refuse(name, value, accepted, error=TypeError):
    raise error(
        f"The {name!r} parameter of make_census must be {accepted}. "
        f"Got {value!r} instead."
    )


def _check_int(name, value, low, accepted):
    if not isinstance(value, Integral) or isinstance(value, bool):
        _refuse(name, value, accepted)
    if value < low:
        _refuse(name, value, accepted, ValueError)
    return int(value)


def _check_flag(name, value):
    if not isinstance(value, (bool, np.bool_)):
        _refuse(name, value, "True or False")


def _generator(random_state):
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        seed = random_state.randint(0, 2**32, size=4, dtype=np.uint32)
        return np.random.default_rng(seed)
    accepted = (
        "None, an int in the range [0, inf), a numpy.random.Generator or a "
        "numpy.random.RandomState"
    )
    return np.random.default_rng(_check_int("random_state", random_state, 0, accepted))


def _import_pandas():
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "make_census(as_frame=True) needs pandas, which is not installed: "
            "`pip install pandas`, or use as_frame=False for arrays."
        ) from error
    return pandas


def _frame(pd, law, data, target, income):
    """All eight columns, with words for the codes."""
    age, sex, education, hours, married, region = data.T
    level = np.searchsorted(law.education_years, education)

    def words(codes, names, ordered=False):
        codes = codes.astype(np.int8)
        return pd.Categorical.from_codes(codes, list(names), ordered=ordered)

    return pd.DataFrame(
        {
            "age": age.astype(np.int64),
            "sex": words(sex, _SEXES),
            "education": words(level, law.education_levels, ordered=True),
            "hours": hours.astype(np.int64),
            "married": married.astype(bool),
            "region": words(region, law.region_names),
            "income": income,
            "high_income": target,
        }
    )


def _public_facts(law):
    """What is known of every row without looking at any."""
    years, levels = law.education_years, law.education_levels
    oldest, longest = law.age_range[1], law.full_time_range[1]
    low = np.array([law.age_range[0], 0, years[0], 0, 0, 0], dtype=float)
    high = [oldest, 1, years[-1], longest, 1, len(law.region_names) - 1]
    return {
        "bounds": (low, np.array(high, dtype=float)),
        "income_bounds": (0.0, law.income_cap),
        "categories": {
            "sex": dict(enumerate(_SEXES)),
            "education": dict(zip(years, levels, strict=True)),
            "region": dict(enumerate(law.region_names)),
        },
    }


def make_census(
    n_samples: int = 50_000,
    random_state: Any = None,
    *,
    as_frame: bool = False,
    return_X_y: bool = False,
):
    r"""Draw a synthetic census from a known law.

    Nobody in it exists, so its exact answers may be shown beside private ones, at
    any size. The law, its bounds and its categories are public.

    Parameters
    ----------
    n_samples : int, default=50_000
        Number of people.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the draw. An int gives the same rows at every call.
    as_frame : bool, default=False
        If True, `data` is a DataFrame, `target` and `income` are Series, and
        `frame` is filled. Needs pandas. The rows are the same.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    census : :class:`~sklearn.utils.Bunch`
        Dictionary-like, with the attributes

        data : ndarray or DataFrame of shape (n_samples, 6), float64
            age, sex, education, hours, married, region; as numbers.
        target : ndarray or Series of shape (n_samples,), int64
            high_income: 1 if income > 50,000.
        income : ndarray or Series of shape (n_samples,), float64
            Whole units per year.
        frame : DataFrame or None
            With ``as_frame=True`` all eight columns, with words for the codes.
        feature_names, target_names : list of str
            Names of the columns of `data` and of the two classes.
        bounds : tuple of two ndarrays of shape (6,)
            Public (low, high) of each column of `data`; no row lies outside.
        income_bounds : tuple of two floats
            Public (low, high) of `income`.
        categories : dict
            Public words of each code of sex, education and region.
        DESCR : str
            The description of the columns.
    (data, target) : tuple
        If ``return_X_y=True``.

    Notes
    -----
    Rows are independent. With :math:`s(x) = 1 / (1 + e^{-x})`, a person is drawn in
    this order (every number is a field of ``CENSUS_LAW``):

    - age: 18 to 95, weights linear between (18, .90), (30, 1), (60, .92), (72, .70)
      and (95, .05).
    - female: :math:`s(-0.02 + 0.02 (age - 60)_+)`.
    - education: the number of cuts -2.2, -0.5, 0.5, 1.9, 3.5 below
      :math:`-0.025 (age - 30)_+` + standard logistic noise gives the level, at most
      the highest one whose years of schooling are no more than age - 6.
    - region: probabilities .18, .22, .27, .20, .13.
    - hours: working with probability
      :math:`c\, s((age - 18) / 2.5)\, s((65 - age) / 2.5)`, where c is .90 for men
      and .78 for women; if so, part time with log-odds -2.4 (men) or -1.1 (women),
      + 1.3 below 24, + 1.2 from 63 on. Part time: N(20, 6²) rounded and clipped to
      1..34. Full time: 40 with probability .45, else N(43, 9²) rounded and clipped to
      30..80.
    - married: :math:`0.70\, s((age - 29) / 4)\, s((w - age) / 6)`, where w is 90 for
      men and 80 for women. It has no effect on income.
    - income, working: log income = 10.80 + 0.09 (education - 12)
      + 0.90 log(hours / 40) - 0.0007 (age - 50)² - 0.20 female + region effect
      (0, -.05, -.15, .05, .25) + 0.40 Z + 0.40 (E - 1), Z standard normal and E
      standard exponential: a mean of 0 and a Pareto tail of index 2.5.
    - income, not working: 0 with probability .55 (below 60) or .04; otherwise
      log income = 9.0 (below 60) or 9.9, + 0.06 (education - 12) + 0.50 Z.
    - income is rounded to whole units and capped at 500,000.

    The expectations under this law are in ``CENSUS_MARGINS``.

    Examples
    --------
    >>> from skdp.datasets import CENSUS_MARGINS, make_census
    >>> census = make_census(10_000, random_state=0)
    >>> census.data.shape
    (10000, 6)
    >>> census.feature_names
    ['age', 'sex', 'education', 'hours', 'married', 'region']
    >>> abs(float(census.target.mean()) - CENSUS_MARGINS["high_income"]) < 0.02
    True
    >>> low, high = census.bounds
    >>> bool(((census.data >= low) & (census.data <= high)).all())
    True
    """
    n_samples = _check_int("n_samples", n_samples, 1, "an int in the range [1, inf)")
    _check_flag("as_frame", as_frame)
    _check_flag("return_X_y", return_X_y)
    rng = _generator(random_state)
    pd = _import_pandas() if as_frame else None

    data, income = np.empty((n_samples, len(_FEATURES))), np.empty(n_samples)
    tables = _tables(CENSUS_LAW)
    for start in range(0, n_samples, _BLOCK):
        block = slice(start, start + _BLOCK)
        _fill(CENSUS_LAW, tables, rng, data[block], income[block])
    target = (income > CENSUS_LAW.high_income_above).astype(np.int64)

    frame = None
    if as_frame:
        frame = _frame(pd, CENSUS_LAW, data, target, income)
        data = pd.DataFrame(data, columns=list(_FEATURES), copy=False)
        target, income = frame["high_income"], frame["income"]
    if return_X_y:
        return data, target

    from sklearn.utils import Bunch

    return Bunch(
        data=data,
        target=target,
        income=income,
        frame=frame,
        feature_names=list(_FEATURES),
        target_names=["income <= 50,000", "income > 50,000"],
        DESCR=_DESCR,
        **_public_facts(CENSUS_LAW),
    )
