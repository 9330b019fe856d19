"""Time and memory of private fits, beside scikit-learn's, as ratios in one run.

Run ``python benchmarks/speed.py [--repeats N] [--quick]``. Both models are fitted in
turn, and the best of the repeats counts. LogisticRegression uses lbfgs with tol=1e-8
and the same C on the same (clipped, intercept-augmented) rows: its default tolerance
stops far from the minimum. The last columns are gradient norms at the two solutions of
the objective that both minimise (of the private model without its noise), and the
peak memory of the private fit in copies of X. Statistics stand beside numpy's, without
gradients; "sklearn" is numpy there.
"""

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from skdp.erm.losses import Logistic
from skdp.erm.solvers import Problem, minimize
from skdp.erm.standardize import plain_map
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.stats import DPMean, DPMedian, DPVariance


def dense(n_rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm about one with a linear signal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, width)) / np.sqrt(width)
    w = 3 * rng.standard_normal(width)
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-X @ w))).astype(int)


def csr(n_rows: int, width: int, per_row: int) -> tuple[Any, np.ndarray]:
    """Return sparse rows of norm about one with a linear signal."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, width, (n_rows, per_row)).ravel()
    values = rng.standard_normal(n_rows * per_row) / np.sqrt(per_row)
    pointers = np.arange(0, n_rows * per_row + 1, per_row)
    X = sparse.csr_matrix((values, columns, pointers), shape=(n_rows, width))
    X.sum_duplicates()
    w = 3 * rng.standard_normal(width)
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-(X @ w)))).astype(int)


def interleaved(tasks: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the best time of every task, all run in turn."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_copies(task: Callable[[], Any], X: Any) -> float:
    """Return the peak memory of a task, in copies of X."""
    parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    size = sum(part.nbytes for part in parts)
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / size


def gradient_norms(X: Any, y: np.ndarray, C: float) -> tuple[float, float]:
    """Return the norms of the gradient at our minimum and at scikit-learn's."""
    mapped = plain_map(X.shape[1], 1.0, 1.0, False)
    rows, targets = mapped.rows(X), 2.0 * y - 1
    width = rows.shape[1]
    ridge = np.full(width, 1 / C)
    problem = Problem(Logistic(), rows, targets, ridge, np.zeros(width))
    ours = minimize(problem, 1e-7 * np.sqrt(X.shape[0]))
    theirs = reference(C).fit(augmented(X), y).coef_[0]
    return tuple(
        float(np.linalg.norm(problem.gradient(w).vector)) for w in (ours, theirs)
    )


def augmented(X: Any) -> Any:
    """Return the rows that the private model sees: clipped, with a constant."""
    mapped = plain_map(X.shape[1], 1.0, 1.0, False)
    if not sparse.issparse(X):
        return mapped.rows(X).Z
    norms = np.sqrt(np.ravel(X.multiply(X).sum(axis=1)))
    clipped = sparse.diags(1 / np.maximum(norms, 1)) @ X
    return sparse.hstack([clipped, np.ones((X.shape[0], 1))], format="csr")


def reference(C: float) -> LogisticRegression:
    """Return scikit-learn's model, run to a comparable accuracy."""
    return LogisticRegression(C=C, tol=1e-8, max_iter=10_000, fit_intercept=False)


def logistic_row(name: str, X: Any, y: np.ndarray, repeats: int) -> None:
    """Time one shape, with and without private scaling."""
    C = 0.2
    known = augmented(X)
    models = {
        "scale=None": DPLogisticRegression(C=C, scale=None, classes=[0, 1]),
        "default": DPLogisticRegression(classes=[0, 1]),
    }
    tasks: dict[str, Callable[[], Any]] = {
        "sklearn": lambda: reference(C).fit(known, y)
    }
    for label, model in models.items():
        tasks[label] = lambda model=model: model.fit(X, y)
    best = interleaved(tasks, repeats)
    norms = gradient_norms(X, y, C)
    for label, model in models.items():
        copies = peak_copies(lambda model=model: model.fit(X, y), X)
        print(
            f"{name:24} {label:11} {best[label]:8.3f} {best['sklearn']:8.3f}"
            f" {best[label] / best['sklearn']:7.2f} {norms[0]:10.1e} {norms[1]:10.1e}"
            f" {copies:7.2f}"
        )


def ridge_row(name: str, n_rows: int, width: int, repeats: int) -> None:
    """Time DPRidge beside Ridge."""
    X, _ = dense(n_rows, width)
    rng = np.random.default_rng(1)
    y = np.clip(X @ rng.standard_normal(width) / 3, -1, 1)
    models = {"scale=None": DPRidge(scale=None), "default": DPRidge()}
    tasks: dict[str, Callable[[], Any]] = {
        "sklearn": lambda: Ridge(solver="cholesky").fit(X, y)
    }
    for label, model in models.items():
        tasks[label] = lambda model=model: model.fit(X, y)
    best = interleaved(tasks, repeats)
    for label, model in models.items():
        copies = peak_copies(lambda model=model: model.fit(X, y), X)
        print(
            f"{name:24} {label:11} {best[label]:8.3f} {best['sklearn']:8.3f}"
            f" {best[label] / best['sklearn']:7.2f} {'':10} {'':10} {copies:7.2f}"
        )


def statistics_rows(n_rows: int, repeats: int) -> None:
    """Time statistics of one column beside numpy, whose median is a sort."""
    x = np.random.default_rng(0).random((n_rows, 1))
    for kind, theirs in ((DPMean, np.mean), (DPVariance, np.var), (DPMedian, np.sort)):
        for relation in ("replace", "add_remove"):
            model = kind(bounds=(0, 1), neighboring=relation)
            tasks = {
                "numpy": lambda theirs=theirs: theirs(x[:, 0]),
                "ours": lambda model=model: model.fit(x),
            }
            best = interleaved(tasks, repeats)
            copies = peak_copies(tasks["ours"], x)
            name = f"{kind.__name__} {n_rows} / {theirs.__name__}"
            print(
                f"{name:24} {relation:11} {best['ours']:8.3f} {best['numpy']:8.3f}"
                f" {best['ours'] / best['numpy']:7.2f} {'':10} {'':10} {copies:7.2f}"
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    print(
        f"{'fit':24} {'':11} {'ours s':>8} {'sklearn':>8} {'ratio':>7}"
        f" {'|grad|':>10} {'sklearn':>10} {'copies':>7}"
    )
    shapes = [(100_000, 20), (50_000, 500)]
    for n_rows, width in shapes:
        X, y = dense(n_rows // part, width)
        logistic_row(f"logistic {n_rows // part}x{width}", X, y, options.repeats)
    X, y = csr(200_000 // part, 10_000, 20)
    logistic_row(f"logistic {X.shape[0]}x10000 CSR", X, y, options.repeats)
    for n_rows, width in ((100_000, 20), (50_000, 500)):
        ridge_row(
            f"ridge {n_rows // part}x{width}", n_rows // part, width, options.repeats
        )
    statistics_rows(10_000_000 // part, options.repeats)


if __name__ == "__main__":
    main()
