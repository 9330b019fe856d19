"""
A census that nobody lives in
=============================

Draw the synthetic census, print its answers beside the true ones of its law, and show
its ages, its incomes and what schooling is worth in it.

Run ``python examples/plot_census.py`` for the table, and add ``--output census.png``
for the figure (needs matplotlib).
"""

import argparse

import numpy as np

from skdp.datasets import CENSUS_LAW, CENSUS_MARGINS, make_census

BLUE, ORANGE, GREY = "#33658a", "#e07a3f", "#5f6b76"


def sample_answers(census):
    """The quantities of CENSUS_MARGINS, from the rows."""
    age, sex, education, hours, married, _ = census.data.mean(axis=0)
    return {
        "age": age,
        "female": sex,
        "education": education,
        "hours": hours,
        "working": np.mean(census.data[:, 3] > 0),
        "married": married,
        "income": census.income.mean(),
        "median_income": np.median(census.income),
        "no_income": np.mean(census.income == 0),
        "high_income": census.target.mean(),
    }


def print_table(census):
    """Print the answers of the sample beside those of the law."""
    print(f"{len(census.income):,} people\n")
    print(f"{'quantity':<15}{'sample':>12}{'law':>12}")
    for name, value in sample_answers(census).items():
        digits = 0 if CENSUS_MARGINS[name] > 1000 else 3
        law = CENSUS_MARGINS[name]
        print(f"{name:<15}{value:>12,.{digits}f}{law:>12,.{digits}f}")
    print(f"\n{'education':<15}{'share':>12}{'median':>12}{'high income':>14}")
    for years, level in census.categories["education"].items():
        rows = census.data[:, 2] == years
        if rows.any():
            median, high = np.median(census.income[rows]), census.target[rows].mean()
            print(f"{level:<15}{rows.mean():>12.3f}{median:>12,.0f}{high:>14.3f}")


def draw_pyramid(ax, census):
    """Men to the left, women to the right, in bands of three years."""
    edges = np.arange(18, 97, 3)
    for sex, side, colour in ((0, -1, BLUE), (1, 1, ORANGE)):
        ages = census.data[census.data[:, 1] == sex, 0]
        share = 100 * np.histogram(ages, edges)[0] / len(census.data)
        ax.barh(edges[:-1] + 1.5, side * share, height=2.6, color=colour)
        ax.text(side * 2.2, 92, ("men", "women")[sex], color=colour, ha="center")
    ax.axvline(0, color="white", linewidth=1)
    ax.set(title="Age pyramid", xlabel="share of the population, %", ylabel="age")
    ax.set(xlim=(-3.1, 3.1), ylim=(17, 97))
    ax.xaxis.set_major_formatter(lambda x, _: f"{abs(x):g}")


def draw_income(ax, census):
    """Positive incomes on a logarithmic axis, and the line of the target."""
    positive = census.income[census.income > 0]
    edges = np.geomspace(1_000, CENSUS_LAW.income_cap, 61)
    share = np.full(len(positive), 100 / len(census.income))
    ax.hist(positive, edges, weights=share, color=BLUE, edgecolor="white", lw=0.3)
    limit = CENSUS_LAW.high_income_above
    ax.axvline(limit, color=ORANGE, linewidth=1.5)
    note = f"{100 * census.target.mean():.1f} %\nabove\n{limit:,.0f}"
    ax.text(limit * 1.15, 0.93, note, color=ORANGE, va="top", transform=_mixed(ax))
    zero = f"{100 * np.mean(census.income == 0):.1f} % have\nno income"
    ax.text(1_150, 0.93, zero, color=GREY, va="top", transform=_mixed(ax))
    ax.set(title="Income", xlabel="income per year (log scale)", xscale="log")
    ax.set(
        ylabel="share of the population, %", xlim=(1_000, 1.2 * CENSUS_LAW.income_cap)
    )
    ax.set_xticks([1e3, 1e4, 1e5, 5e5], ["1k", "10k", "100k", "500k"])


def _mixed(ax):
    return ax.get_xaxis_transform()


def draw_education(ax, census):
    """Earnings by schooling: the median, the middle half and the middle 90 %."""
    levels = census.categories["education"]
    for y, years in enumerate(levels):
        rows = (census.data[:, 3] > 0) & (census.data[:, 2] == years)
        if rows.any():
            p5, p25, p50, p75, p95 = np.percentile(
                census.income[rows], [5, 25, 50, 75, 95]
            )
            ax.plot([p5, p95], [y, y], color=BLUE, linewidth=1.5)
            ax.barh(y, p75 - p25, left=p25, height=0.6, color=BLUE)
            ax.plot([p50, p50], [y - 0.3, y + 0.3], color="white", linewidth=2)
    ax.axvline(CENSUS_LAW.high_income_above, color=ORANGE, linewidth=1.5, zorder=0)
    ax.set_yticks(range(len(levels)), levels.values())
    ax.set(title="Earnings by education, workers only", xscale="log")
    ax.set(xlabel="income per year (log scale): median, 50 %, 90 %")
    ax.set_xticks([10e3, 30e3, 100e3, 300e3], ["10k", "30k", "100k", "300k"])


def draw(census):
    """The three panels as one figure."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for ax, panel in zip(
        axes, (draw_pyramid, draw_income, draw_education), strict=True
    ):
        panel(ax, census)
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontweight("bold")
    return figure


def main():
    parser = argparse.ArgumentParser(description="Show the synthetic census.")
    parser.add_argument("--n-samples", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", metavar="PNG", help="write the figure to this file")
    options = parser.parse_args()

    census = make_census(options.n_samples, random_state=options.seed)
    print_table(census)
    try:
        figure = draw(census)
    except ImportError:
        if options.output:
            parser.exit(1, "\n--output needs matplotlib: pip install matplotlib\n")
        return
    if options.output:
        figure.savefig(options.output, dpi=150)
        print(f"\nfigure written to {options.output}")


if __name__ == "__main__":
    main()
