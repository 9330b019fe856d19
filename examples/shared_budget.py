"""Two analysts, two processes, one budget.

Both processes release private means of their own columns of a synthetic census and pay
from the same budget, in an SQLite file. Together they never spend more than its
ceiling, whoever comes first.

Run it: ``python examples/shared_budget.py``
"""

import multiprocessing
import tempfile
from pathlib import Path

from skdp import BudgetAccountant
from skdp.datasets import make_census
from skdp.exceptions import BudgetExceededError
from skdp.mechanisms import Laplace, sensitivity


def analyst(name: str, budget: BudgetAccountant, columns: list[int]) -> None:
    """Release means of columns until the budget says no."""
    census = make_census(20_000, random_state=0)
    low, high = census.bounds
    for column in columns:
        feature = census.feature_names[column]
        bounds = (low[column], high[column])
        mechanism = Laplace(epsilon=0.25, sensitivity=sensitivity.total(bounds))
        try:
            budget.spend(mechanism.event, label=f"{name}: mean of {feature}")
        except BudgetExceededError:
            print(f"{name}: mean of {feature} refused", flush=True)
            continue
        # The columns are whole numbers, so that their sum is exact.
        total = mechanism.release(census.data[:, column].sum())
        print(f"{name}: mean of {feature} = {total / 20_000:.3f}", flush=True)


def main() -> None:
    """Let two processes spend one budget."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'budget.db'}"
        budget = BudgetAccountant(epsilon=1.0, delta=0, ledger=url, name="census")
        context = multiprocessing.get_context("spawn")
        workers = [
            context.Process(target=analyst, args=("Team A", budget, [0, 1, 2])),
            context.Process(target=analyst, args=("Team B", budget, [3, 4, 5])),
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(f"\n{budget}")
        for spend in budget.spends:
            print(f"  {spend.label}")


if __name__ == "__main__":
    main()
