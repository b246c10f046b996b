"""Projected gradient descent on one network by grapeshot and by Foolbox, candidates a second.

The same network, B = 15 rows, T = 10 steps, one thread each, the runs interleaved. Before any time is
printed, both sides' outputs on the same 64 inputs are compared. Foolbox runs in build/peer, the network
as onnx2torch reads it.
"""

import json
import statistics
import subprocess

import common
import throughput

SCRIPT = """
import json, sys, time
from unittest.mock import MagicMock
for name in ("torchvision", "torchvision.ops", "torchvision.ops.boxes"):  # of onnx2torch, for NMS and RoiAlign
    sys.modules.setdefault(name, MagicMock())
import numpy as np, onnx, onnx2torch, torch, foolbox
model, inputs, outputs, seconds = sys.argv[1:5]
torch.set_num_threads(1)
net = onnx2torch.convert(onnx.load(model)).eval()
x = torch.from_numpy(np.load(inputs))
# Row by row where the file's batch of 1 is built in.
try:
    with torch.no_grad():
        batched = net(x[:2]).reshape(2, -1).shape[0] == 2
except Exception:
    batched = False
class Flat(torch.nn.Module):
    def forward(self, x):
        if batched:
            return net(x).reshape(x.shape[0], -1)
        return torch.cat([net(r[None]).reshape(1, -1) for r in x])
flat = Flat()
with torch.no_grad():
    y = flat(x)
np.save(outputs, y.numpy())
labels = y.argmax(1)
for p in net.parameters(): p.requires_grad_(False)
attack = foolbox.attacks.LinfPGD(rel_stepsize=0.2, steps=10, random_start=True)
fmodel = foolbox.PyTorchModel(flat, bounds=(float(x.min()) - 1, float(x.max()) + 1))
B = 15
attack(fmodel, x[:B], labels[:B], epsilons=0.01)
done, start = 0, time.perf_counter()
while time.perf_counter() - start < float(seconds):
    i = (done // B) % (len(x) // B) * B
    attack(fmodel, x[i:i + B], labels[i:i + B], epsilons=0.01)
    done += B
print(json.dumps({"batched": batched, "cand_per_s": done / (time.perf_counter() - start)}))
"""


def set_up():
    python = throughput.set_up_peer()
    if subprocess.run([python, "-c", "import foolbox"], capture_output=True).returncode:
        common.say("pip install foolbox into build/peer")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "foolbox"], check=True)
        subprocess.run([*pip, "eagerpy", "scipy", "requests", "GitPython", "typing-extensions"], check=True)
    return python


def rows_for(python, model, path):
    """64 inputs of the network's shape, saved at `path`."""
    code = (
        "import sys, numpy as np, onnx; g = onnx.load(sys.argv[1]).graph;"
        "s = [d.dim_value or 1 for d in g.input[0].type.tensor_type.shape.dim];"
        "r = np.random.default_rng(0).random((64, *s[1:]), np.float32);"
        "np.save(sys.argv[2], r)"
    )
    subprocess.run([python, "-c", code, common.ROOT / model, path], check=True)


def outputs_agree(python, model, inputs, theirs):
    ours = common.RUNS / "ours.npy"
    common.execute(
        [common.relative(common.PROGRAM), "run", model, "--data", common.relative(inputs)]
        + ["--out", common.relative(ours)]
    )
    code = (
        "import sys, numpy as np; a, b = (np.load(p).reshape(64, -1) for p in sys.argv[1:3]);"
        "print(float(np.abs(a - b).max() / (1 + np.abs(b).max())))"
    )
    gap = float(subprocess.run([python, "-c", code, ours, theirs], capture_output=True, text=True, check=True).stdout)
    if not gap < 1e-4:
        raise SystemExit(f"{model}: outputs differ by {gap:.2g} (relative); no times are shown")
    return gap


def run(seconds, repeats):
    python = set_up()
    common.RUNS.mkdir(parents=True, exist_ok=True)
    inputs, theirs = common.RUNS / "inputs.npy", common.RUNS / "theirs.npy"
    script = common.RUNS / "foolbox_pgd.py"
    script.write_text(SCRIPT)
    runs, rows = [], []
    for model, specs in throughput.networks(common.ROOT / "examples" / "digits"):
        rows_for(python, model, inputs)
        peer = [common.relative(python), common.relative(script), model]
        peer += [common.relative(inputs), common.relative(theirs)]
        try:
            common.execute([*peer, "0"])
        except SystemExit as error:
            common.say(f"{model}: Foolbox cannot run it: {str(error).strip().splitlines()[-1]}")
            continue
        gap = outputs_agree(python, model, inputs, theirs)
        rates = {"grapeshot": [], "foolbox": []}
        for _ in range(repeats):
            ours = throughput.measure(throughput.OURS, throughput.our_command(model, specs, seconds))
            rates["grapeshot"].append(ours["candidates_per_s"])
            said, _, _ = common.execute([*peer, f"{seconds:g}"])
            told = json.loads(said.strip().splitlines()[-1])
            rates["foolbox"].append(told["cand_per_s"])
        runs.append({"network": model, "gap": gap, "load": common.load(), **rates})
        own, other = (statistics.median(values) for values in rates.values())
        name = throughput.short(model) + ("" if told["batched"] else ", Foolbox row by row")
        rows.append([name, f"{own:.0f}", f"{other:.0f}", f"{own / other:.1f}"])
    return {"runs": runs, "table": common.table(["network", "grapeshot", "Foolbox", "ratio"], rows)}
