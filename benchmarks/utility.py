"""Accuracy of the private models on public data, defaults only, nothing tuned.

Run ``python benchmarks/utility.py [--splits N] [--only NAME ...]``. Splits are 80/20,
delta is 1e-6 (MNIST: 1/n^2). Printed are means over the splits: accuracy, AUC and
log-loss of classifiers beside the non-private model, R2 of regressions beside Ridge.
The goal of a line, where it has one, is in the last column. The third table has the
errors of statistics beside those of a peer (``_statistics.py``).

Constants of the recipes were chosen on Adult, Covertype and MNIST (classification),
California and bike sharing (regression). The census extract, German Credit and diamonds
were looked at while choosing them; their numbers were not optimised.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from _statistics import compare

import numpy as np
from _data import (
    adult,
    bike,
    california,
    covertype,
    diamonds,
    german_credit,
    mnist,
    pums,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from skdp.linear_model import DPLogisticRegression, DPRidge

BOTH = ("add_remove", "replace")
#: (data set, method, row_norm, relation, epsilon) -> accuracy to reach
GOALS = {
    ("adult", "objective", "clip", "add_remove", 0.1): 0.835,
    ("adult", "objective", "clip", "add_remove", 0.5): 0.844,
    ("adult", "objective", "clip", "add_remove", 1.0): 0.848,
    ("adult", "objective", "clip", "replace", 0.1): 0.825,
    ("adult", "objective", "clip", "replace", 0.5): 0.842,
    ("adult", "objective", "clip", "replace", 1.0): 0.846,
    ("adult", "objective", "normalize", "add_remove", 0.1): 0.845,
    ("adult", "objective", "normalize", "add_remove", 0.5): 0.851,
    ("adult", "objective", "normalize", "add_remove", 1.0): 0.852,
    ("covertype", "objective", "clip", "add_remove", 0.1): 0.755,
    ("mnist", "objective", "clip", "add_remove", 1.0): 0.895,
}
#: (data set, relation, epsilon) -> R2 to reach
RIDGE_GOALS = {
    ("california", "replace", 1.0): 0.58,
    ("bike", "replace", 1.0): 0.33,
    ("diamonds", "replace", 1.0): 0.87,
}
CLASSIFICATION = {
    "adult": adult,
    "covertype": covertype,
    "mnist": mnist,
    "pums married": lambda: pums("married"),
    "pums employed": lambda: pums("employed"),
    "german credit": german_credit,
}
REGRESSION = {
    "california": california,
    "bike": bike,
    "diamonds": diamonds,
    "pums income": lambda: _clipped(pums("income"), 0, 200_000),
}


def _clipped(data: tuple, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    return data[0], np.clip(data[1], low, high)


def splits(n_rows: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield training and test rows, 80/20."""
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(n_rows)
        yield order[: int(0.8 * n_rows)], order[int(0.8 * n_rows) :]


def classification_scores(model: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    """Return accuracy, AUC and log-loss."""
    shares = np.clip(model.predict_proba(X), 1e-12, 1)
    shares /= shares.sum(axis=1, keepdims=True)
    binary = shares.shape[1] == 2
    auc = roc_auc_score(y, shares[:, 1]) if binary else float("nan")
    return [model.score(X, y), auc, log_loss(y, shares, labels=model.classes_)]


def settings(name: str) -> Iterator[dict[str, Any]]:
    """Yield what is measured on a data set."""
    if name == "mnist":
        yield {"epsilon": 1.0, "neighboring": "add_remove"}
        yield {"epsilon": 1.0, "neighboring": "add_remove", "method": "gradient"}
        return
    for relation in BOTH:
        for epsilon in (0.1, 0.5, 1.0):
            yield {"epsilon": epsilon, "neighboring": relation}
    for method, row_norm in (("objective", "normalize"), ("gradient", "clip")):
        for epsilon in (0.1, 0.5, 1.0):
            yield {
                "epsilon": epsilon,
                "neighboring": "add_remove",
                "method": method,
                "row_norm": row_norm,
            }


def classify(name: str, count: int) -> None:
    """Print the lines of one data set."""
    X, y = CLASSIFICATION[name]()
    parts = list(splits(len(y), count))
    found = []
    for train, test in parts if name != "mnist" else parts[:1]:
        plain = LogisticRegression(C=100 if name != "mnist" else 1.0, max_iter=300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain.fit(X[train], y[train])
        found.append(classification_scores(plain, X[test], y[test]))
    show(name, "not private", "", np.mean(found, axis=0), None)
    for options in settings(name):
        found = []
        for seed, (train, test) in enumerate(parts):
            delta = 1 / len(train) ** 2 if name == "mnist" else 1e-6
            model = DPLogisticRegression(
                delta=delta, classes=np.unique(y), random_state=seed, **options
            )
            model.fit(X[train], y[train])
            found.append(classification_scores(model, X[test], y[test]))
        method = options.get("method", "objective")
        row_norm = options.get("row_norm", "clip")
        key = (name, method, row_norm, options["neighboring"], options["epsilon"])
        label = f"{method} {row_norm} {options['neighboring']}"
        show(
            name,
            label,
            f"{options['epsilon']:g}",
            np.mean(found, axis=0),
            GOALS.get(key),
        )


def show(
    name: str, label: str, epsilon: str, values: np.ndarray, goal: float | None
) -> None:
    """Print one line."""
    shown = " ".join(f"{value:8.4f}" for value in values)
    end = "" if goal is None else f"  goal {goal:.3f} {_verdict(values[0], goal)}"
    print(f"{name:14} {label:32} {epsilon:>4} {shown}{end}", flush=True)


def _verdict(value: float, goal: float) -> str:
    return "reached" if value >= goal else "MISSED"


def regress(name: str, count: int) -> None:
    """Print the lines of one data set."""
    X, y = REGRESSION[name]()
    bounds = (float(y.min()), float(y.max()))
    parts = list(splits(len(y), count))
    plain = [
        r2_score(y[test], Ridge(1e-3).fit(X[train], y[train]).predict(X[test]))
        for train, test in parts
    ]
    show(name, "not private", "", np.array([np.mean(plain), min(plain)]), None)
    for relation in BOTH:
        for epsilon in (0.1, 1.0):
            found = []
            for seed, (train, test) in enumerate(parts):
                model = DPRidge(
                    epsilon,
                    bounds_y=bounds,
                    neighboring=relation,
                    random_state=seed,
                )
                found.append(model.fit(X[train], y[train]).score(X[test], y[test]))
            goal = RIDGE_GOALS.get((name, relation, epsilon))
            if goal is None and epsilon == 0.1:
                goal = 0.0
            values = np.array([np.mean(found), min(found)])
            show(name, f"ridge {relation}", f"{epsilon:g}", values, goal)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    names = [*CLASSIFICATION, *REGRESSION, "statistics"]
    parser.add_argument("--only", nargs="*", default=names)
    options = parser.parse_args()
    if set(options.only) & set(CLASSIFICATION):
        head = f"{'data':14} {'model':32} {'eps':>4}"
        print(f"{head} {'accuracy':>8} {'AUC':>8} {'loss':>8}")
    for name in CLASSIFICATION:
        if name in options.only:
            classify(name, options.splits)
    if set(options.only) & set(REGRESSION):
        print(f"\n{'data':14} {'model':32} {'eps':>4} {'R2':>8} {'least':>8}")
    for name in REGRESSION:
        if name in options.only:
            regress(name, options.splits)
    if "statistics" in options.only:
        print()
        compare(40 * options.splits)


if __name__ == "__main__":
    main()
