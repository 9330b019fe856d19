"""``python -m skdp demo``: private models and statistics of a synthetic census."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from skdp import events
from skdp.accounting import BudgetAccountant
from skdp.datasets import make_census
from skdp.exceptions import BudgetExceededError
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import (
    DiscreteLaplace,
    Laplace,
    SmoothSensitivity,
    median_rank,
    sensitivity,
    smooth_sensitivity_median,
)
from skdp.noise import RandomBits
from skdp.validation import check_epsilon

__all__ = ["add_command", "demo"]

Pay = Callable[[events.Event, str], None]

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


def _mean_income(
    income: np.ndarray, epsilon: float, pay: Pay, bits: RandomBits
) -> None:
    # Incomes are whole numbers, so that their sum is exact in float64. The number of
    # people is public under "replace": dividing by it comes after the release.
    clipped = np.clip(income, *_INCOME_BOUNDS)
    mechanism = Laplace(epsilon, sensitivity.total(_INCOME_BOUNDS))
    pay(mechanism.event, "mean income")
    private = mechanism.release(clipped.sum(), bits) / clipped.size
    truth = income.mean()
    cells = (f"{private:,.0f}", f"{truth:,.0f}", f"{private - truth:+,.0f}")
    print(_row("mean income", *cells, f"{epsilon:g}"))
    reach = mechanism.interval(0.95)[1] / clipped.size
    print(f"      incomes clipped at 500,000; noise within +-{reach:,.0f} at 95 %")


def _region_counts(
    region: np.ndarray, names: Sequence[str], epsilon: float, pay: Pay, bits: RandomBits
) -> None:
    counts = np.bincount(region.astype(int), minlength=len(names))
    mechanism = DiscreteLaplace(epsilon, int(sensitivity.histogram("replace")))
    pay(mechanism.event, "people by region")
    private = np.maximum(mechanism.release(counts, bits), 0)
    for name, noisy, truth in zip(names, private, counts, strict=True):
        cells = (f"{noisy:,}", f"{truth:,}", f"{noisy - truth:+,}")
        cost = f"{epsilon:g}" if name == names[0] else ""
        print(_row(f"people, {name}", *cells, cost))
    reach = mechanism.interval(0.95)[1]
    print(f"      all counts for one epsilon; noise within +-{reach} at 95 %")


def _median_age(
    age: np.ndarray, mechanism: SmoothSensitivity, pay: Pay, bits: RandomBits
) -> None:
    truth = float(np.sort(age)[median_rank(age.size) - 1])
    smooth = smooth_sensitivity_median(age, mechanism.beta, mechanism.bounds)
    pay(mechanism.event, "median age")
    private = mechanism.release(truth, smooth, bits)
    cells = (f"{private:.2f}", f"{truth:.2f}", f"{private - truth:+.2f}")
    print(_row("median age", *cells, f"{mechanism.epsilon:g}"))


def demo(n_samples: int, epsilon: float, seed: int | None) -> None:
    """Train three models and release three statistics, all from one budget."""
    census = make_census(n_samples, seed)
    median = SmoothSensitivity(epsilon, _AGE_BOUNDS)  # refuses an epsilon above 10
    regions = list(census.categories["region"].values())
    bits = RandomBits(seed)  # one stream: no two releases share noise
    budget = BudgetAccountant(
        6 * check_epsilon(epsilon), delta=3 * _MODEL_DELTA, name="census"
    )

    def pay(event: events.Event, label: str) -> None:
        budget.spend(event, label, seeded=bits.seeded)

    print(f"A synthetic census of {n_samples:,} people. Nobody in it exists, so the")
    print("truth can stand beside the private answers.\n")
    # Models first: the first release decides by which rules the budget is counted, and
    # theirs suit them all.
    _models(census, epsilon, budget, seed)
    print("\nStatistics of the same people, from the same budget:\n")
    print(_row("", "private", "truth", "error", "epsilon"))
    _mean_income(census.income, epsilon, pay, bits)
    _region_counts(census.data[:, 5], regions, epsilon, pay, bits)
    _median_age(census.data[:, 0], median, pay, bits)
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
