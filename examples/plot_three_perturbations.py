"""
Where to put the noise: output, objective or gradient
=====================================================

Three ways to fit a private logistic regression, on data with a known law, beside what
the theory says. All solve the same problem: minimise

    J(w) = sum_i log(1 + exp(-y_i <x_i, w>)) + lambda/2 |w|^2,    |x_i| <= 1,

whose gradient moves by at most 2 when one row is replaced. Gaussian noise of standard
deviation S/mu hides a move of S, where mu depends on epsilon and delta: for the values
here it is about epsilon/4, and a little less for a large epsilon.

output
    w = argmin J + b. The minimiser moves by at most 2/lambda, however many rows there
    are: J is only sure to be as curved as its ridge. So b has deviation 2/(lambda mu).
objective
    w = argmin J(w) + <b, w>, b of deviation 2/mu (Theorem A). J is as curved as the
    rows make it: the minimiser moves by A^-1 b, where A = n H + lambda is the curvature
    of J and H that of the mean loss.
gradient
    T noisy steps, each with deviation 2 sqrt(T)/mu. The mean of the last T/2 iterates
    averages their noise to 2 sqrt(2)/mu: as objective, and twice its loss.

Near its minimum J is quadratic: an error e of w costs e'Ae / (2n) for each row. So

    output       (2 / (lambda mu))^2 trace(A) / (2n)    ~ (lambda epsilon)^-2
    objective    (2 / mu)^2 trace(A^-1) / (2n)          ~ (d / (n epsilon))^2
    gradient     twice the objective's

while lambda is small beside n H: trace(H) is at most 1/4 whatever d is, and so H is
about 1/d in each of d directions. A loss that is only Lipschitz pays for the length of
e and not for its square: sqrt(d)/(lambda epsilon) for output. The figure draws the
three formulas as dashed lines, with their slopes.

Where there is more noise than model (small epsilon, few rows), J is no longer quadratic
and the points leave the lines. Gradient perturbation leaves first: each of its T = 100
steps has ten times the noise, and only their mean is good. A smaller step wanders less
but is slower: with the step size of 1 used here, half of what is left at epsilon = 10
is the way that 100 steps do not go.

The grey line is what the model without privacy loses to the best possible one, by
having n rows and a ridge. Noise far below it costs nothing that anybody could notice.
The dotted line is objective perturbation with the noise of Kifer, Smith and Thakurta
(2012), in place of Theorem A's.

``scale=None`` turns the private scaling of the rows off: the lesson is about the noise.

Run ``python examples/plot_three_perturbations.py`` for the table, and add ``--output
three.png`` for the figure (needs matplotlib).
"""

import argparse

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skdp.calibration import gaussian_shift
from skdp.linear_model import DPLogisticRegression

DELTA = 1e-6
TRUTH = 4.0 * np.array([3.0, -2.0, 2.0, -1.0, 1.0]) / np.sqrt(19.0)
KINDS = {  # name: (parameters, colour, marker, line)
    "output": ({"method": "output"}, "#d55e00", "o", "-"),
    "objective": ({"method": "objective"}, "#0072b2", "s", "-"),
    "objective, kst": ({"calibration": "kst"}, "#0072b2", None, ":"),
    "gradient": ({"method": "gradient", "step_size": 1.0}, "#009e73", "^", "-"),
}
GREY = "#5f6b76"
PLAIN = "not private"


def draw_rows(n, rng):
    """Rows on the unit sphere, and labels of a logistic law with TRUTH."""
    X = rng.standard_normal((n, TRUTH.size))
    X /= np.linalg.norm(X, axis=1)[:, None] * (1 + 1e-12)
    return X, np.where(rng.random(n) < expit(X @ TRUTH), 1, -1)


def objective(X, y, w, ridge):
    """J of the text, for each row."""
    return np.logaddexp(0, -y * (X @ w)).mean() + ridge * (w @ w) / (2 * len(y))


def risk(X, w):
    """The expected loss under the law, over the labels of these rows."""
    z, p = X @ w, expit(X @ TRUTH)
    return np.mean(p * np.logaddexp(0, -z) + (1 - p) * np.logaddexp(0, z))


def fit(X, y, epsilon, ridge, parameters):
    """The coefficients of one private fit."""
    model = DPLogisticRegression(
        epsilon,
        DELTA,
        C=1 / ridge,
        scale=None,
        fit_intercept=False,
        classes=[-1, 1],
        **parameters,
    )
    return model.fit(X, y).coef_[0]


def measure(n, epsilon, ridge, population, repetitions, rng):
    """Mean excess losses: of privacy for each kind, and of the model without it."""
    sums = dict.fromkeys([*KINDS, PLAIN], 0.0)
    for _ in range(repetitions):
        X, y = draw_rows(n, rng)
        plain = LogisticRegression(
            C=1 / ridge, fit_intercept=False, tol=1e-10, solver="newton-cholesky"
        ).fit(X, y)
        best = plain.coef_[0]
        sums[PLAIN] += risk(population, best) - risk(population, TRUTH)
        least = objective(X, y, best, ridge)
        for name, (parameters, *_) in KINDS.items():
            draws = 1 if name == "gradient" else 3  # the others are fast
            for _ in range(draws):
                w = fit(X, y, epsilon, ridge, parameters)
                sums[name] += (objective(X, y, w, ridge) - least) / draws
    return {name: total / repetitions for name, total in sums.items()}


