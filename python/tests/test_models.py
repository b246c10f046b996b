"""Models from files, bytes, modules and functions: the same outputs and gradients."""

import numpy as np
import pytest
import torch
from conftest import DIGITS, small_net

import grapeshot


def test_path_and_bytes_are_the_same_network(digits):
    path = DIGITS / "mlp.onnx"
    a, b = grapeshot.Model(path), grapeshot.Model(path.read_bytes(), name="mlp")
    x = digits[0]
    assert torch.equal(a(x), b(x))
    assert (a.inputs, a.outputs, a.shape) == (64, 10, b.shape)


def test_outputs_are_those_of_onnx_runtime(digits):
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(str(DIGITS / "cnn_bn.onnx"))
    (port,) = session.get_inputs()
    shape = [d if isinstance(d, int) else 1 for d in port.shape]
    y = grapeshot.Model(DIGITS / "cnn_bn.onnx")(digits[0]).numpy()
    for row, ours in zip(digits[0], y, strict=True):
        (theirs,) = session.run(None, {port.name: row.reshape(shape)})
        np.testing.assert_allclose(ours, theirs.ravel(), rtol=1e-4, atol=1e-4)


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.conv(x))).flatten(1))


def test_a_module_is_exported_and_computes_the_same():
    torch.manual_seed(0)
    net = Conv().eval()
    model = grapeshot.Model(net, shape=(1, 8, 8))
    x = torch.rand(5, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(model(x), net(x), rtol=1e-4, atol=1e-5)
    assert model.shape == (1, 8, 8) and not model.is_callable


def test_gradients_go_through_an_imported_network():
    torch.manual_seed(0)
    net = Conv().eval()
    model = grapeshot.Model(net, shape=(1, 8, 8))
    x = torch.rand(3, 1, 8, 8)
    slopes = torch.randn(3, 10)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    model(ours).backward(slopes)
    net(theirs).backward(slopes)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)


def test_a_function_is_a_model(net, x):
    model = grapeshot.Model(lambda batch: net(batch), shape=8, name="f")
    assert model.is_callable and model.has_gradient and model.outputs == 3
    assert torch.equal(model(x).detach(), net(x).detach())


def test_numpy_functions_have_no_gradient(x):
    model = grapeshot.Model(lambda batch: np.tanh(batch.numpy(force=True)), shape=8)
    assert not model.has_gradient
    np.testing.assert_allclose(model(x).numpy(), np.tanh(x.numpy()), rtol=1e-6)


def test_inputs_are_not_copied(net, x):
    seen = []

    def function(batch):
        seen.append(batch.data_ptr())
        return net(batch)

    model = grapeshot.Model(function, shape=8)
    array = x.numpy()
    model(array)
    assert seen[-1] == array.ctypes.data


def test_saved_networks_are_onnx_files(net, x, tmp_path):
    model = grapeshot.Model(net, shape=8)
    model.save(tmp_path / "net.onnx")
    assert torch.equal(grapeshot.Model(tmp_path / "net.onnx")(x), model(x))


@pytest.mark.parametrize(
    ("source", "keywords", "kind", "message"),
    [
        ("none.onnx", {}, FileNotFoundError, "none.onnx: no such file"),
        (b"junk", {}, ValueError, "<bytes>: not an ONNX model"),
        (3, {}, ValueError, "not a int"),
        (small_net(), {}, ValueError, "Sequential: what it takes cannot be seen; say example="),
        (small_net().train(), {"shape": 8}, ValueError, "the module is in training mode"),
        (small_net().double(), {"shape": 8}, ValueError, "parameter '0.weight' is float64"),
        (small_net(), {"shape": (0,)}, ValueError, "shape: (0,) is not a shape"),
        (small_net(), {"shape": 8, "example": torch.zeros(1, 8)}, ValueError, "give one of them"),
        (small_net(), {"example": torch.zeros(1, 8, dtype=torch.int64)}, ValueError, "dtype is int64"),
        (small_net(), {"example": "x"}, ValueError, "example: str is neither a tensor nor an array"),
        (small_net(), {"shape": 9}, RuntimeError, "model 'Sequential': raised RuntimeError: mat1"),
        (lambda x: x, {}, ValueError, "<lambda>: what it takes cannot be seen"),
    ],
)
def test_what_is_no_model_is_said(source, keywords, kind, message):
    with pytest.raises(kind) as error:
        grapeshot.Model(source, **keywords)
    assert isinstance(error.value, grapeshot.Error) and message in str(error.value)
    assert "\n" not in str(error.value)


