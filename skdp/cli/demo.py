"""``python -m skdp demo``: private models and statistics of a synthetic census."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from skdp.accounting import BudgetAccountant
from skdp.datasets import make_census
from skdp.exceptions import BudgetExceededError
from skdp.linear_model import DPLogisticRegression
from skdp.stats import DPHistogram, DPMean, DPMedian
from skdp.validation import check_epsilon

__all__ = ["add_command", "demo"]

_INCOME_BOUNDS = (0.0, 500_000.0)
_AGE_BOUNDS = (18.0, 95.0)
_METHODS = ("objective", "gradient", "output")
_MODEL_DELTA = 1e-6  # of each model; the statistics need none
_TEST_ROWS = 20_000
_TEST_SEED = 2**40  # away from the seeds that people choose


def _row(*cells: object) -> str:
    return "  {:<24} {:>12} {:>12} {:>10} {:>10}".format(*cells)


def _features(census: Any) -> np.ndarray:
    """Map people to rows of norm at most one, by public bounds alone."""
    low, high = census.bounds
    numbers = 2 * (census.data - low)[:, :5] / (high - low)[:5] - 1
    regions = np.eye(len(census.categories["region"]))[census.data[:, 5].astype(int)]
    return np.hstack([numbers, regions]) / np.sqrt(6)


def _plain_accuracy(X: np.ndarray, y: np.ndarray, test: Sequence[np.ndarray]) -> float:
    if y.min() == y.max():  # scikit-learn refuses a single class
        return float(np.mean(test[1] == y[0]))
    return float(LogisticRegression(C=100.0).fit(X, y).score(*test))


def _models(
    census: Any, epsilon: float, budget: BudgetAccountant, seed: int | None
) -> None:
    others = make_census(_TEST_ROWS, None if seed is None else _TEST_SEED + seed)
    test = _features(others), others.target
    X, y = _features(census), census.target
    print(f"Who has a high income? Right answers about {_TEST_ROWS:,} other people:\n")
    print(_row("", "accuracy", "", "epsilon", "delta"))
    print(_row("always 'no'", f"{np.mean(test[1] == 0):.1%}", "", "", ""))
    print(_row("not private", f"{_plain_accuracy(X, y, test):.1%}", "", "inf", ""))
    guarantees: dict[str, list[str]] = {}
    for method in _METHODS:
        model = DPLogisticRegression(
            epsilon,
            _MODEL_DELTA,
            method=method,
            classes=[0, 1],
            accountant=budget,
            random_state=seed,
        ).fit(X, y)
        cost = f"{model.privacy_.epsilon:g}", f"{model.privacy_.delta:g}"
        print(_row(f"noise: {method}", f"{model.score(*test):.1%}", "", *cost))
        guarantees.setdefault(str(model.privacy_), []).append(method)
    for sentence, methods in guarantees.items():
        text = f"{', '.join(methods)}: {sentence}"
        print(
            "\n" + textwrap.fill(text, 84, initial_indent="  ", subsequent_indent="  ")
        )


def _mean_income(income: np.ndarray, price: dict[str, Any]) -> None:
    model = DPMean(bounds=_INCOME_BOUNDS, **price).fit(income[:, None])
    private, truth = model.mean_[0], income.mean()
    cells = (f"{private:,.0f}", f"{truth:,.0f}", f"{private - truth:+,.0f}")
    print(_row("mean income", *cells, f"{model.epsilon:g}"))
    print(
        "      incomes clipped at 500,000; standard error of the noise "
        f"{model.standard_error_[0]:,.0f}"
    )


def _region_counts(
    region: np.ndarray, names: dict[int, str], price: dict[str, Any]
) -> None:
    model = DPHistogram(categories=[list(names)], **price).fit(region[:, None])
    counts = np.bincount(region.astype(int), minlength=len(names))
    for i, name in enumerate(names.values()):
        noisy, truth = model.counts_[i], counts[i]
        cells = (f"{noisy:,}", f"{truth:,}", f"{noisy - truth:+,}")
        print(_row(f"people, {name}", *cells, "" if i else f"{model.epsilon:g}"))
    print(
        "      all counts for one epsilon; standard error of the noise "
        f"{model.standard_error_:.1f}"
    )


def _median_age(age: np.ndarray, price: dict[str, Any]) -> None:
    model = DPMedian(bounds=_AGE_BOUNDS, resolution=1, **price).fit(age[:, None])
    private, truth = model.median_[0], np.quantile(age, 0.5, method="inverted_cdf")
    cells = (f"{private:.0f}", f"{truth:.0f}", f"{private - truth:+.0f}")
    print(_row("median age", *cells, f"{model.epsilon:g}"))


def demo(n_samples: int, epsilon: float, seed: int | None) -> None:
    """Train three models and release three statistics, all from one budget."""
    census = make_census(n_samples, seed)
    regions = census.categories["region"]
    budget = BudgetAccountant(
        6 * check_epsilon(epsilon), delta=3 * _MODEL_DELTA, name="census"
    )
    price = {"epsilon": epsilon, "accountant": budget, "random_state": seed}
    print(f"A synthetic census of {n_samples:,} people. Nobody in it exists, so the")
    print("truth can stand beside the private answers.\n")
    # Models first: the first release decides by which rules the budget is counted, and
    # theirs suit them all.
    _models(census, epsilon, budget, seed)
    print("\nStatistics of the same people, from the same budget:\n")
    print(_row("", "private", "truth", "error", "epsilon"))
    _mean_income(census.income, price)
    _region_counts(census.data[:, 5], regions, price)
    _median_age(census.data[:, 0], price)
    print(f"\n{budget}\n\nAs much again is refused before any noise is drawn:")
    try:
        budget.spend(epsilon=budget.epsilon, label="as much again")
    except BudgetExceededError as error:
        print(f"  {error}")
    if seed is not None:
        print("The noise was seeded: reproducible, not private for who knows the seed.")


def add_command(commands: Any) -> None:
    """Add ``demo`` to the command line."""
    parser = commands.add_parser(
        "demo", help="private models and statistics of a synthetic census"
    )
    parser.add_argument("--n-samples", type=int, default=50_000, metavar="N")
    parser.add_argument("--epsilon", type=float, default=0.5, help="of each release")
    parser.add_argument("--seed", type=int, default=None, help="reproducible noise")
    parser.set_defaults(run=lambda o: demo(o.n_samples, o.epsilon, o.seed))
