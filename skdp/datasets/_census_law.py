"""The law of the synthetic census, known exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np


def _expit(x):
    return 1.0 / (1.0 + np.exp(-x))


@dataclass(frozen=True)
class CensusLaw:
    """The law of the synthetic census: its parameters and its probabilities.

    The fields are the true parameters. The methods give the conditional
    probabilities that follow from them; all broadcast over arrays.
    :func:`make_census` always draws from ``CENSUS_LAW``, the default instance.

    Examples
    --------
    >>> from skdp.datasets import CENSUS_LAW
    >>> CENSUS_LAW.income_per_school_year
    0.09
    >>> float(CENSUS_LAW.married_probability(40, female=1).round(3))
    0.657
    """

    # Age: weights at the knots, linear in between, normalised over the integers.
    age_range: tuple[int, int] = (18, 95)
    age_knots: tuple[float, ...] = (18, 30, 60, 72, 95)
    age_weights: tuple[float, ...] = (0.90, 1.00, 0.92, 0.70, 0.05)

    # Sex: the share of women grows with age beyond `female_from`.
    female_log_odds: float = -0.02
    female_per_year: float = 0.02
    female_from: int = 60

    # Education: ordered logit on the cohort; nobody is ahead of their age.
    education_levels: tuple[str, ...] = (
        "no diploma",
        "high school",
        "some college",
        "bachelor",
        "master",
        "doctorate",
    )
    education_years: tuple[int, ...] = (9, 12, 14, 16, 18, 21)
    education_cuts: tuple[float, ...] = (-2.2, -0.5, 0.5, 1.9, 3.5)
    education_per_year: float = -0.025
    education_from: int = 30
    school_start: int = 6

    # Marriage: ever married, and not widowed; (male, female) where there are two.
    married_ceiling: float = 0.70
    married_age: float = 29.0
    married_spread: float = 4.0
    widowed_age: tuple[float, float] = (90.0, 80.0)
    widowed_spread: float = 6.0

    # Region.
    region_names: tuple[str, ...] = ("north", "east", "south", "west", "capital")
    region_shares: tuple[float, ...] = (0.18, 0.22, 0.27, 0.20, 0.13)

    # Work and weekly hours.
    working_ceiling: tuple[float, float] = (0.90, 0.78)
    working_entry: float = 18.0
    working_exit: float = 65.0
    working_spread: float = 2.5
    part_time_log_odds: tuple[float, float] = (-2.4, -1.1)
    part_time_student: float = 1.3
    part_time_senior: float = 1.2
    student_below: int = 24
    senior_from: int = 63
    part_time_hours: tuple[float, float] = (20.0, 6.0)
    part_time_range: tuple[int, int] = (1, 34)
    full_time_hours: tuple[float, float] = (43.0, 9.0)
    full_time_range: tuple[int, int] = (30, 80)
    full_time_heap: float = 0.45

    # Income of those who work: the log is linear in these, plus a shock of mean 0.
    income_log: float = 10.80
    income_per_school_year: float = 0.09
    income_hours_elasticity: float = 0.90
    income_age_curvature: float = -0.0007
    income_peak_age: float = 50.0
    income_female: float = -0.20
    income_region: tuple[float, ...] = (0.0, -0.05, -0.15, 0.05, 0.25)
    income_sigma: float = 0.40
    income_tail: float = 0.40

    # Income of those who do not work: (below pension age, from it on).
    pension_from: int = 60
    no_income: tuple[float, float] = (0.55, 0.04)
    benefit_log: tuple[float, float] = (9.0, 9.9)
    benefit_per_school_year: float = 0.06
    benefit_sigma: float = 0.50

    income_cap: float = 500_000.0
    high_income_above: float = 50_000.0

    def age_pmf(self) -> np.ndarray:
        """Probability of each age from ``age_range[0]`` to ``age_range[1]``."""
        low, high = self.age_range
        ages = np.arange(low, high + 1)
        weight = np.interp(ages, self.age_knots, self.age_weights)
        return weight / weight.sum()

    def female_probability(self, age) -> np.ndarray:
        """P(sex = female | age)."""
        excess = np.maximum(np.asarray(age) - self.female_from, 0)
        return _expit(self.female_log_odds + self.female_per_year * excess)

    def education_pmf(self, age) -> np.ndarray:
        """P(education level | age), levels along the last axis."""
        age = np.asarray(age)[..., None]
        shift = self.education_per_year * np.maximum(age - self.education_from, 0)
        below = _expit(np.asarray(self.education_cuts) - shift)
        # Who is too young for the next level has reached at most this one.
        next_level_at = self.school_start + np.asarray(self.education_years[1:])
        below = np.where(age < next_level_at, 1.0, below)
        return np.diff(below, prepend=0.0, append=1.0)

    def married_probability(self, age, female) -> np.ndarray:
        """P(married | age, sex)."""
        age = np.asarray(age)
        ever = _expit((age - self.married_age) / self.married_spread)
        widowed_age = np.asarray(self.widowed_age)[female]
        still = _expit((widowed_age - age) / self.widowed_spread)
        return self.married_ceiling * ever * still

    def working_probability(self, age, female) -> np.ndarray:
        """P(hours > 0 | age, sex)."""
        age = np.asarray(age)
        entered = _expit((age - self.working_entry) / self.working_spread)
        staying = _expit((self.working_exit - age) / self.working_spread)
        return np.asarray(self.working_ceiling)[female] * entered * staying

    def part_time_probability(self, age, female) -> np.ndarray:
        """P(part time | working, age, sex)."""
        age = np.asarray(age)
        log_odds = (
            np.asarray(self.part_time_log_odds)[female]
            + self.part_time_student * (age < self.student_below)
            + self.part_time_senior * (age >= self.senior_from)
        )
        return _expit(log_odds)

    def log_earnings(self, age, female, education, hours, region) -> np.ndarray:
        """E(log income before cap and rounding | working, the other columns)."""
        return (
            self.income_log
            + self.income_per_school_year * (np.asarray(education) - 12)
            + self.income_hours_elasticity * np.log(np.asarray(hours) / 40)
            + self.income_age_curvature * (np.asarray(age) - self.income_peak_age) ** 2
            + np.asarray((0.0, self.income_female))[female]
            + np.asarray(self.income_region)[region]
        )

    def log_benefits(self, age, education) -> np.ndarray:
        """E(log income before cap and rounding | not working, income > 0, ...)."""
        pension = (np.asarray(age) >= self.pension_from).astype(np.intp)
        school = self.benefit_per_school_year * (np.asarray(education) - 12)
        return np.asarray(self.benefit_log)[pension] + school


#: The law that :func:`make_census` draws from.
CENSUS_LAW = CensusLaw()

#: Expectations under ``CENSUS_LAW``, computed by enumeration and quadrature.
CENSUS_MARGINS: Mapping[str, float] = MappingProxyType(
    {
        "age": 49.2299,
        "female": 0.5143,
        "education": 13.1654,
        "hours": 23.0145,
        "working": 0.6124,
        "married": 0.5204,
        "income": 37642.5,
        "median_income": 26624.6,
        "no_income": 0.0859,
        "high_income": 0.2258,
    }
)
