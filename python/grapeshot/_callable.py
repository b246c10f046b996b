"""A Python function of a batch as what the engine calls."""

import numpy as np
import torch

from ._errors import ModelError, first_line


def neighbours(example, count):
    """``example`` [1, ...] and ``count`` inputs near it, the same ones every time."""
    noise = torch.randn((count, *example.shape[1:]), generator=torch.Generator().manual_seed(0))
    return torch.cat([example, example + 0.1 * noise.to(example.device)])


class Callable:
    """Runs ``function`` on batches and checks what it returns.

    ``outputs`` is the number of values of one row, found by the first call.
    """

    def __init__(self, function, name):
        self._function = function
        self._name = name
        self._threads = torch.get_num_threads()
        self.outputs = None

    def _fail(self, what, cause=None):
        raise ModelError(f"model '{self._name}': {what}") from cause

    def run(self, x):
        """y [N, K] of x [N, ...] in the dtype of x, with the history that grad mode says."""
        version, before = x._version, torch.get_num_threads()
        torch.set_num_threads(self._threads)  # lanes of the engine have one each
        try:
            y = self._function(x)
        except Exception as error:
            self._fail(f"raised {first_line(error)} (for a batch of shape {tuple(x.shape)})", error)
        finally:
            torch.set_num_threads(before)
        if x._version != version:
            self._fail("changed its input in place; let it work on x.clone()")
        return self._as_rows(y, x)

    def _as_rows(self, y, x):
        if isinstance(y, (np.ndarray, np.generic)):
            y = torch.as_tensor(y)
        if not isinstance(y, torch.Tensor):
            self._fail(f"returned a {type(y).__name__}, not a tensor")
        rows = y.shape[0] if y.dim() else None
        if rows != x.shape[0]:
            self._fail(
                f"returned shape {tuple(y.shape)} for a batch of {x.shape[0]} rows: the first axis "
                "has to be the rows"
            )
        if y.is_complex():
            self._fail("returned complex numbers")
        y = y.reshape(rows, -1).to(device="cpu", dtype=x.dtype)
        if self.outputs is None:
            self.outputs = y.shape[1]
        if y.shape[1] != self.outputs:
            self._fail(f"returned {y.shape[1]} values a row, {self.outputs} at first")
        return y

    def forward(self, x):
        with torch.no_grad():
            return self.run(x).contiguous()

    def gradient(self, x, cotangent):
        """(y, dL/dx) for dL/dy = cotangent(y)."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = self.run(x)
        slopes = cotangent(y.detach())
        if not y.requires_grad:  # a constant, for this batch
            return y, torch.zeros_like(x)
        (slope,) = torch.autograd.grad(y, x, slopes, allow_unused=True)
        return y.detach(), torch.zeros_like(x) if slope is None else slope

    def probe(self, example):
        """Whether a gradient passes, and whether float64 inputs do; checks that rows stay rows."""
        batch = neighbours(example, 1)
        y = self.forward(batch)
        alone = torch.cat([self.forward(row[None]) for row in batch])
        if not torch.allclose(y, alone, rtol=1e-3, atol=1e-4, equal_nan=True):
            self._fail("a row's output changes with the rest of its batch, or from call to call")
        try:
            with torch.enable_grad():
                slopes = self.run(batch.clone().requires_grad_()).requires_grad
        except ModelError:  # x.numpy(), say
            slopes = False
        try:
            double = self._function(example.double())
        except Exception:
            return slopes, False
        return slopes, isinstance(double, torch.Tensor) and double.dtype == torch.float64
