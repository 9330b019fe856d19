"""Private empirical risk minimisation: losses x solvers x perturbations.

The three are independent. A loss knows its value, its derivatives and the constants
that bound them; a solver finds a minimum and certifies how good it is; a perturbation
turns a loss, bounds and a budget into an event and, once that is paid, coefficients.
"""

from skdp.erm.losses import Huber, Logistic, Loss, SmoothedHinge, Softmax, Squared

__all__ = ["Huber", "Logistic", "Loss", "SmoothedHinge", "Softmax", "Squared"]
