"""Grapeshot finds inputs that break neural networks.

>>> import grapeshot, torch
>>> model = grapeshot.Model(net.eval(), example=x[:1])
>>> result = grapeshot.fuzz(model, grapeshot.Specs.from_arrays(x, y, eps=0.1), seconds=10)
>>> result.summary["instances_falsified"], result.x.shape

Options are those of the program: ``--per-instance 3`` is ``per_instance=3``;
``grapeshot.options("fuzz")`` lists them.
"""

import torch as _torch  # before _core: its libraries

from . import _core

if _core.torch_version.split(".")[:2] != _torch.__version__.split(".")[:2]:
    raise ImportError(
        f"grapeshot was built for torch {_core.torch_version} and finds {_torch.__version__}; "
        "`pip install --force-reinstall --no-deps grapeshot` builds it again"
    )

from ._commands import coverage, diff, falsify, fuzz, options, replay
from ._errors import (
    Error,
    GrapeshotWarning,
    InternalError,
    InvalidArgument,
    ModelError,
    NotFound,
    ParseError,
    SystemFailure,
    Unsupported,
)
from ._model import Model
from ._result import Answer, Finding, Result
from ._specs import Specs

__version__ = _core.version

__all__ = [
    "Answer",
    "Error",
    "Finding",
    "GrapeshotWarning",
    "InternalError",
    "InvalidArgument",
    "Model",
    "ModelError",
    "NotFound",
    "ParseError",
    "Result",
    "Specs",
    "SystemFailure",
    "Unsupported",
    "coverage",
    "diff",
    "falsify",
    "fuzz",
    "options",
    "replay",
]
