"""Run folders made up for tests of reports, and what is in a report."""

import json
import re

import numpy as np
from program import grapeshot

# A name that a careless page, table or shell would take for more than a name.
HOSTILE = "<script>alert(1)</script>\"'&|`*[x](y)\u2028\x07-" + "very-long-name" * 20


def finding(instance, x, original, **more):
    """What make_run() takes for a finding; `more` replaces or adds keys of finding.json."""
    about = {
        "model": "/models/net.onnx",
        "model_sha256": "0" * 64,
        "spec": f"/specs/s{instance}.vnnlib",
        "spec_sha256": "0" * 64,
        "instance": instance,
        "instance_name": f"s{instance}.vnnlib",
        "region": 0,
        "case": 0,
        "margin": -0.5,
        "margin_float64": -0.5,
        "rounding": 1e-6,
        "outputs": [0.25, 0.75],
        "original_outputs": [0.9, 0.1],
        "property": "top1",
        "violated": "Y_0 <= Y_1",
        "mutation": "descent",
    }
    return about | more, np.asarray(x, np.float32), np.asarray(original, np.float32)


def make_run(folder, findings, names=None, models=("/models/net.onnx",), command="fuzz", **summary):
    """Writes a run of len(names) instances, which are the first model's; returns the folder."""
    names = names or [f"s{i}.vnnlib" for i in range(1 + max(f[0]["instance"] for f in findings))]
    folder.mkdir(parents=True)
    run = {
        "command": command,
        "mode": "",
        "models": [{"path": m, "sha256": "0" * 64} for m in models],
        "instances": [{"model": 0, "name": n, "path": "/specs/" + n, "sha256": ""} for n in names],
        "options": {"seconds": 5.0, "seed": 7},
        "machine": {"grapeshot": "0.1.0", "libtorch": "2.13.0", "processor": "CPU"},
    }
    (folder / "run.json").write_text(json.dumps(run))
    count, broken = np.zeros(len(names), int), set()
    for number, (about, x, original) in enumerate(findings):
        place = folder / "findings" / f"{about['instance']:04}-{number:016x}"
        place.mkdir(parents=True)
        (place / "finding.json").write_text(json.dumps(about))
        np.save(place / "input.npy", x)
        np.save(place / "original.npy", original)
        count[about["instance"]] += 1
        broken.add(about["instance"])
    (folder / "findings").mkdir(exist_ok=True)
    lines = [
        {"seconds": s, "instances_falsified": min(s, len(broken)), "coverage": {"nc": s / 10}}
        for s in range(6)
    ]
    (folder / "stats.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    rows = [
        f'{i},"{models[0]}","/specs/{n}",x,{c},{-0.5 if c else 0.25},{100 + i},{0.5 * i if c else ""}\n'
        for i, (n, c) in enumerate(zip(names, count, strict=True))
    ]
    head = "instance,model,spec,verdict,findings,best_margin,candidates,seconds_to_first\n"
    (folder / "instances.csv").write_text(head + "".join(rows))
    said = {"interrupted": False, "seconds": 5.5, "coverage": {"nc": 0.6}, "candidates": 1234}
    (folder / "summary.json").write_text(json.dumps(said | summary))
    return folder


def pictures_run(folder, count=3, shape=(1, 1, 8, 8), **summary):
    """A run with one finding on each of `count` instances, images of `shape` in [0, 1]."""
    draw = np.random.default_rng(1)
    findings = []
    for i in range(count):
        original = draw.random(shape, np.float32)
        x = np.clip(original + draw.normal(0, 0.1, shape).astype(np.float32), 0, 1)
        findings.append(finding(i, x, original))
    return make_run(folder, findings, names=[f"s{i}.vnnlib" for i in range(count + 1)], **summary)


def hostile_run(folder):
    x = np.linspace(0, 1, 5)
    findings = [
        finding(0, x, x + 0.1, words=HOSTILE, property=HOSTILE, violated=HOSTILE, mutation=HOSTILE),
        finding(0, x, x - 0.1, tokens=[{"token": 1, "was": HOSTILE, "is": None}]),
    ]
    return make_run(folder, findings, names=[HOSTILE], models=["/models/" + HOSTILE])


def page_of(run, *args):
    grapeshot("report", run, *args, status=0)
    return (run / "report.html").read_text()


def data_of(page):
    """The object in a page of text."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)
