"""Mean and variance on one part of the rows, the median on another, one budget.

A classic exercise: releases on the same rows add up, releases on disjoint rows do not.
With prices e1 and e2 for mean and variance of the first half, and e3 for the median of
the second, the whole costs max(e1 + e2, e3).
"""

from skdp import BudgetAccountant
from skdp.datasets import make_census
from skdp.stats import DPMean, DPMedian, DPVariance

E1, E2, E3 = 0.3, 0.2, 0.4

# --- The data, and a public rule that splits it: the parity of the row number

census = make_census(n_samples=10_000, random_state=0)
names = list(census.feature_names)
ages = census.data[:, [names.index("age")]].astype(float)
first, second = ages[0::2], ages[1::2]

# --- One budget, two handles for two disjoint parts

budget = BudgetAccountant(1.0, 0.0)
here, there = budget.parallel(2)

mean = DPMean(E1, bounds=(0, 100), accountant=here).fit(first)
variance = DPVariance(E2, bounds=(0, 100), accountant=here).fit(first)
print(f"After mean and variance: {budget.total().epsilon:.1f} = e1 + e2")

median = DPMedian(E3, bounds=(0, 100), resolution=1, accountant=there).fit(second)
total = budget.total().epsilon
print(f"After the median:        {total:.1f} = max(e1 + e2, e3)")
assert abs(total - max(E1 + E2, E3)) < 1e-12

# --- What was released, beside what is true

low, high = mean.interval(0.95)
print(f"\n{'':10} {'private':>9} {'true':>9} {'noise (std)':>12}")
print(
    f"{'mean':10} {mean.mean_[0]:9.3f} {first.mean():9.3f} "
    f"{mean.standard_error_[0]:12.3f}"
)
print(
    f"{'variance':10} {variance.var_[0]:9.1f} {first.var():9.1f} "
    f"{variance.standard_error_[0]:12.1f}"
)
print(f"{'median':10} {median.median_[0]:9.0f} {sorted(second[:, 0])[2499]:9.0f}")
print(f"\n95 % interval of the mean, sampling included: {low[0]:.2f} to {high[0]:.2f}")
print(mean.privacy_)
