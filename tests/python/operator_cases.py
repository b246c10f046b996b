"""Small networks for every ONNX operator that grapeshot runs; test_operators.py compares them.

Each module of a group adds its cases to CASES when it is imported.
"""

import operator_cases_math  # isort: skip  (random tensors are drawn in this order)
import operator_cases_layers
import operator_cases_norm
import operator_cases_reduce
import operator_cases_shape
from case_tools import CASES, Case, net, node, positive, rows, w
from operator_cases_layers import statistics

__all__ = ["CASES", "Case", "net", "node", "positive", "rows", "statistics", "w"]
