"""What calling from Python costs: candidates a second of the program, of `grapeshot.fuzz` on the same
ONNX file, and on the torch module that the file was written from; the runs interleaved.
"""

import json
import shutil
import statistics
import sys

import common

sys.path[:0] = [str(common.PROGRAM.parent / "python"), str(common.ROOT / "tools")]

OPTIONS = {"threads": 1, "keep_going": True, "checkpoint": 0}
ROWS, EPS = 32, 0.1


def networks(folder):
    """[(name, ONNX file, the torch module with the same weights)], and the data."""
    import example_nets
    import numpy as np
    import torch
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = (data.data / 16).astype(np.float32), data.target
    out = []
    for name in ("mlp", "cnn_bn", "resnet", "attention"):
        net, file = getattr(example_nets, f"make_{name}")((x.astype(np.float64), y))
        path = folder / f"{name}.onnx"
        path.write_bytes(file.SerializeToString())
        out.append((name, path, net.float().eval()))
    torch.set_default_dtype(torch.float32)
    np.save(folder / "x.npy", x[:ROWS])
    np.save(folder / "y.npy", y[:ROWS])
    return out, (x[:ROWS], y[:ROWS])


def by_program(path, folder, seconds):
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    flags = ["--threads", "1", "--keep-going", "--checkpoint", "0", "--seconds", f"{seconds:g}"]
    data = ["--data", folder / "x.npy", "--labels", folder / "y.npy", "--eps", f"{EPS:g}"]
    command = [common.PROGRAM, "fuzz", path, *data, *flags, "--out", run, "--json", "--quiet"]
    out, _, _ = common.execute(list(map(str, command)), check=(0, 1))
    return json.loads(out)["candidates_per_s"]


def run(seconds, repeats):
    import grapeshot

    folder = common.RUNS / "python"
    folder.mkdir(parents=True, exist_ok=True)
    nets, (x, y) = networks(folder)
    specs = grapeshot.Specs.from_arrays(x, y, eps=EPS)
    rows, numbers = [], {}
    for name, path, module in nets:
        models = {"file": grapeshot.Model(path), "module": grapeshot.Model(module, example=x[:1])}
        rates = {"program": [], "file": [], "module": []}
        for i in range(repeats):
            order = list(rates)[i % 3 :] + list(rates)[: i % 3]
            for kind in order:
                common.say(f"{name}: {kind}, {i + 1} of {repeats}")
                if kind == "program":
                    rates[kind].append(by_program(path, folder, seconds))
                else:
                    result = grapeshot.fuzz(models[kind], specs, seconds=seconds, **OPTIONS)
                    rates[kind].append(result.summary["candidates_per_s"])
        # Ratios of neighbours: the machine may be slower at another time.
        pairs = {
            kind: statistics.median(a / b for a, b in zip(rates[kind], rates[other], strict=True))
            for kind, other in (("file", "program"), ("module", "file"))
        }
        numbers[name] = {"candidates_per_s": rates, "ratios": pairs, "load": common.load()}
        median = {kind: statistics.median(each) for kind, each in rates.items()}
        rows.append(
            [name, *(f"{median[kind]:.0f}" for kind in rates), f"{pairs['file']:.3f}", f"{pairs['module']:.3f}"]
        )
    head = ["network", "program", "Python, file", "Python, module", "file / program", "module / file"]
    shutil.rmtree(folder)
    return {"seconds": seconds, "repeats": repeats, "networks": numbers, "table": common.table(head, rows)}
