"""Models: from ONNX, from torch modules, from any function of a batch."""

import os

import numpy as np
import torch

from . import _core
from ._callable import Callable, neighbours
from ._errors import InvalidArgument, ModelError, Unsupported, first_line
from ._export import check, export, refused

# Of |a - b| / (1 + |b|), between a module and what was exported of it.
_PARITY = 1e-3


def as_floats(x, what):
    """x as a float32 tensor on the processor; shares its memory where it can."""
    if not isinstance(x, (torch.Tensor, np.ndarray)):
        raise InvalidArgument(f"{what}: {type(x).__name__} is neither a tensor nor an array")
    kind = str(x.dtype).removeprefix("torch.")
    if kind != "float32":
        raise InvalidArgument(f"{what}: dtype is {kind}, a model takes float32")
    if isinstance(x, np.ndarray):
        shared = x.flags.writeable and min(x.strides, default=0) >= 0
        x = torch.from_numpy(x if shared else x.copy())
    return x.cpu()


class _Engine(torch.autograd.Function):
    """The engine's passes for autograd."""

    @staticmethod
    def forward(ctx, x, core):
        ctx.save_for_backward(x)
        ctx.core = core
        return core.forward(x)

    @staticmethod
    def backward(ctx, slopes):
        (x,) = ctx.saved_tensors
        return ctx.core.gradient(x, slopes.contiguous()), None


class Model:
    """A network as a function of a batch.

    ``source``: the path of an ONNX file; the bytes of one; a ``torch.nn.Module``, which is exported
    to ONNX (``example``, one input or a batch, or ``shape`` of one input, says what it takes); or
    any function from a batch [N, ...] to outputs [N, ...], tensors of float32. Gradients go through
    a function whose output requires them; without, only mutations without gradients move inputs.

    ``shape`` is that of one input without the batch: ``(1, 28, 28)``.
    """

    def __init__(self, source, *, example=None, shape=None, name=None):
        self.path = self.bytes = self._callable = None
        self.has_gradient, self._told = True, False
        if isinstance(source, (str, os.PathLike)):
            self.path = _core.absolute_path(os.fspath(source))
            self._core = _core.load_model(self.path)
        elif isinstance(source, (bytes, bytearray, memoryview)):
            self.bytes = bytes(source)
            self._core = _core.parse_model(self.bytes, name or "<bytes>")
        elif isinstance(source, torch.nn.Module):
            check(source)
            self._from_module(source, _example(example, shape, type(source).__name__), name)
        elif callable(source):
            name = name or getattr(source, "__qualname__", type(source).__name__)
            self._from_callable(source, _example(example, shape, name), name)
        else:
            raise InvalidArgument(
                f"a model is the path or the bytes of an ONNX file, a torch.nn.Module or a function, "
                f"not a {type(source).__name__}"
            )
        self.name = name or self._core.name

    def _from_module(self, module, example, name):
        name = name or type(module).__name__
        example = example.to(next(module.parameters(), example).device)
        x = neighbours(example, 2)
        y = torch.stack([_outputs(module, row[None], name) for row in x])
        reasons = []
        for way, made in export(module, example):
            try:
                if isinstance(made, Exception):
                    raise made
                core = _core.parse_model(made, name)
                _compare(core.forward(x.cpu()), y)
            except Exception as error:
                reasons.append((way, error))
                continue
            self.bytes, self._core = made, core
            return
        raise refused(module, reasons)

    def _from_callable(self, function, example, name):
        runs = self._callable = Callable(function, name)
        self.has_gradient, float64 = runs.probe(example)
        self._core = _core.callable_model(
            name,
            list(example.shape[1:]),
            runs.outputs,
            runs.forward,
            runs.gradient if self.has_gradient else None,
            float64,
        )

    @property
    def is_callable(self):
        """Whether the engine calls Python for every batch."""
        return self._callable is not None

    @property
    def inputs(self):
        """Values of one input."""
        return self._core.inputs

    @property
    def outputs(self):
        """Values of one output."""
        return self._core.outputs

    @property
    def shape(self):
        """Of one input, without the batch."""
        shape = tuple(self._core.input_shape)
        batch = not self.is_callable and len(shape) > 1 and shape[0] == 1
        return shape[1:] if batch else shape

    def __call__(self, x):
        """Outputs [N, K] for x [N, ...], a float32 tensor or array, without a copy of either.

        Where ``x`` requires a gradient the outputs carry it: ONNX files are differentiable too.
        """
        x = as_floats(x, "x")
        if x.dim() == 0 or x.numel() != x.shape[0] * self.inputs:
            raise InvalidArgument(
                f"x: shape is {tuple(x.shape)}; {self.name} takes batches of shape "
                f"{('N', *self.shape)}".replace("'", "")
            )
        if self.is_callable:
            x = x.reshape(-1, *self.shape)
            return self._callable.run(x) if torch.is_grad_enabled() else self._callable.forward(x)
        return _Engine.apply(x, self._core)

    def save(self, path):
        """Writes the ONNX file."""
        if self.is_callable:
            raise Unsupported(f"{self.name} is a function, of which there is no ONNX file")
        data = self.bytes
        if data is None:
            with open(self.path, "rb") as file:
                data = file.read()
        with open(path, "wb") as file:
            file.write(data)

    def __repr__(self):
        kind = "function" if self.is_callable else "ONNX"
        return f"<grapeshot.Model {self.name} ({kind}): {self.shape} -> {self.outputs}>"


def _example(example, shape, name):
    """One input as a batch [1, ...]."""
    if example is not None:
        if shape is not None:
            raise InvalidArgument("example and shape say the same: give one of them")
        x = as_floats(example, "example").detach()
        if x.dim() < 1 or x.shape[0] == 0:
            raise InvalidArgument(f"example: shape is {tuple(x.shape)}; a batch [N, ...] is needed")
        return x[:1].clone()
    if shape is None:
        raise InvalidArgument(
            f"{name}: what it takes cannot be seen; say example=x[:1], a batch, or shape=(...), of one "
            "input without the batch"
        )
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(d, int) and d > 0 for d in shape):
        raise InvalidArgument(f"shape: {shape} is not a shape of whole numbers above 0")
    return torch.full((1, *shape), 0.5)


def _outputs(module, x, name):
    """All that the module returns for one input, flat."""
    try:
        with torch.no_grad():
            y = module(x)
    except Exception as error:
        raise ModelError(
            f"model '{name}': raised {first_line(error)} (for a batch of shape {tuple(x.shape)})"
        ) from error
    parts = y if isinstance(y, (tuple, list)) else (y,)
    if not parts or not all(isinstance(part, torch.Tensor) for part in parts):
        raise ModelError(
            f"model '{name}': returned a {type(y).__name__}; a module that returns one tensor around it helps"
        )
    return torch.cat([part.cpu().flatten() for part in parts])


def _compare(ours, theirs):
    """Raises where the engine computes something else than the module."""
    if ours.shape != theirs.shape:
        raise Unsupported(f"what it exports has {ours.shape[1]} outputs, not {theirs.shape[1]}")
    far = ((ours - theirs).abs() / (1 + theirs.abs())).max().item()
    if not far <= _PARITY:
        raise Unsupported(f"what it exports is off by {far:.3g} from the module itself")
