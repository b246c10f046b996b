"""The package as installed, or as build/release/python has it; networks and data for the tests."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAPESHOT_BUILD", ROOT / "build/release")).resolve()
DIGITS = ROOT / "examples" / "digits"
PROGRAM = BUILD / "grapeshot"

if importlib.util.find_spec("grapeshot") is None:
    sys.path.insert(0, str(BUILD / "python"))
try:
    import grapeshot  # noqa: F401
except ImportError as error:
    pytest.exit(f"the package is neither installed nor built (ninja -C build/release _core): {error}", 3)


def program(*args, **rest):
    """Runs the program; needs it to be built."""
    if not PROGRAM.exists():
        pytest.skip("the program is not built")
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120, **rest)


def small_net(seed=0, inputs=8, outputs=3):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(inputs, 16), torch.nn.ReLU(), torch.nn.Linear(16, outputs)
    )
    return net.eval()


@pytest.fixture
def net():
    return small_net()


@pytest.fixture
def x():
    return torch.rand((6, 8), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def y(net, x):
    return net(x).argmax(1)


@pytest.fixture
def digits():
    """Eight digits and their labels, as arrays, for the networks in examples/digits."""
    sklearn = pytest.importorskip("sklearn.datasets")
    data = sklearn.load_digits()
    return (data.data[:8] / 16).astype(np.float32), data.target[:8]
