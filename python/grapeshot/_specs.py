"""Specifications: what counts as a violation, and where to look for one."""

import itertools
import math
import os
import pathlib

import numpy as np
import torch

from ._errors import InvalidArgument, NotFound
from ._model import Model

# Rows of a data set that are looked at without `limit`.
_MOST = 1_000_000


class Specs:
    """Instances for ``fuzz``, ``falsify`` and others; one of the ``from_`` functions makes them."""

    def __init__(self, kind, size, write, example=None, wrap=None):
        self._kind, self._size, self._write, self._wrap = kind, size, write, wrap
        self.example = example  # a batch of one input, or None

    def __len__(self):
        return self._size

    def __repr__(self):
        return f"<grapeshot.Specs {self._kind}: {self._size} instances>"

    def arguments(self, folder):
        """What says on the program's command line what this is; files go to ``folder``."""
        return self._write(pathlib.Path(folder))

    def model(self, model):
        """What is searched for ``model``: itself, or a function of its inputs and outputs."""
        return self._wrap(model) if self._wrap else model

    @classmethod
    def from_vnnlib(cls, *paths):
        """VNN-LIB files, or JSON specifications; perhaps gzipped."""
        if len(paths) == 1 and isinstance(paths[0], (list, tuple)):
            paths = paths[0]
        paths = [os.fspath(path) for path in paths]
        if not paths:
            raise InvalidArgument("from_vnnlib: names no file")
        for path in paths:
            if not (os.path.exists(path) or os.path.exists(path + ".gz")):
                raise NotFound(f"{path}: no such file")
        return cls("files", len(paths), lambda folder: paths)

    @classmethod
    def from_arrays(cls, x, y=None, *, eps):
        """Top-1 robustness in boxes x +- eps.

        ``x`` [N, ...], ``y`` [N] labels; -1, or no ``y``: the model's own prediction. Tensors that
        require gradients, lie on a device or are not contiguous are fine. ``eps`` is in units of x.
        """
        x = _numbers(x, "x")
        if x.ndim < 2 or x.shape[0] == 0 or x.size == 0:
            raise InvalidArgument(
                f"x: shape is {x.shape}; rows of inputs, [N, ...] with N above 0, are needed"
            )
        bad = ~np.isfinite(x.reshape(len(x), -1)).all(1)
        if bad.any():
            raise InvalidArgument(f"x: row {bad.argmax()} holds NaN or infinity")
        if y is not None:
            y = _labels(y, len(x))
        if not isinstance(eps, (int, float, np.number)) or not (0 < eps < math.inf):
            raise InvalidArgument(f"eps: {eps!r} is not a finite number above 0")

        def write(folder):
            out = [f"--data={_save(folder / 'x.npy', x)}", f"--eps={float(eps)!r}"]
            if y is not None:
                out.append(f"--labels={_save(folder / 'y.npy', y)}")
            return out

        first = torch.from_numpy(np.array(x[:1], dtype=np.float32))
        return cls(f"x +- {eps:g}", len(x), write, first)

    @classmethod
    def from_dataset(cls, dataset, *, eps, limit=None, pick=None):
        """The same for a ``torch.utils.data.Dataset`` of (input, label).

        ``limit``: the first so many items; ``pick(item)`` gives (input, label) of other items.
        """
        if not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__iter__"):
            raise InvalidArgument(f"dataset: a {type(dataset).__name__} holds no items")
        x, y = [], []
        for i, item in enumerate(itertools.islice(_items(dataset), limit or _MOST)):
            one, label = _pair(item, i, pick)
            if x and one.shape != x[0].shape:
                raise InvalidArgument(
                    f"dataset: item {i} has shape {one.shape}, item 0 has {x[0].shape}"
                )
            x.append(one)
            y.append(label)
        if not x:
            raise InvalidArgument("dataset: holds no item")
        return cls.from_arrays(np.stack(x), np.array(y), eps=eps)

    @classmethod
    def from_constraints(cls, lo, hi, A, b):
        """Inputs in boxes lo..hi ([N, ...]) whose outputs y satisfy A y <= b in every row of A violate.

        ``A`` [M, K], ``b`` [M], for all instances.
        """
        A, b = (torch.from_numpy(np.array(_numbers(v, n), dtype=np.float32)) for v, n in ((A, "A"), (b, "b")))
        if A.dim() != 2 or b.shape != A.shape[:1]:
            raise InvalidArgument(
                f"A and b: shapes {tuple(A.shape)} and {tuple(b.shape)} are not [M, K] and [M]"
            )

        def margin(x, y):
            if y.shape[1] != A.shape[1]:
                raise InvalidArgument(f"A: has {A.shape[1]} columns; the model has {y.shape[1]} outputs")
            return (y @ A.T - b).amax(1)

        return cls.from_margin(lo, hi, margin)

    @classmethod
    def from_margin(cls, lo, hi, margin):
        """Inputs in boxes lo..hi ([N, ...]) where ``margin(x, y)`` is at most 0 violate.

        ``margin`` takes batches of inputs [B, ...] and of outputs [B, K] and returns [B], how far each
        row is from a violation; gradients go through it.
        """
        lo, hi = (np.ascontiguousarray(_numbers(v, n), dtype=np.float32) for v, n in ((lo, "lo"), (hi, "hi")))
        if lo.shape != hi.shape or lo.ndim < 2 or lo.size == 0:
            raise InvalidArgument(f"lo and hi: shapes {lo.shape} and {hi.shape} are not both [N, ...]")
        if not (np.isfinite(lo) & np.isfinite(hi)).all():
            raise InvalidArgument("lo and hi: hold NaN or infinity")
        if (lo > hi).any():
            raise InvalidArgument(f"lo: is above hi in row {(lo > hi).reshape(len(lo), -1).any(1).argmax()}")
        if not callable(margin):
            raise InvalidArgument(f"margin: a {type(margin).__name__} cannot be called")
        first = torch.from_numpy(lo[:1].copy())

        def wrap(model):
            name = f"{getattr(margin, '__name__', 'margin')}({model.name})"
            return Model(lambda x: margin(x, model(x)), example=first, name=name)

        def write(folder):
            return [_save_box(folder / f"box{i}.vnnlib", lo[i], hi[i]) for i in range(len(lo))]

        return cls("a margin in boxes", len(lo), write, first, wrap)