def curvature(n, ridge, population):
    """The eigenvalues of A at the minimum of the expected J, by Newton's method."""
    w, p = TRUTH, expit(population @ TRUTH)
    for _ in range(20):
        q = expit(population @ w)
        A = (population * (q * (1 - q))[:, None]).T @ population * (n / len(q))
        A += ridge * np.eye(w.size)
        w = w - np.linalg.solve(A, population.T @ (q - p) * (n / len(q)) + ridge * w)
    return np.linalg.eigvalsh(A)


def theory(n, epsilon, ridge, population):
    """The formulas of the text."""
    values = curvature(n, ridge, population)
    noise = 2 / gaussian_shift(epsilon, DELTA)
    inside = noise**2 * np.sum(1 / values) / (2 * n)
    return {
        "output": (noise / ridge) ** 2 * values.sum() / (2 * n),
        "objective": inside,
        "gradient": 2 * inside,
    }


def panels():
    """For each panel: its title, its axis, its points (n, epsilon, lambda), slopes."""
    n, sizes = 4000, np.geomspace(500, 32_000, 7).round().astype(int)
    return [
        (
            f"n = {n:,}, λ = 25",
            "ε",
            [(n, e, 25.0) for e in np.geomspace(0.1, 10, 7)],
            {"output": "slope ≈ -2", "objective": "slope ≈ -2"},
        ),
        (
            "ε = 1, λ = √n / 4",
            "n",
            [(int(m), 1.0, np.sqrt(m) / 4) for m in sizes],
            {"output": "slope -1", "objective": "slope → -2"},
        ),
        (
            f"ε = 1, n = {n:,}",
            "λ",
            [(n, 1.0, r) for r in np.geomspace(2.2, 1000, 7)],
            {"output": "slope -2", "objective": "flat until λ ≈ n H"},
        ),
    ]


def position(axis, point):
    """Where a point lies on the axis of its panel."""
    return point["nελ".index(axis)]


def print_tables(results):
    """Print the losses that the figure draws."""
    names = [*KINDS, PLAIN]
    for (title, axis, points, _), found in results:
        print(f"\nexcess loss, {title}")
        print(f"{axis:>9}" + "".join(f"{name:>16}" for name in names))
        for point, row in zip(points, found, strict=True):
            print(
                f"{position(axis, point):>9.4g}"
                + "".join(f"{row[name]:>16.2e}" for name in names)
            )


def draw_panel(ax, panel, found, population):
    """One panel: points and lines as measured, dashes as in theory."""
    title, axis, points, slopes = panel
    x = [position(axis, point) for point in points]
    for name, (_, colour, marker, line) in KINDS.items():
        y = [row[name] for row in found]
        ax.plot(x, y, line, color=colour, marker=marker, markersize=5, label=name)
    ax.plot(
        x,
        [row[PLAIN] for row in found],
        color=GREY,
        linewidth=3,
        label=f"{PLAIN} (n rows, ridge)",
    )
    expected = [theory(*point, population) for point in points]
    for name in expected[0]:
        y = [row[name] for row in expected]
        ax.plot(x, y, "--", color=KINDS[name][1], linewidth=1, alpha=0.8)
        if name in slopes:
            middle = len(x) // 2
            ax.annotate(
                slopes[name],
                (x[middle], y[middle]),
                xytext=(8, 8) if name == "output" else (-8, -12),
                textcoords="offset points",
                ha="left" if name == "output" else "right",
                va="bottom" if name == "output" else "top",
                color=KINDS[name][1],
            )
    ax.set(xscale="log", yscale="log", title=title)


def draw(results, population):
    """The three panels as one figure."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, 3, figsize=(13, 5), sharey=True, layout="constrained"
    )
    names = {"ε": "privacy ε", "n": "number of rows n", "λ": "regularisation λ"}
    for ax, (panel, found) in zip(axes, results, strict=True):
        draw_panel(ax, panel, found, population)
        ax.set_xlabel(names[panel[1]])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontweight("bold")
        ax.grid(alpha=0.25)
    axes[0].set_ylabel("excess loss of a row")
    handles, labels = axes[0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], color="black", linestyle="--", linewidth=1))
    figure.legend(
        handles, [*labels, "theory"], loc="outside lower center", ncols=6, frameon=False
    )
    return figure


def main():
    parser = argparse.ArgumentParser(description="Compare three private methods.")
    parser.add_argument("--repetitions", type=int, default=16)
    parser.add_argument("--output", metavar="PNG", help="write the figure to this file")
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    population = draw_rows(20_000, rng)[0]
    results = [
        (
            panel,
            [measure(*q, population, options.repetitions, rng) for q in panel[2]],
        )
        for panel in panels()
    ]
    print_tables(results)
    try:
        figure = draw(results, population)
    except ImportError:
        if options.output:
            parser.exit(1, "\n--output needs matplotlib: pip install matplotlib\n")
        return
    if options.output:
        figure.savefig(options.output, dpi=150)
        print(f"\nfigure written to {options.output}")


if __name__ == "__main__":
    main()
