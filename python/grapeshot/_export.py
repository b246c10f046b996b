"""torch.nn.Module to ONNX bytes."""

import contextlib
import importlib.util
import io
import logging
import warnings

import torch

from ._errors import InvalidArgument, Unsupported, first_line

_OPSET = 18


def check(module):
    """Raises where ``module`` is not ready to be looked at as one function of its input."""
    for name, each in module.named_modules():
        if each.training:
            where = f"its part '{name}'" if name else "the module"
            raise InvalidArgument(
                f"{where} is in training mode, where dropout and batch normalisation depend on the "
                "batch; call .eval() first"
            )
    for name, each in module.named_parameters():
        if each.is_floating_point() and each.dtype != torch.float32:
            kind = str(each.dtype).removeprefix("torch.")
            raise InvalidArgument(
                f"parameter '{name}' is {kind}; the engine takes float32: call .float() first"
            )


def has_torch_export():
    """Whether the newer exporter has what it needs."""
    return importlib.util.find_spec("onnxscript") is not None


def _by_tracing(module, example, file):
    torch.onnx.export(module, (example,), file, dynamo=False, opset_version=_OPSET)


def _by_torch_export(module, example, file):
    torch.onnx.export(
        module, (example,), dynamo=True, opset_version=_OPSET, verbose=False
    ).save(file)


@contextlib.contextmanager
def _quietly():
    """Exporters speak to their own developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def export(module, example):
    """Ways to the ONNX file of ``module`` for inputs like ``example`` [1, ...]: (name, bytes or error)."""
    ways = [("tracing", _by_tracing)]
    if has_torch_export():
        ways.append(("torch.export", _by_torch_export))
    for name, way in ways:
        file = io.BytesIO()
        try:
            with _quietly(), torch.no_grad():
                way(module, example, file)
        except Exception as error:
            yield name, error
        else:
            yield name, file.getvalue()


def refused(module, reasons):
    """The error for a module that no exporter takes."""
    first = [f"{way}: {first_line(error)}" for way, error in reasons]
    more = "" if len(reasons) > 1 else "; `pip install onnxscript` adds torch's newer exporter"
    return Unsupported(
        f"{type(module).__name__} cannot be exported to ONNX ({'; '.join(first)}){more}; "
        "Model(module.forward, shape=...) tests it as a function"
    )
