"""What the measurements share: the program, the machine, medians, tables."""

import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PROGRAM = pathlib.Path(os.environ.get("GRAPESHOT_BUILD", ROOT / "build/release")) / "grapeshot"
RUNS = ROOT / "grapeshot-out" / "bench"


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def relative(path):
    """As the command lines name it: from the project's folder."""
    return os.path.relpath(path, ROOT)


def execute(command, check=(0,)):
    """Runs a command in the project's folder: (stdout, wall seconds, processor seconds)."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    if done.returncode not in check:
        raise SystemExit(f"{' '.join(command)}\nstatus {done.returncode}: {done.stderr[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, wall, used


def load():
    """The load average of the last minute, which a reader of the numbers should see."""
    return round(os.getloadavg()[0], 2)


def machine():
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    version, _, _ = execute([relative(PROGRAM), "version"])
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "version": version.strip().splitlines(),
    }


def table(head, rows):
    """A Markdown table; the first column is text, the others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def write_results(folder, name, results):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    say(f"wrote {relative(path)}")


def show_in_readme(name, table, readme=ROOT / "README.md"):
    """Puts the table between <!-- bench: NAME --> and <!-- end --> in the README, where it has such a place."""
    text = readme.read_text()
    begin, end = f"<!-- bench: {name} -->\n", "<!-- end -->"
    if begin not in text:
        return
    before, rest = text.split(begin, 1)
    readme.write_text(f"{before}{begin}{table}\n{end}{rest.split(end, 1)[1]}")
    say(f"wrote the table of {name} into {relative(readme)}")
