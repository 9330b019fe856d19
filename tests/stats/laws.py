"""The laws of private quantiles, by enumeration.

``enumerated`` runs a release once for every outcome of its random choices and adds up
the probabilities: the exact law of the code, with nothing sampled. It is compared with
the law of the definition, and neighbouring laws with each other.
"""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skdp.stats import _quantile_core as core
from skdp.stats import _quantile_joint as joint

RELATIONS = ("replace", "add_remove")


# --- Every outcome of a release, with its probability


class Choices:
    """Stands in for the samplers: follows a script and notes what it could choose."""

    def __init__(self):
        self.script, self.path = [], []

    def pick(self, options):
        """Return one of the (value, probability) options, the next in the script."""
        position = len(self.path)
        choice = self.script[position] if position < len(self.script) else 0
        self.path.append((choice, options))
        return options[choice][0]

    def categorical(self, weights, bits):
        total = math.fsum(weights)
        return self.pick([(i, w / total) for i, w in enumerate(weights) if w > 0])

    def uniform_integers(self, bound, size, bits):
        if size is None:
            return self.pick([(k, 1 / bound) for k in range(bound)])
        drawn = [self.uniform_integers(bound, None, bits) for _ in range(size)]
        return np.array(drawn, dtype=np.int64)

    def multiset(self, count, size, bits):
        tuples = list(itertools.combinations_with_replacement(range(count), size))
        return self.pick([(list(one), 1 / len(tuples)) for one in tuples])


def enumerated(monkeypatch):
    """Return a function from a release to {outcome: probability}."""
    choices = Choices()
    for module in (core, joint):
        monkeypatch.setattr(module, "categorical", choices.categorical)
        monkeypatch.setattr(module, "uniform_integers", choices.uniform_integers)
    monkeypatch.setattr(joint, "_multiset", choices.multiset)

    def run(release, values, *args):
        found, script = defaultdict(float), []
        while True:
            choices.script, choices.path = script, []
            outcome = release(np.array(values, dtype=float), *args, 0)
            found[tuple(np.atleast_1d(outcome).tolist())] += math.prod(
                options[choice][1] for choice, options in choices.path
            )
            script = [choice for choice, _ in choices.path]
            while script and script[-1] + 1 == len(choices.path[len(script) - 1][1]):
                script.pop()
            if not script:
                return dict(found)
            script[-1] += 1

    return run


# --- The laws of the definitions, with as many digits as it takes


def normalised(weights):
    total = mpmath.fsum(weights.values())
    return {key: float(weight / total) for key, weight in weights.items()}


def single_law(values, q, grid, epsilon, neighboring):
    rows, q = grid.cell(values).tolist(), Fraction(q)
    sensitivity = 1 if neighboring == "replace" else max(q, 1 - q)
    if q in (0, 1):
        sensitivity = Fraction(1, 2)
    rate = (Fraction(epsilon) - Fraction(core._SLACK)) / (2 * sensitivity)
    weights = {}
    for k in range(grid.cells):
        below, upto = sum(c < k for c in rows), sum(c <= k for c in rows)
        distance = max(below - q * len(rows), q * len(rows) - upto, 0)
        exponent = min(rate * distance, Fraction(core._CAP))
        weights[(grid.point(k),)] = mpmath.exp(-mpmath.mpmathify(exponent))
    return normalised(weights)


def joint_law(rows, qs, points, epsilon, neighboring):
    """The law of a tuple of points, for rows that are points themselves."""
    qs = [Fraction(0), *map(Fraction, qs), Fraction(1)]
    parts = [b - a for a, b in itertools.pairwise(qs)]
    sensitivity = 2 if neighboring == "replace" else 2 * (1 - min(parts))
    rate = (Fraction(epsilon) - Fraction(joint._JOINT_SLACK)) / (2 * sensitivity)
    weights = {}
    for chosen in itertools.combinations_with_replacement(range(points), len(qs) - 2):
        ranks = [0, *(sum(row <= z for row in rows) for z in chosen), len(rows)]
        weights[chosen] = mpmath.mpf(1)
        for (a, b), part in zip(itertools.pairwise(ranks), parts, strict=True):
            far = rate * abs((b - a) - part * len(rows))
            weights[chosen] *= mpmath.exp(-mpmath.mpmathify(far)) + mpmath.exp(
                -joint._JOINT_CAP
            )
    return normalised(weights)


def assert_same_law(ours, theirs):
    assert set(ours) == set(theirs)
    for key, probability in theirs.items():
        assert ours[key] == pytest.approx(probability, rel=1e-9)


def losses(law, release, all_rows, *args):
    """Yield the privacy losses of all outcomes, for all pairs of neighbours."""
    laws = {rows: law(release, rows, *args) for rows in all_rows}
    for one, other in itertools.permutations(laws, 2):
        if are_neighbours(one, other, args[-1]):
            yield [math.log(laws[one][key] / laws[other][key]) for key in laws[one]]


def are_neighbours(one, other, neighboring):
    if neighboring == "replace":
        if len(one) != len(other):
            return False
        rest = list(other)
        for row in one:
            if row in rest:
                rest.remove(row)
        return len(rest) == 1
    short, long = sorted((one, other), key=len)
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def tables(cells, sizes):
    """All multisets of rows on the points 0, ..., cells - 1."""
    return [
        rows
        for n in sizes
        for rows in itertools.combinations_with_replacement(range(cells), n)
    ]
