"""One other program on test cases of the onnx package: a JSON line a case, its name and what came out.

usage: conformance_rival.py NAME < paths of cases, a line each
A case passes as the package has it: equal types and shapes, numbers within 0.1 % or 1e-7.
"""

import json
import pathlib
import signal
import sys
import types
import warnings
from unittest.mock import MagicMock

import numpy as np
import onnx
from onnx import numpy_helper

SECONDS = 20  # of a case


def without_torchvision():
    """The converters ask for torchvision, of which they use non-maximum suppression and RoiAlign alone."""
    for name in ("torchvision", "torchvision.ops", "torchvision.ops.boxes", "torchvision.io"):
        module = types.ModuleType(name)
        module.__getattr__ = lambda attribute: MagicMock()
        sys.modules.setdefault(name, module)


def onnx_runtime(path, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def reference(path, inputs):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load(path)).run(None, inputs)


def torch_outputs(net, inputs):
    import torch

    def tensors(value):
        if isinstance(value, list):
            return [tensors(v) for v in value]
        return value if value is None else torch.from_numpy(np.array(value))

    with torch.no_grad():
        out = net(*(tensors(v) for v in inputs.values()))
    out = out if isinstance(out, list | tuple) else [out]
    return [v.numpy() if isinstance(v, torch.Tensor) else v for v in out]


def onnx2torch(path, inputs):
    without_torchvision()
    import onnx2torch

    return torch_outputs(onnx2torch.convert(onnx.load(path)).eval(), inputs)


def onnx2pytorch(path, inputs):
    without_torchvision()
    import onnx2pytorch

    return torch_outputs(onnx2pytorch.ConvertModel(onnx.load(path), experimental=True).eval(), inputs)


RIVALS = {f.__name__: f for f in (onnx_runtime, reference, onnx2torch, onnx2pytorch)}


def value(path, port):
    """The value in a .pb file, of the type that the graph's port has."""
    kind = port.type.WhichOneof("value")
    data = path.read_bytes()
    if kind == "tensor_type":
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))


def compare(got, wanted):
    """Raises AssertionError where they are not equal."""
    if isinstance(wanted, list):
        assert len(got) == len(wanted), f"{len(got)} values, not {len(wanted)}"
        for a, b in zip(got, wanted, strict=True):
            compare(a, b)
    elif wanted is None:
        assert got is None, "a value, not none"
    else:
        got = np.asarray(got)
        assert got.dtype == wanted.dtype, f"type {got.dtype}, not {wanted.dtype}"
        assert got.shape == wanted.shape, f"shape {got.shape}, not {wanted.shape}"
        if wanted.dtype.kind in "OSU":
            np.testing.assert_array_equal(got, wanted)
        else:
            got, wanted = (a if a.dtype.kind in "biufc" else a.astype(np.float32) for a in (got, wanted))
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-7)


def check(rival, case):
    graph = onnx.load(case / "model.onnx").graph
    for data in sorted(case.glob("test_data_set_*")):

        def read(kind, ports, data=data):
            return [value(data / f"{kind}_{i}.pb", port) for i, port in enumerate(ports)]

        names = [port.name for port in graph.input]
        inputs = dict(zip(names, read("input", graph.input), strict=True))
        compare(list(rival(case / "model.onnx", inputs)), read("output", graph.output))


def too_long(*_):
    raise TimeoutError(f"more than {SECONDS} s")


def main():
    rival = RIVALS[sys.argv[1]]
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, too_long)
    for line in sys.stdin:
        case = pathlib.Path(line.strip())
        said = {"case": case.name, "result": "pass"}
        signal.alarm(SECONDS)
        try:
            check(rival, case)
        except AssertionError as error:
            said |= {"result": "fail", "reason": str(error)[:300]}
        except BaseException as error:
            said |= {"result": "error", "reason": f"{type(error).__name__}: {error}"[:300]}
        signal.alarm(0)
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
