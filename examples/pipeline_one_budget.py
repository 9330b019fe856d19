"""A pipeline whose private steps share one budget.

Some people did not say how many hours they work. The first step fills the gaps with a
private mean, a public step maps everything to public bounds, and the last one is a
private classifier. Both private steps pay from the same budget, and so does a second
pipeline, which reuses the means: what is released may be used again for nothing.

Run it: ``python examples/pipeline_one_budget.py``
"""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp import BudgetAccountant
from skdp.datasets import make_census
from skdp.exceptions import BudgetExceededError
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.mechanisms import Laplace, sensitivity

HOURS = 3
HOURS_BOUNDS = (0.0, 80.0)
INCOME_BOUNDS = (0.0, 150_000.0)  # larger ones are clipped


class PrivateMeanImputer(TransformerMixin, BaseEstimator):
    """Fill the gaps of one column of whole numbers with a private mean."""

    def __init__(self, column, bounds, epsilon=0.1, accountant=None):
        self.column = column
        self.bounds = bounds
        self.epsilon = epsilon
        self.accountant = accountant

    def fit(self, X, y=None):
        """Check the rows, pay, and only then release a sum and a count."""
        X = validate_data(self, X, ensure_all_finite="allow-nan")
        known = X[~np.isnan(X[:, self.column]), self.column]
        # Whole numbers, so that their sum is exact. Half of epsilon for each release.
        # One person changes the sum by the largest value, or by the width of the
        # bounds, and the count by one: whether a value is missing is private, too.
        known = np.rint(np.clip(known, *self.bounds))
        low, high = self.bounds
        largest = max(abs(low), abs(high), high - low)
        total = Laplace(self.epsilon / 2, largest)
        count = Laplace(self.epsilon / 2, sensitivity.count("replace"))
        if self.accountant is not None:
            self.accountant.spend(total.event, "hours: sum of the answers")
            self.accountant.spend(count.event, "hours: number of answers")
        mean = total.release(known.sum()) / max(count.release(known.size), 1.0)
        self.mean_ = float(np.clip(mean, *self.bounds))
        return self

    def transform(self, X):
        """Return the rows without gaps: the same released number for everybody."""
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, ensure_all_finite="allow-nan", copy=True
        )
        X[np.isnan(X[:, self.column]), self.column] = self.mean_
        return X


def to_public_bounds(X):
    """Map rows to norm at most one; the bounds are public, not those of the rows."""
    low, high = make_census(1).bounds
    numbers = 2 * (X - low)[:, :5] / (high - low)[:5] - 1
    regions = np.eye(5)[X[:, 5].astype(int)]
    return np.hstack([numbers, regions]) / np.sqrt(6)


def survey(n_samples, seed):
    """A census in which one person of five did not say how many hours they work."""
    census = make_census(n_samples, random_state=seed)
    silent = np.random.default_rng(seed).random(n_samples) < 0.2
    census.data[silent, HOURS] = np.nan
    return census


def refused(expected, pipeline, X, y):
    """Fit, and print why that was refused."""
    try:
        pipeline.fit(X, y)
    except expected as error:
        print("  " + str(error).splitlines()[0])
    else:
        raise AssertionError("this fit should have been refused")


def main() -> None:
    """Fit two pipelines from one budget, and try to fit a third one."""
    people, others = survey(50_000, seed=0), survey(20_000, seed=1)
    budget = BudgetAccountant(epsilon=1.5, delta=1e-5, name="survey")

    high_income = make_pipeline(
        PrivateMeanImputer(HOURS, HOURS_BOUNDS, epsilon=0.2, accountant=budget),
        FunctionTransformer(to_public_bounds),
        DPLogisticRegression(0.8, 1e-6, classes=[0, 1], accountant=budget),
    ).fit(people.data, people.target)
    accuracy = high_income.score(others.data, others.target)
    print(
        f"high income: accuracy {accuracy:.3f}, majority {1 - others.target.mean():.3f}"
    )

    income = make_pipeline(
        FrozenEstimator(high_income[0]),  # fitted already: pays nothing
        FunctionTransformer(to_public_bounds),
        DPRidge(0.8, 1e-6, bounds_y=INCOME_BOUNDS, accountant=budget),
    ).fit(people.data, people.income)
    print(f"income:      R2 {income.score(others.data, others.income):.3f}\n")

    print(budget)
    for spend in budget.spends:
        print(f"  {spend.label:<28} {spend.event}")

    print("\nWrong rows and labels are refused before anything is paid:")
    infinite = people.data.copy()
    infinite[0, 0] = np.inf
    refused(ValueError, high_income, infinite, people.target)  # by the first step
    # By the last step. The first one is frozen: on its own it would have paid already,
    # as each step knows only its own input.
    relabelled = make_pipeline(*income[:2], high_income[2])
    refused(ValueError, relabelled, people.data, people.target + 1)

    print("\nOne fit too many is refused, and the model of before still works:")
    refused(BudgetExceededError, income, people.data, people.income)
    print(f"  R2 {income.score(others.data, others.income):.3f}")
    print(f"\n{len(budget.spends)} spends, as before")


if __name__ == "__main__":
    main()
