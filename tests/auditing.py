"""A lower bound on epsilon from what two neighbours' releases look like."""

import numpy as np
from scipy import stats

FAILURE = 1e-7  # of the confidence: a tight mechanism passes all but one run in 1e7


def ratio(inside, outside, trials, delta, failure):
    """Clopper-Pearson bound of the log ratio of two probabilities, less delta."""
    low = stats.beta.ppf(failure / 2, np.maximum(inside, 1), trials - inside + 1)
    high = stats.beta.isf(failure / 2, outside + 1, np.maximum(trials - outside, 1))
    low = np.where(np.asarray(inside) > 0, low - delta, 0.0)
    return np.log(np.maximum(low, 1e-9) / high)


def lower_bound(first, second, delta=0.0, failure=FAILURE):
    """The event is chosen on a quarter of the outputs, and tried on the others."""
    sides = [np.split(np.asarray(one), [len(one) // 4]) for one in (first, second)]
    pooled = np.concatenate([sides[0][0], sides[1][0]])
    values = np.quantile(pooled, np.arange(1, 50) / 50)
    found = []
    for a, b in (sides, sides[::-1]):
        for sign in (-1, 1):
            counts = [np.sum(sign * c[0][:, None] >= sign * values, 0) for c in (a, b)]
            scores = ratio(*counts, a[0].size, delta, 1e-6)  # not a rare event
            best = int(np.argmax(scores))
            found.append((scores[best], sign, values[best], a[1], b[1]))
    _, sign, value, a, b = max(found, key=lambda item: item[0])
    counts = [np.count_nonzero(sign * c >= sign * value) for c in (a, b)]
    return max(0.0, float(ratio(*counts, a.size, delta, failure)))
