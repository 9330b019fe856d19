"""The command line: ``python -m skdp demo``."""

import argparse
from collections.abc import Sequence

import numpy as np

from skdp import __version__, events
from skdp.datasets import make_census
from skdp.mechanisms import (
    DiscreteLaplace,
    Laplace,
    SmoothSensitivity,
    median_rank,
    sensitivity,
    smooth_sensitivity_median,
)
from skdp.noise import RandomBits

__all__ = ["main"]

_INCOME_BOUNDS = (0.0, 500_000.0)
_AGE_BOUNDS = (18.0, 95.0)


def _row(*cells: object) -> str:
    return "  {:<24} {:>12} {:>12} {:>10} {:>10}".format(*cells)


def _mean_income(income: np.ndarray, epsilon: float, bits: RandomBits) -> events.Event:
    # Incomes are whole numbers, so that their sum is exact in float64. The number of
    # people is public under "replace": dividing by it comes after the release.
    clipped = np.clip(income, *_INCOME_BOUNDS)
    mechanism = Laplace(epsilon, sensitivity.total(_INCOME_BOUNDS))
    private = mechanism.release(clipped.sum(), bits) / clipped.size
    truth = income.mean()
    cells = (f"{private:,.0f}", f"{truth:,.0f}", f"{private - truth:+,.0f}")
    print(_row("mean income", *cells, f"{epsilon:g}"))
    reach = mechanism.interval(0.95)[1] / clipped.size
    print(f"      incomes clipped at 500,000; noise within +-{reach:,.0f} at 95 %")
    return mechanism.event


def _region_counts(
    region: np.ndarray, names: Sequence[str], epsilon: float, bits: RandomBits
) -> events.Event:
    counts = np.bincount(region.astype(int), minlength=len(names))
    mechanism = DiscreteLaplace(epsilon, int(sensitivity.histogram("replace")))
    private = np.maximum(mechanism.release(counts, bits), 0)
    for name, noisy, truth in zip(names, private, counts, strict=True):
        cells = (f"{noisy:,}", f"{truth:,}", f"{noisy - truth:+,}")
        cost = f"{epsilon:g}" if name == names[0] else ""
        print(_row(f"people, {name}", *cells, cost))
    reach = mechanism.interval(0.95)[1]
    print(f"      all counts for one epsilon; noise within +-{reach} at 95 %")
    return mechanism.event


def _median_age(age: np.ndarray, epsilon: float, bits: RandomBits) -> events.Event:
    mechanism = SmoothSensitivity(epsilon, _AGE_BOUNDS)
    truth = float(np.sort(age)[median_rank(age.size) - 1])
    smooth = smooth_sensitivity_median(age, mechanism.beta, mechanism.bounds)
    private = mechanism.release(truth, smooth, bits)
    cells = (f"{private:.2f}", f"{truth:.2f}", f"{private - truth:+.2f}")
    print(_row("median age", *cells, f"{epsilon:g}"))
    return mechanism.event


def demo(n_samples: int, epsilon: float, seed: int | None) -> None:
    """Release three statistics of a synthetic census and print what they cost."""
    census = make_census(n_samples, seed)
    regions = list(census.categories["region"].values())
    bits = RandomBits(seed)  # one stream: no two releases share noise
    print(f"A synthetic census of {n_samples:,} people. Nobody in it exists, so the")
    print("truth can stand beside the private answers.\n")
    print(_row("", "private", "truth", "error", "epsilon"))
    spent = events.Composed(
        [
            _mean_income(census.income, epsilon, bits),
            _region_counts(census.data[:, 5], regions, epsilon, bits),
            _median_age(census.data[:, 0], epsilon, bits),
        ]
    )
    print(f"\nAll three together: epsilon = {spent.epsilon(0):.4g}, delta = 0, for")
    print("neighbours that differ in one row.")
    if seed is not None:
        print("The noise was seeded: reproducible, not private for who knows the seed.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skdp",
        description="scikit-learn estimators with differential privacy",
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "demo", help="private statistics of a synthetic census, beside the truth"
    )
    command.add_argument("--n-samples", type=int, default=50_000, metavar="N")
    command.add_argument("--epsilon", type=float, default=0.5, help="of each release")
    command.add_argument("--seed", type=int, default=None, help="reproducible noise")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        demo(options.n_samples, options.epsilon, options.seed)
    except ValueError as error:
        parser.error(str(error))
    return 0
