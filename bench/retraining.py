"""Does training with what `grapeshot diff` found help? Three digit networks, five seeds each.

A network is trained on scikit-learn's digits; `diff` finds inputs near training pictures that it predicts
otherwise, and at most 114 of them, with the class of their picture, join the training data for five more epochs. Beside
it the same network with five more epochs of the training data alone. Accuracy is that on 360 test pictures, and on what
`diff` finds near them for the network as it was before (the class of the picture being right).
"""

import json
import shutil
import statistics
import sys

import common

sys.path.insert(0, str(common.ROOT / "tools"))

SIZES = {"small": (4, 8), "middle": (8, 16), "large": (12, 24)}
EPOCHS, MORE, FOUND, SHOWN = 12, 5, 114, 300
L2 = 0.15


def make_net(torch, sizes):
    first, second = sizes
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, first, 3, padding=1), nn.Conv2d(first, second, 3)
            self.fc = nn.Linear(second * 3 * 3, 10)

        def forward(self, x):
            x = torch.relu(self.conv1(x.view(-1, 1, 8, 8)))
            x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
            return self.fc(x.flatten(1))

    return Net()


def export(net, path):
    import example_nets
    import onnx

    g = example_nets.Graph([1, 1, 8, 8], opset=13)
    g.conv("conv1", net.conv1)
    g.add("Relu")
    g.conv("conv2", net.conv2)
    g.add("Relu")
    g.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    g.add("Flatten", axis=1)
    g.gemm("fc", net.fc)
    onnx.save(g.model("retraining"), path)


def fit(torch, net, x, y, epochs, rate):
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()


def accuracy(torch, net, x, y):
    with torch.no_grad():
        return float((net(x).argmax(1) == y).double().mean())


def differences(np, torch, net, x, y, place, seed):
    """(inputs, classes) near x, whose classes the network predicts."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    export(net, place / "net.onnx")
    np.save(place / "x.npy", x.numpy())
    np.save(place / "y.npy", y.numpy())
    command = [common.relative(common.PROGRAM), "diff", place / "net.onnx", "--data", place / "x.npy"]
    command += ["--labels", place / "y.npy", "--l2", L2, "--low", 0, "--high", 1, "--candidates", 60000]
    command += ["--seed", seed, "--export-retraining", place / "more", "--out", place / "run"]
    common.execute([*map(str, command), "--quiet", "--json"], (0, 1))
    found = np.load(place / "more" / "X.npy").reshape(-1, 64).astype(np.float32)
    classes = np.load(place / "more" / "y.npy").astype(np.int64)
    return torch.from_numpy(found), torch.from_numpy(classes)


def run(seconds, repeats):
    del seconds  # the budget is one of candidates
    import make_example_models
    import numpy as np
    import torch

    torch.set_num_threads(1)
    arrays = make_example_models.digits()
    train_x, test_x = (torch.from_numpy(arrays[i].astype(np.float32)) for i in (0, 2))
    train_y, test_y = (torch.from_numpy(arrays[i]) for i in (1, 3))
    place = common.RUNS / "retraining"
    rows, runs = [], []
    for name, sizes in SIZES.items():
        seen = {key: [] for key in ("found", "before", "plain", "more", "near before", "near plain", "near more")}
        for seed in range(repeats):
            common.say(f"{name}, seed {seed}")
            torch.manual_seed(seed)
            net = make_net(torch, sizes)
            fit(torch, net, train_x, train_y, EPOCHS, 3e-3)
            found, classes = differences(
                np, torch, net, train_x[:SHOWN], train_y[:SHOWN], place / "train", seed
            )
            found, classes = found[:FOUND], classes[:FOUND]
            near, near_y = differences(np, torch, net, test_x, test_y, place / "test", seed)
            seen["found"].append(len(found))
            trained = {"before": net}
            for kind in ("plain", "more"):
                again = make_net(torch, sizes)
                again.load_state_dict(net.state_dict())
                torch.manual_seed(1000 + seed)
                extra = kind == "more"
                x = torch.cat([train_x, found]) if extra else train_x
                y = torch.cat([train_y, classes]) if extra else train_y
                fit(torch, again, x, y, MORE, 1e-3)
                trained[kind] = again
            for kind, each in trained.items():
                seen[kind].append(100 * accuracy(torch, each, test_x, test_y))
                seen[f"near {kind}"].append(100 * accuracy(torch, each, near, near_y))
        runs.append({"network": name, **seen})
        spread = {k: f"{statistics.mean(v):.1f} ± {statistics.pstdev(v):.1f}" for k, v in seen.items()}
        columns = ("found", "before", "plain", "more", "near before", "near plain", "near more")
        rows.append([name, *(spread[key] for key in columns)])
    head = ["network", "inputs added", "test before, %", "five epochs more, %", "with what was found, %"]
    head += ["near test pictures before, %", "five epochs more, %", "with what was found, %"]
    table = common.table(head, rows)
    common.show_in_readme("retraining", table, common.ROOT / "docs/results/diff.md")
    return {"runs": json.loads(json.dumps(runs)), "table": table}
