"""TorchScript as MODEL: outputs and gradients against torch itself, findings against the module, files of other kinds."""

import copy
import io
import json
import zipfile

import pytest
from program import DIGITS, MLP, grapeshot, grapeshot_json, needs_program

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

pytestmark = needs_program

X, Y = DIGITS / "data" / "X.npy", DIGITS / "data" / "y.npy"


class Net(torch.nn.Module):
    """Convolutions, BatchNorm and dropout: training and evaluation are different."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 3, padding=1),
            torch.nn.BatchNorm2d(6),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Dropout(0.5),
            torch.nn.Flatten(),
            torch.nn.Linear(96, 10),
        )

    def forward(self, x):
        return self.layers(x)


class Dense(torch.nn.Module):
    """A data-dependent branch, which tracing would lose."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(64, 20)
        self.b = torch.nn.Linear(20, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.a(x))
        if y.shape[0] > 1000:
            y = y * 2
        return self.b(y)


def train(net, shape):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x = torch.tensor(np.load(X).reshape(-1, *shape), dtype=torch.float32)
    y = torch.tensor(np.load(Y), dtype=torch.int64)
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("script")
    torch.manual_seed(0)
    net, dense = train(Net(), (1, 8, 8)), train(Dense(), (64,))
    torch.jit.script(net).save(folder / "training.pt")  # as it was trained
    net.eval()
    torch.jit.trace(net, torch.zeros(2, 1, 8, 8)).save(folder / "net.pt")
    torch.jit.script(dense).save(folder / "dense.pt")
    x = np.load(X)[:20].reshape(-1, 1, 8, 8).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", np.load(Y)[:20])
    return folder, net, dense


@pytest.mark.parametrize("name", ["net.pt", "training.pt"])
def test_outputs_and_gradients_are_those_of_torch(made, tmp_path, name):
    folder, net, _ = made
    x = torch.tensor(np.load(folder / "x.npy"))
    for more, module, dtype in (((), net, torch.float32), (("--float64",), copy.deepcopy(net).double(), torch.float64)):
        args = ("--out", tmp_path / "out.npy", "--gradient", tmp_path / "g.npy", "--output", 3, *more)
        grapeshot("run", folder / name, "--data", folder / "x.npy", *args, status=0)
        leaf = x.detach().clone().to(dtype).requires_grad_(True)
        y = module(leaf)
        y[:, 3].sum().backward()
        tolerance = 1e-5 if dtype == torch.float32 else 1e-12
        assert np.allclose(np.load(tmp_path / "out.npy"), y.detach().numpy(), rtol=tolerance, atol=tolerance)
        assert np.allclose(np.load(tmp_path / "g.npy").ravel(), leaf.grad.numpy().ravel(), rtol=tolerance, atol=tolerance)


