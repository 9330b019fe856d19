"""Tune on public data, pay for one fit.

Every fit that looks at private data costs budget, and a grid search is many fits. Here
the search runs on a public population, where it costs nothing and may use several
processes. The private data is then fitted once, with the parameters that won.

Run it: ``python examples/public_tuning.py``
"""

import numpy as np
from sklearn.model_selection import GridSearchCV

from skdp import BudgetAccountant, events
from skdp.datasets import make_census
from skdp.linear_model import DPLogisticRegression

GRID = {
    "method": ["objective", "gradient", "output"],
    "row_norm": ["clip", "normalize"],
}


def features(census):
    """Map people to rows of norm at most one, by public bounds alone."""
    low, high = census.bounds
    numbers = 2 * (census.data - low)[:, :5] / (high - low)[:5] - 1
    regions = np.eye(len(census.categories["region"]))[census.data[:, 5].astype(int)]
    return np.hstack([numbers, regions]) / np.sqrt(6)


def main() -> None:
    """Search on public data, then fit the private data once."""
    public = make_census(20_000, random_state=1)  # anybody may look at it
    private = make_census(20_000, random_state=2)
    budget = BudgetAccountant(epsilon=1.0, delta=1e-5, name="private census")

    # No accountant here: a clone in each fold and process would pay, too. The noise
    # stays, so that the search finds what is good with noise. A parameter that does not
    # work is an error ("raise"), not a silent nan.
    model = DPLogisticRegression(epsilon=0.5, delta=1e-6, classes=[0, 1])
    search = GridSearchCV(
        model, GRID, cv=4, n_jobs=2, error_score="raise", refit=False
    ).fit(features(public), public.target)
    fits = search.n_splits_ * len(search.cv_results_["params"])
    print(f"{fits} fits on public data; accuracy, best first:")
    table = zip(
        search.cv_results_["mean_test_score"],
        search.cv_results_["params"],
        strict=True,
    )
    for score, parameters in sorted(table, key=lambda row: -row[0])[:4]:
        shown = ", ".join(f"{name}={value}" for name, value in parameters.items())
        print(f"  {score:.4f}  {shown}")
    print(f"spends of the budget so far: {len(budget.spends)}\n")

    X, y = features(private), private.target
    chosen = DPLogisticRegression(
        epsilon=0.5,
        delta=1e-6,
        classes=[0, 1],
        accountant=budget,
        **search.best_params_,
    ).fit(X, y)
    # The people of another census show how good it is: scoring the private rows would
    # be one more release.
    other = make_census(20_000, random_state=3)
    accuracy = chosen.score(features(other), other.target)
    print(f"one fit on private data; accuracy on other people {accuracy:.4f}")
    print(f"{budget}\n{chosen.privacy_}\n")

    # What the search would have cost there: each row trains in all folds but one.
    tried = tuple(
        model.set_params(**parameters).privacy_cost(15_000, X.shape[1])
        for parameters in search.cv_results_["params"]
    )
    searched = events.Composed(tried, (search.n_splits_ - 1,) * len(tried))
    print(
        f"The same search on private data: epsilon {searched.epsilon(1e-6):.2f} at "
        "delta 1e-06 for its fits,\nand its scores would still not be private."
    )


if __name__ == "__main__":
    main()