def test_training_mode_of_a_part_is_said():
    net = Conv().eval()
    net.norm.train()
    with pytest.raises(grapeshot.InvalidArgument, match="its part 'norm' is in training mode"):
        grapeshot.Model(net, shape=(1, 8, 8))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: 1 / 0, "raised ZeroDivisionError: division by zero \\(for a batch of shape"),
        (lambda x: x[:1], "for a batch of 2 rows: the first axis has to be the rows"),
        (lambda x: x.sum(), r"returned shape \(\) for a batch of 2 rows"),
        (lambda x: "y", "returned a str, not a tensor"),
        (lambda x: x.add_(1), "changed its input in place"),
        (lambda x: x - x.mean(0) + torch.arange(len(x))[:, None], "changes with the rest of its batch"),
        (lambda x: torch.rand(len(x), 2), "or from call to call"),
        (lambda x: x.to(torch.complex64), "returned complex numbers"),
    ],
)
def test_what_a_function_does_wrong_is_said(function, message):
    with pytest.raises(grapeshot.ModelError, match=message):
        grapeshot.Model(function, shape=4)


def test_what_a_function_raised_is_the_cause():
    with pytest.raises(RuntimeError) as error:
        grapeshot.Model(lambda x: {}["key"], shape=4)
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 8).double(), "x: dtype is float64, a model takes float32"),
        (np.zeros((2, 8), np.int32), "x: dtype is int32"),
        (torch.zeros(2, 7), r"x: shape is \(2, 7\); .* takes batches of shape \(N, 8\)"),
        ([[0.0] * 8], "x: list is neither a tensor nor an array"),
    ],
)
def test_wrong_inputs_are_said(net, x, message):
    with pytest.raises(grapeshot.InvalidArgument, match=message):
        grapeshot.Model(net, shape=8)(x)


def test_inputs_need_not_be_contiguous(net, x):
    model = grapeshot.Model(net, shape=8)
    turned = x.t().contiguous().t()
    assert not turned.is_contiguous()
    assert torch.equal(model(turned), model(x))


class Loops(torch.nn.Module):
    """Tracing writes down the number of turns that the example takes."""

    def forward(self, x):
        while x.sum() < 4:
            x = x + 1
        return x


def test_a_module_that_tracing_gets_wrong_is_refused(monkeypatch):
    monkeypatch.setattr("grapeshot._export.has_torch_export", lambda: False)
    with pytest.raises(grapeshot.Unsupported, match="Loops cannot be exported to ONNX") as error:
        grapeshot.Model(Loops().eval(), example=torch.tensor([[0.9, 3.05]]))
    assert "is off by" in str(error.value)


def test_a_module_that_returns_a_dict_is_said():
    class Named(torch.nn.Module):
        def forward(self, x):
            return {"logits": x}

    with pytest.raises(grapeshot.ModelError, match="model 'Named': returned a dict"):
        grapeshot.Model(Named().eval(), shape=3)


def test_several_outputs_are_side_by_side():
    class Two(torch.nn.Module):
        def forward(self, x):
            return x * 2, x.sum(1)

    model = grapeshot.Model(Two().eval(), shape=3)
    assert model(torch.ones(1, 3)).tolist() == [[2.0, 2.0, 2.0, 3.0]]