def _numbers(x, what):
    """x as an array of real numbers."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = (x.float() if x.dtype in (torch.float16, torch.bfloat16) else x).numpy()
    try:
        x = np.asarray(x)
    except ValueError as error:
        raise InvalidArgument(f"{what}: {error}") from None
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    if x.dtype.kind not in "iufb" or x.dtype.itemsize > 8:
        raise InvalidArgument(f"{what}: dtype is {x.dtype}; float32, float64 or integers are needed")
    return x


def _labels(y, rows):
    y = _numbers(y, "y")
    if y.dtype.kind not in "iu":
        raise InvalidArgument(f"y: dtype is {y.dtype}; labels are integers")
    if y.shape != (rows,):
        raise InvalidArgument(f"y: shape is {y.shape} for {rows} rows of x; one label a row is needed")
    if (y < -1).any():
        raise InvalidArgument(f"y: {y.min()} is no label; they begin with 0, and -1 is none")
    return y.astype(np.int64)


def _items(dataset):
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__len__"):
        return iter(dataset)
    return (dataset[i] for i in range(len(dataset)))


def _pair(item, i, pick):
    """(array, label) of an item."""
    hint = "pick=lambda item: (input, label) says where they are"
    if pick is not None:
        item = pick(item)
    elif isinstance(item, dict):
        raise InvalidArgument(f"dataset: item {i} is a dict with {', '.join(map(str, item))}; {hint}")
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise InvalidArgument(f"dataset: item {i} is a {type(item).__name__}, not (input, label); {hint}")
    one, label = item
    if not isinstance(one, (torch.Tensor, np.ndarray)):
        raise InvalidArgument(
            f"dataset: the input of item {i} is a {type(one).__name__}; a transform to a tensor is needed"
        )
    try:
        return _numbers(one, f"dataset: the input of item {i}"), int(label)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"dataset: the label of item {i}, {label!r}, is no integer") from None


def _save(path, array):
    np.save(path, array)
    return path


def _save_box(path, lo, hi):
    """A VNN-LIB file: one output, at most 0, in the box. repr() of a float32 as a double is exact."""
    lines = [f"(declare-const X_{i} Real)" for i in range(lo.size)]
    lines.append("(declare-const Y_0 Real)")
    for i, (low, high) in enumerate(zip(lo.ravel().tolist(), hi.ravel().tolist(), strict=True)):
        lines.append(f"(assert (>= X_{i} {low!r}))\n(assert (<= X_{i} {high!r}))")
    lines.append("(assert (<= Y_0 0.0))\n")
    path.write_text("\n".join(lines))
    return path
