"""What specifications refuse, each in a sentence, and what they take."""

import math

import numpy as np
import pytest
import torch

import grapeshot
from grapeshot import Specs

X, Y = torch.rand(4, 8), torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("x", "y", "eps", "message"),
    [
        (X.to(torch.complex64), Y, 0.1, "x: dtype is complex64; float32, float64 or integers"),
        (np.array([["a"]]), None, 0.1, "x: dtype is <U1"),
        ([[1, 2], [3]], None, 0.1, "x: setting an array element with a sequence"),
        (X[0], None, 0.1, r"x: shape is \(8,\); rows of inputs"),
        (X[:0], None, 0.1, r"x: shape is \(0, 8\)"),
        (torch.tensor([[0.0, 1.0], [0.0, math.nan]]), None, 0.1, "x: row 1 holds NaN or infinity"),
        (X, Y.float(), 0.1, "y: dtype is float32; labels are integers"),
        (X, Y[:3], 0.1, r"y: shape is \(3,\) for 4 rows"),
        (X, Y[:, None], 0.1, r"y: shape is \(4, 1\)"),
        (X, Y - 2, 0.1, "y: -2 is no label"),
        (X, Y, 0, "eps: 0 is not a finite number above 0"),
        (X, Y, math.inf, "eps: inf"),
        (X, Y, "0.1", "eps: '0.1'"),
    ],
)
def test_arrays_that_are_wrong(x, y, eps, message):
    with pytest.raises(grapeshot.InvalidArgument, match=message):
        Specs.from_arrays(x, y, eps=eps)


def test_arrays_that_are_fine():
    for x in (
        X.clone().requires_grad_(),
        X.t().contiguous().t(),
        X.double(),
        X.half(),
        X.numpy()[::-1],
        (X * 255).to(torch.uint8),
        X.tolist(),
    ):
        assert len(Specs.from_arrays(x, Y, eps=0.1)) == 4


class Pictures(torch.utils.data.Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "dataset: holds no item"),
        ([{"image": X[0], "label": 1}], "item 0 is a dict with image, label; pick=lambda item"),
        ([X[0]], r"item 0 is a Tensor, not \(input, label\)"),
        ([(X[0], 0), (X[1, :7], 0)], r"item 1 has shape \(7,\), item 0 has \(8,\)"),
        ([("picture", 0)], "the input of item 0 is a str; a transform to a tensor is needed"),
        ([(X[0], "cat")], "the label of item 0, 'cat', is no integer"),
        ([(X[0], X[1])], "the label of item 0"),
        ([(X[0] * math.nan, 0)], "x: row 0 holds NaN"),
    ],
)
def test_data_sets_that_are_wrong(items, message):
    with pytest.raises(grapeshot.InvalidArgument, match=message):
        Specs.from_dataset(Pictures(items), eps=0.1)


def test_data_sets_that_are_fine():
    pairs = [(x, int(y)) for x, y in zip(X, Y, strict=True)]
    assert len(Specs.from_dataset(Pictures(pairs), eps=0.1)) == 4
    assert len(Specs.from_dataset(Pictures(pairs), eps=0.1, limit=3)) == 3
    assert len(Specs.from_dataset(torch.utils.data.TensorDataset(X, Y), eps=0.1)) == 4
    dicts = Pictures([{"image": x, "label": y} for x, y in pairs])
    pick = lambda item: (item["image"], item["label"])  # noqa: E731
    assert len(Specs.from_dataset(dicts, eps=0.1, pick=pick)) == 4


@pytest.mark.parametrize(
    ("lo", "hi", "margin", "message"),
    [
        (X, X[:3], min, "lo and hi: shapes"),
        (X + 1, X, min, "lo: is above hi in row 0"),
        (X, X * math.inf, min, "hold NaN or infinity"),
        (X, X, 3, "margin: a int cannot be called"),
    ],
)
def test_boxes_that_are_wrong(lo, hi, margin, message):
    with pytest.raises(grapeshot.InvalidArgument, match=message):
        Specs.from_margin(lo, hi, margin)


def test_constraints_that_do_not_fit(net):
    with pytest.raises(grapeshot.InvalidArgument, match="are not .M, K. and .M."):
        Specs.from_constraints(X, X + 1, torch.eye(3), torch.zeros(2))
    with pytest.raises(grapeshot.Error, match="A: has 2 columns; the model has 3 outputs"):
        grapeshot.fuzz(net, Specs.from_constraints(X, X + 1, torch.eye(2), torch.zeros(2)), candidates=1)


def test_files_that_are_not_there():
    with pytest.raises(FileNotFoundError, match="none.vnnlib: no such file"):
        Specs.from_vnnlib("none.vnnlib")
    with pytest.raises(grapeshot.InvalidArgument, match="names no file"):
        Specs.from_vnnlib()
