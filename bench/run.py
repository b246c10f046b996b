"""Measurements, each with the commands that made it.

usage: run.py [NAME...] [--seconds S | --budget S] [--repeats N]
  throughput   candidates a second beside the paper's loop in plain PyTorch (30 s, 3 times, interleaved)
  attacks      what each attack of falsify breaks alone, and the portfolio, in 1, 5 and 20 seconds
  falsify      every instance of the VNN-COMP folders, beside the best tools' times
  paper        the paper's tables and figure on the models at hand, within a budget of seconds
  sensitivity  the paper's constants, five values each, within a budget of seconds
  engine       where the time goes: MFU, coverage, lanes, a busy neighbour, cost by batch
  peers        projected gradient descent beside Foolbox
  criteria     coverage criteria as drivers of campaigns, beside no guidance
  diff         DLFuzz's strategies and DeepXplore's objective, the same images and time
  retraining   digit networks trained further with what `diff` found, five seeds
  conformance  the test cases of operators of the onnx package, by grapeshot and others that read ONNX
  python       what calling from Python costs, beside the program
  instances    what a minute finds on whole benchmarks, by default and as in the paper
Without NAME all of them. Prints Markdown tables; commands, loads and numbers go to
bench/results/NAME.json; tables that README shows go there.
"""

import argparse
import sys

import attacks
import common
import conformance_peers
import criteria
import diff
import engine
import falsify
import instances
import paper
import peers
import python_loop
import retraining
import sensitivity
import throughput

TASKS = {
    "throughput": (throughput.run, 30.0, 3),
    "engine": (engine.run, 4.0, 5),
    "peers": (peers.run, 10.0, 5),
    "criteria": (criteria.run, 10.0, 5),
    "diff": (diff.run, 5.0, 1),
    "retraining": (retraining.run, 0.0, 5),
    "conformance": (conformance_peers.run, 0.0, 1),
    "python": (python_loop.run, 5.0, 5),
    "instances": (instances.run, 60.0, 1),
    "attacks": (attacks.run, 20.0, 1),
    "falsify": (falsify.run, 60.0, 1),
    "paper": (paper.run, 1800.0, 1),
    "sensitivity": (sensitivity.run, 600.0, 1),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TASKS))
    parser.add_argument("--seconds", "--budget", type=float, help="of one run, or of all of them")
    parser.add_argument("--repeats", type=int)
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in TASKS:
            parser.error(f"no measurement is called {name}; known: {', '.join(TASKS)}")
    wrong = 0
    for name in arguments.names or TASKS:
        task, seconds, repeats = TASKS[name]
        results = task(arguments.seconds or seconds, arguments.repeats or repeats)
        common.write_results(common.ROOT / "bench/results", name, {"machine": common.machine(), **results})
        common.show_in_readme(name, results["table"])
        print(f"\n{results['table']}\n")
        wrong += results.get("wrong", 0)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
