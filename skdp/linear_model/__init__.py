"""Private linear models."""

from skdp.linear_model._huber import DPHuberRegressor
from skdp.linear_model._linear_svc import DPLinearSVC
from skdp.linear_model._logistic import DPLogisticRegression
from skdp.linear_model._ridge import DPRidge

__all__ = ["DPHuberRegressor", "DPLinearSVC", "DPLogisticRegression", "DPRidge"]
