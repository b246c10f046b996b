"""What JSON specifications mean, in NumPy and ONNX Runtime, on the network as it is: shares nothing with the
program.

A definition takes the specification, the network as a function of one flat row, and the inputs of a claimed
violation, and tells whether they are one.
"""

import json
import pathlib

import numpy as np
import onnx
import onnxruntime


def network(path):
    """f(x [D]) -> [K], float64 of float32 outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    # ONNX Runtime looks in the wrong folder for external data of a branch; the onnx package does not.
    data = path if isinstance(path, bytes) else onnx.load(path).SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    ports = session.get_inputs()
    shapes = [[s if isinstance(s, int) else 1 for s in p.shape] for p in ports]
    ends = np.cumsum([int(np.prod(s)) for s in shapes])

    def run(x):
        parts = np.split(np.asarray(x, np.float32).ravel(), ends[:-1])
        feed = {p.name: v.reshape(s) for p, v, s in zip(ports, parts, shapes, strict=True)}
        outputs = [np.asarray(y, np.float64).ravel() for y in session.run(None, feed)]
        return np.concatenate(outputs)

    return run


def index(spec, kind, key):
    names = spec.get(f"{kind}_names", [])
    return names.index(key) if key in names else int(key)


def boxes(spec, folder, d):
    """(lo, hi, {feature: values}, centre) of every box of 'inputs', float64."""
    out = []
    given = spec["inputs"]
    for box in given if isinstance(given, list) else [given]:
        values = {index(spec, "feature", k): v for k, v in box.get("values", {}).items()}
        lo = np.broadcast_to(np.array(box.get("lo", -np.inf), float), d)
        hi = np.broadcast_to(np.array(box.get("hi", np.inf), float), d)
        if "center" not in box:
            out.append((lo, hi, values, None))
            continue
        centres = box["center"]
        if isinstance(centres, dict):
            rows = np.load(folder / centres["file"]).astype(float)
            wanted = centres.get("rows", [centres.get("row")])
            centres = rows if wanted == "all" else rows[wanted]
        for centre in np.reshape(centres, (-1, d)):
            eps = np.broadcast_to(np.array(box.get("eps", 0), float), d).copy()
            low, high = np.maximum(lo, centre - eps), np.minimum(hi, centre + eps)
            if "only" in box or "only_steps" in box:
                free = np.zeros(d, bool)
                free[[index(spec, "feature", i) for i in box.get("only", [])]] = True
                if "only_steps" in box:
                    free.reshape(box["steps"], -1)[box["only_steps"]] = True
                low, high = np.where(free, low, centre), np.where(free, high, centre)
            out.append((low, high, values, centre))
    return out


def inside(x, box, free=()):
    """Whether x lies in a box of boxes(); features in `free` may be anything."""
    lo, hi, values, _ = box
    x = np.asarray(x, float).ravel()
    for i, v in enumerate(x):
        if i in free:
            continue
        if i in values:
            if v not in values[i]:
                return False
        elif not lo[i] <= v <= hi[i]:
            return False
    return True


def another_decision(spec, y, z):
    if "tolerance" in spec:
        which = [spec["output"]] if "output" in spec else range(len(y))
        return any(abs(z[i] - y[i]) > spec["tolerance"] for i in which)
    if "threshold" in spec:
        i = spec.get("output", 0)
        return (y[i] > spec["threshold"]) != (z[i] > spec["threshold"])
    return y.argmax() != z.argmax()


def fairness(spec, f, x, z, folder):
    protected = {index(spec, "feature", k): v for k, v in spec["protected"].items()}
    eps = np.broadcast_to(np.array(spec.get("eps", 0), float), len(x))
    for i in range(len(x)):
        if i not in protected and not abs(float(z[i]) - float(x[i])) <= eps[i]:
            return False
    for i, values in protected.items():
        for v in (float(x[i]), float(z[i])):
            if not (values["lo"] <= v <= values["hi"] if isinstance(values, dict) else v in values):
                return False
    ours = [b for b in boxes(spec, folder, len(x)) if inside(x, b, protected)]
    return bool(ours) and another_decision(spec, f(x), f(z))


def margin(y, label):
    return y[label] - np.delete(y, label).max()


def monotonicity(spec, f, x, z, folder):
    up = [index(spec, "feature", k) for k in spec.get("increasing", [])]
    down = [index(spec, "feature", k) for k in spec.get("decreasing", [])]
    for i in range(len(x)):
        if not (z[i] >= x[i] if i in up else z[i] <= x[i] if i in down else z[i] == x[i]):
            return False
    if not any(inside(x, b) and inside(z, b) for b in boxes(spec, folder, len(x))):
        return False
    if "class" in spec:
        label = index(spec, "output", spec["class"])
        fall = margin(f(x), label) - margin(f(z), label)
    else:
        i = index(spec, "output", spec.get("output", 0))
        fall = f(x)[i] - f(z)[i]
    return fall > spec.get("tolerance", 0)


def bounds(spec, f, x, _, folder):
    i = index(spec, "output", spec.get("output", 0))
    for box in boxes(spec, folder, len(x)):
        if not inside(x, box):
            continue
        if "delta" not in spec:
            y = f(x)[i]
            return not spec.get("lo", -np.inf) <= y <= spec.get("hi", np.inf)
        if abs(f(x)[i] - f(box[3])[i]) > spec["delta"]:
            return True
    return False


def horizon(formula):
    """Steps that a formula needs after the one that it is about."""
    if "change" in formula:
        return 1
    for key in ("and", "or", "until"):
        if key in formula:
            inner = max(horizon(g) for g in formula[key])
            return inner + formula.get("steps", [0, 0])[1]
    if "not" in formula:
        return horizon(formula["not"])
    if "if" in formula:
        return max(horizon(formula["if"]), horizon(formula["then"]))
    for key in ("always", "eventually"):
        if key in formula:
            return horizon(formula[key]) + formula.get("steps", [0, 0])[1]
    return 0


def satisfied(formula, y, t=0):
    """Whether the sequence y [steps, signals] satisfies a formula at step t."""
    now = y[t, formula.get("signal", 0)]
    if "above" in formula:
        return now >= formula["above"]
    if "below" in formula:
        return now <= formula["below"]
    if "within" in formula:
        return formula["within"][0] <= now <= formula["within"][1]
    if "change" in formula:
        return abs(y[t + 1, formula.get("signal", 0)] - now) <= formula["change"]
    if "and" in formula:
        return all(satisfied(g, y, t) for g in formula["and"])
    if "or" in formula:
        return any(satisfied(g, y, t) for g in formula["or"])
    if "not" in formula:
        return not satisfied(formula["not"], y, t)
    if "if" in formula:
        return not satisfied(formula["if"], y, t) or satisfied(formula["then"], y, t)
    first, last = formula.get("steps", [0, len(y) - 1 - t - horizon(formula)])
    window = range(t + first, t + last + 1)
    if "always" in formula:
        return all(satisfied(formula["always"], y, s) for s in window)
    if "eventually" in formula:
        return any(satisfied(formula["eventually"], y, s) for s in window)
    holds, goal = formula["until"]
    return any(
        satisfied(goal, y, s) and all(satisfied(holds, y, r) for r in range(t, s)) for s in window
    )


def temporal(spec, f, x, _, folder):
    if not any(inside(x, b) for b in boxes(spec, folder, len(x))):
        return False
    return not satisfied(spec["formula"], f(x).reshape(spec["steps"], -1))


def set_(spec, f, x, _, folder):
    if not any(inside(x, b) for b in boxes(spec, folder, len(x))):
        return False
    y = f(x)
    if "classes" in spec:
        allowed = [index(spec, "output", c) for c in spec["classes"]]
        return np.delete(y, allowed).max() >= y[allowed].max()
    return not any(
        all(lo <= y[index(spec, "output", k)] <= hi for k, (lo, hi) in box.items())
        for box in spec["outputs"]
    )


def permutation(spec, f, x, z, folder):
    elements, moved = (v.reshape(spec["elements"], -1) for v in (x, z))
    if spec["permutations"] == "any":
        if sorted(map(tuple, elements)) != sorted(map(tuple, moved)):
            return False
    elif not any((elements[order] == moved).all() for order in spec["permutations"]):
        return False
    ours = any(inside(x, b) for b in boxes(spec, folder, len(x)))
    return ours and another_decision(spec, f(x), f(z))


DEFINITIONS = {
    "fairness": fairness,
    "monotonicity": monotonicity,
    "bounds": bounds,
    "temporal": temporal,
    "set": set_,
    "permutation": permutation,
}


def is_violation(finding):
    """Whether a finding's folder shows what it claims: its inputs are those of a violation by definition."""
    folder = pathlib.Path(finding)
    said = json.loads((folder / "finding.json").read_text())
    path = pathlib.Path(said["spec"])
    spec = json.loads(path.read_text())
    pair = (folder / "second.npy").exists()
    x = np.load(folder / ("first.npy" if pair else "input.npy")).ravel()
    z = np.load(folder / "second.npy").ravel() if pair else None
    return DEFINITIONS[spec["property"]](spec, network(said["model"]), x, z, path.parent)
