"""Networks as torch.onnx and onnxruntime.quantization write them: loaded, compared with ONNX Runtime, fuzzed."""

import json
import sys

import numpy as np
import onnxruntime
import pytest
from conftest import ROOT
from program import grapeshot, needs_program

torch = pytest.importorskip("torch")
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]
import nets

pytestmark = needs_program
CLASSES = 5
EPS = 4.0  # of inputs with a deviation of 1; the weights are as they were drawn


class Vit(torch.nn.Module):
    """A vision transformer of two blocks on pictures of 16 x 16."""

    def __init__(self, width=16, patch=4):
        super().__init__()
        self.patches = torch.nn.Conv2d(1, width, patch, patch)
        self.token = torch.nn.Parameter(torch.randn(1, 1, width))
        self.place = torch.nn.Parameter(torch.randn(1, 17, width))
        block = torch.nn.TransformerEncoderLayer(width, 4, 32, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = torch.nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.norm(self.blocks(x))[:, 0])


class Encoder(torch.nn.Module):
    """torch's own transformer encoder on sequences of eight vectors."""

    def __init__(self, width=12):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(width, 3, 24, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


class Lstm(torch.nn.Module):
    """Two bidirectional layers on sequences of seven vectors."""

    def __init__(self, width=6):
        super().__init__()
        self.lstm = torch.nn.LSTM(width, 10, 2, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(20, CLASSES)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Convolutions(torch.nn.Module):
    """What quantisation is applied to."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(4, 6, 3),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(6 * 4 * 4, 16),
            torch.nn.ReLU(),
            torch.nn.Linear(16, CLASSES),
        )

    def forward(self, x):
        return self.layers(x)


SHAPES = {Vit: (1, 1, 16, 16), Encoder: (1, 8, 12), Lstm: (1, 7, 6), Convolutions: (1, 1, 12, 12)}
EXPORTERS = ("dynamo", "torchscript")


def export(kind, exporter, path, opset=18):
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
    torch.manual_seed(7)
    net = kind().eval()
    options = {"opset_version": opset, "dynamo": exporter == "dynamo"}
    more = {"verbose": False} if exporter == "dynamo" else {}
    torch.onnx.export(net, (torch.zeros(SHAPES[kind]),), str(path), **options, **more)
    return net


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(network, path of its ONNX file), each exported once."""
    folder, made = tmp_path_factory.mktemp("exported"), {}

    def get(kind, exporter):
        if (kind, exporter) not in made:
            path = folder / f"{kind.__name__}-{exporter}.onnx"
            made[kind, exporter] = export(kind, exporter, path), path
        return made[kind, exporter]

    return get


class Pictures:
    """Calibration data."""

    def __init__(self, name, shape):
        draw = np.random.default_rng(1)
        self.rows = [{name: draw.standard_normal(shape).astype(np.float32)} for _ in range(16)]

    def get_next(self):
        return self.rows.pop() if self.rows else None


@pytest.fixture(scope="module", params=["static", "static-operators", "dynamic"])
def quantised(request, exported, tmp_path_factory):
    from onnxruntime import quantization

    _, source = exported(Convolutions, "torchscript")
    path = tmp_path_factory.mktemp("quantised") / f"{request.param}.onnx"
    if request.param == "dynamic":
        quantization.quantize_dynamic(source, path)
        return path
    name = onnxruntime.InferenceSession(str(source)).get_inputs()[0].name
    form = quantization.QuantFormat
    operators = request.param == "static-operators"
    # Of the operators that compute on whole numbers, those of ONNX: Gemm's would be ONNX Runtime's own.
    quantization.quantize_static(
        source,
        path,
        Pictures(name, SHAPES[Convolutions]),
        quant_format=form.QOperator if operators else form.QDQ,
        op_types_to_quantize=["Conv"] if operators else None,
    )
    return path


def specification(path, x, outputs, eps):
    """A file that says: within eps of x another output than the largest is as large."""
    label = int(outputs.argmax())
    lines = [f"(declare-const X_{i} Real)" for i in range(x.size)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(outputs.size)]
    for i, value in enumerate(x.reshape(-1).astype(float)):
        lines += [f"(assert (>= X_{i} {value - eps:.9f}))", f"(assert (<= X_{i} {value + eps:.9f}))"]
    others = " ".join(f"(and (>= Y_{k} Y_{label}))" for k in range(outputs.size) if k != label)
    path.write_text("\n".join([*lines, f"(assert (or {others}))"]) + "\n")
    return label


def agrees(path, shape, x):
    """The file's outputs, [N, K], which are those of ONNX Runtime."""
    expected = nets.Reference(str(path), shape)(x)
    assert nets.worst(nets.run(path, x).y, expected) <= 1
    return expected


def check_broken(path, shape, tmp_path, eps, x=None):
    """`fuzz` finds violations that ONNX Runtime sees, too."""
    x = rows(shape, 3) if x is None else x
    reference = nets.Reference(str(path), shape)
    outputs = reference(x)
    specs = [tmp_path / f"{path.stem}-{i}.vnnlib" for i in range(len(x))]
    labels = [
        specification(spec, row, y, eps) for spec, row, y in zip(specs, x, outputs, strict=True)
    ]
    out = tmp_path / f"run-{path.stem}"
    limits = ["--seconds", 20, "--seed", 1, "--threads", 1]
    done = grapeshot("fuzz", path, *specs, *limits, "--out", out, "--json", "--quiet")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["instances_falsified"] >= 1
    for folder in (out / "findings").iterdir():
        i = json.loads((folder / "finding.json").read_text())["instance"]
        found = np.load(folder / "input.npy").reshape(shape)
        assert np.abs(found - x[i]).max() <= eps * (1 + 1e-5)
        y = reference.row(found)
        assert y[labels[i]] <= np.delete(y, labels[i]).max()


def rows(shape, n, seed=3):
    return np.random.default_rng(seed).standard_normal((n, *shape)).astype(np.float32)


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("kind", [Vit, Encoder, Lstm])
def test_an_exported_network_is_that_of_torch_and_is_broken(kind, exporter, exported, tmp_path):
    net, path = exported(kind, exporter)
    x = rows(SHAPES[kind], 6)
    with torch.no_grad():
        theirs = torch.cat([net(torch.from_numpy(row)) for row in x]).numpy()
    assert nets.worst(agrees(path, SHAPES[kind], x), theirs) <= 1
    check_broken(path, SHAPES[kind], tmp_path, EPS)


@pytest.mark.parametrize("opset", [20, 23])
def test_attention_is_read_as_the_exporter_writes_it(opset, tmp_path):
    """Opset 23 has attention as an operator."""
    path = tmp_path / "encoder.onnx"
    export(Encoder, "dynamo", path, opset)
    agrees(path, SHAPES[Encoder], rows(SHAPES[Encoder], 3))


def test_a_quantised_network_is_broken(quantised, tmp_path):
    shape = SHAPES[Convolutions]
    agrees(quantised, shape, rows(shape, 6))
    check_broken(quantised, shape, tmp_path, EPS)


def test_efficientnet_is_broken(tmp_path):
    """ImageNet weights and a photograph, where Python packages that ship them are at hand."""
    imagenet = pytest.importorskip("imagenet")
    if not imagenet.INSTALLED.exists():
        pytest.skip("`./dev bench diff` fetches EfficientNet-Lite0")
    networks, photographs = imagenet.prepare()
    x = np.load(photographs)[:2].astype(np.float32)[:, None]
    path = next(p for p in networks if "lite0" in str(p))
    agrees(path, x.shape[1:], x)
    check_broken(path, x.shape[1:], tmp_path, 4, x)