def test_row_by_row_is_the_batch(made, tmp_path):
    folder, *_ = made
    for name, more in (("a", ()), ("b", ("--row-by-row",))):
        out = tmp_path / f"{name}.npy"
        grapeshot("run", folder / "net.pt", "--data", folder / "x.npy", "--out", out, *more, status=0)
    assert np.allclose(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"), atol=1e-5)


@pytest.mark.parametrize("mutations", ["default", "portfolio"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_findings_fool_the_module_and_replay(made, tmp_path, norm, mutations):
    folder, net, _ = made
    out = tmp_path / "run"
    eps = {"linf": 0.15, "l2": 0.9}[norm]
    args = ("--labels", folder / "y.npy", "--eps", eps, "--norm", norm, "--mutations", mutations, "--threads", 2)
    summary = grapeshot_json(
        *("fuzz", folder / "net.pt", "--data", folder / "x.npy", *args, "--seconds", 20, "--candidates", 4000, "--out", out)
    )
    assert summary["instances_falsified"] > 0 and summary["mfu"] > 0
    labels = np.load(folder / "y.npy")
    for place in sorted((out / "findings").iterdir()):
        about = json.loads((place / "finding.json").read_text())
        x = np.load(place / "input.npy")
        assert x.shape == (1, 8, 8)
        with torch.no_grad():
            assert net(torch.tensor(x)[None]).argmax().item() != labels[about["instance"]]
    grapeshot("replay", out, status=0)
    place = next((out / "findings").iterdir())
    grapeshot("minimize", place, "--seconds", 1, "--out", tmp_path / "small.npy", status=0)
    grapeshot("resume", out, "--candidates", 4500, timeout=60)


def test_doctor_says_what_it_is(made):
    folder, net, _ = made
    report = grapeshot_json("doctor", folder / "net.pt", "--data", folder / "x.npy", status=0)
    assert report["format"] == "TorchScript" and report["runs_as_one_batch"]
    assert report["parameters"] == sum(p.numel() for p in net.parameters())
    # 6 filters of 3 x 3 on 8 x 8, and 96 x 10.
    assert report["macs_per_row"] == 6 * 9 * 64 + 960
    text = grapeshot("doctor", folder / "net.pt", "--shape", "1,8,8", status=0).stdout
    assert "TorchScript, run as a whole" in text and "nothing is known of the layers" in text


def test_a_specification_numbers_flat_inputs(made, tmp_path):
    folder, _, dense = made
    inputs = "".join(f"(declare-const X_{i} Real)(assert (>= X_{i} 0))(assert (<= X_{i} 1))" for i in range(64))
    outputs = "".join(f"(declare-const Y_{i} Real)" for i in range(10))
    spec = tmp_path / "spec.vnnlib"
    spec.write_text(f"{inputs}{outputs}(assert (>= Y_3 Y_0))")
    done = grapeshot("falsify", folder / "dense.pt", spec, "--timeout", 20, "--witness", tmp_path / "w.npy")
    assert done.stdout.startswith("sat")
    grapeshot("check", folder / "dense.pt", spec, tmp_path / "w.npy", status=0)
    grapeshot("doctor", folder / "dense.pt", spec, status=0)
    shaped = grapeshot("falsify", folder / "net.pt", spec, "--timeout", 20, "--shape", "1,8,8")
    assert shaped.returncode in (0, 1)


def test_differences_of_two_modules(made, tmp_path):
    folder, *_ = made
    out = tmp_path / "run"
    done = grapeshot(
        *("diff", folder / "net.pt", folder / "training.pt", "--data", folder / "x.npy", "--strategy", "none"),
        *("--seconds", 2, "--out", out),
    )
    assert done.returncode in (0, 1), done.stderr


def test_coverage_is_refused_in_a_sentence(made, tmp_path):
    folder, *_ = made
    data = ("--data", folder / "x.npy")
    for args in (("coverage", *data), ("profile", *data, "--out", tmp_path / "s.npz")):
        done = grapeshot(args[0], folder / "net.pt", *args[1:], status=2)
        assert "coverage needs an ONNX file" in done.stderr
    done = grapeshot(
        *("fuzz", folder / "net.pt", *data, "--eps", 0.1, "--criterion", "kmnc", "--out", tmp_path / "run"), status=2
    )
    assert "coverage needs an ONNX file" in done.stderr


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x + z


class Words(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> str:
        return "no"


class Pair(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, :2], x[:, 2:5] * 2


class One(torch.nn.Module):
    """A batch of one row is written into it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(1, 64)[:, :10]


class Mixes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :10] - x.mean()


class Single(torch.nn.Module):
    """Float64 stops at a constant of float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(64, 10, dtype=torch.float32)


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, "written")
        return x


def saved(folder, module):
    path = folder / f"{type(module).__name__}.pt"
    torch.jit.script(module.eval()).save(path)
    return path


@pytest.mark.parametrize(("module", "width"), [(Pair(), 5), (One(), 10), (Mixes(), 10), (Single(), 10)])
def test_odd_modules_run(tmp_path, module, width):
    x = np.random.default_rng(0).random((5, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    grapeshot("run", saved(tmp_path, module), "--data", tmp_path / "x.npy", "--out", tmp_path / "y.npy", status=0)
    rows = [module(torch.tensor(row)[None]) for row in x]
    rows = [torch.cat(row, 1) if isinstance(row, tuple) else row for row in rows]
    assert np.load(tmp_path / "y.npy").shape == (5, width)
    assert np.allclose(np.load(tmp_path / "y.npy"), torch.cat(rows).numpy(), atol=1e-5)


def write_other_files(folder, net):
    (folder / "text.pt").write_text("hello")
    (folder / "empty.pt").write_bytes(b"")
    with zipfile.ZipFile(folder / "plain.pt", "w") as archive:
        archive.writestr("a.txt", "a")
    torch.save(net.state_dict(), folder / "state.pt")
    torch.save(net.state_dict(), folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(net, folder / "module.pt")
    whole = (folder / "net.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "cut_end.pt").write_bytes(whole[:-40])
    # The code inside is damaged, the archive is not.
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, b"def forward(self" if "/code/" in name and name.endswith(".py") else data)
    (folder / "code.pt").write_bytes(out.getvalue())


def test_other_files_are_named(made, tmp_path):
    folder, net, _ = made
    (tmp_path / "net.pt").write_bytes((folder / "net.pt").read_bytes())
    write_other_files(tmp_path, net)
    says = {
        "text.pt": "is no TorchScript, which is a zip archive",
        "empty.pt": "is no TorchScript, which is a zip archive",
        "plain.pt": "is no archive of TorchScript, or damaged",
        "state.pt": "a pickled object, such as a state dict or a module",
        "legacy.pt": "it is a pickle, as torch.save writes",
        "module.pt": "a pickled object, such as a state dict or a module",
        "cut.pt": "is no archive of TorchScript, or damaged",
        "cut_end.pt": "is no archive of TorchScript, or damaged",
        "code.pt": "cannot be read as TorchScript",
    }
    for name, message in says.items():
        done = grapeshot("doctor", tmp_path / name, "--shape", "1,8,8", status=2)
        assert message in done.stderr and name in done.stderr, (name, done.stderr)
        assert done.stderr.count("\n") == 1, (name, done.stderr)


def test_an_exported_program_is_named(made, tmp_path):
    _, net, _ = made
    try:
        program = torch.export.export(net, (torch.zeros(2, 1, 8, 8),))
        torch.export.save(program, tmp_path / "exported.pt2")
    except Exception as error:  # the exporter needs packages that may be absent
        pytest.skip(f"torch.export does not run here: {error}")
    done = grapeshot("doctor", tmp_path / "exported.pt2", "--shape", "1,8,8", status=2)
    assert "an exported program" in done.stderr


@pytest.mark.parametrize(
    ("module", "shape", "message"),
    [
        (Two(), "64", "its forward() takes 2 arguments; modules of one tensor are supported"),
        (Words(), "64", "its output is of type String"),
        (Writes(), "64", "its code calls save(...): a module that touches files is not run"),
        (Dense(), "65", "(TorchScript, opset"),
        (Dense(), None, "TorchScript does not say the shape of its input: give it as --shape 1,28,28"),
        (Dense(), "0", "--shape: '0' is no list of sizes from 1 on"),
        (Dense(), "8,x", "--shape: '8,x' is no list of sizes"),
        (Dense(), "99999,99999,99999", "more"),
    ],
)
def test_bad_modules_and_shapes(tmp_path, module, shape, message):
    more = () if shape is None else ("--shape", shape)
    done = grapeshot("doctor", saved(tmp_path, module), *more, status=2)
    assert message in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_an_onnx_file_needs_no_shape(tmp_path):
    grapeshot("doctor", MLP, "--shape", "3", status=0)
