"""Small networks for every ONNX operator that grapeshot runs; test_operators.py compares them.

Each module of a group adds its cases to CASES when it is imported.
"""

import operator_cases_attention
import operator_cases_control
import operator_cases_if
import operator_cases_index
import operator_cases_layers
import operator_cases_math
import operator_cases_norm
import operator_cases_quantized
import operator_cases_recurrent
import operator_cases_reduce
import operator_cases_resize
import operator_cases_select
import operator_cases_shape
import operator_cases_signal
from case_tools import CASES, Case, net, node, positive, rows, w
from operator_cases_layers import statistics

GROUPS = (
    operator_cases_math,
    operator_cases_layers,
    operator_cases_norm,
    operator_cases_recurrent,
    operator_cases_reduce,
    operator_cases_shape,
    operator_cases_index,
    operator_cases_resize,
    operator_cases_if,
    operator_cases_control,
    operator_cases_quantized,
    operator_cases_attention,
    operator_cases_select,
    operator_cases_signal,
)

__all__ = ["CASES", "GROUPS", "Case", "net", "node", "positive", "rows", "statistics", "w"]
