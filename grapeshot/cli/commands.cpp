#include "grapeshot/cli/commands.h"

namespace grapeshot::cli {
namespace {

constexpr Command kTable[] = {
    {"fuzz", "Finds inputs that violate specifications, all instances at once.",
     "  grapeshot fuzz net.onnx prop.vnnlib --seconds 10\n"
     "  grapeshot fuzz --instances benchmark/instances.csv --seconds 60 --out run\n"
     "  grapeshot fuzz net.onnx --data x.npy --labels y.npy --eps 0.03 --json\n"
     "  grapeshot fuzz net.onnx fair.json monotone.json      # `grapeshot list properties`\n"
     "  grapeshot fuzz net.onnx prop.vnnlib --mode batch-ani --seed 7 --candidates 20000 --threads "
     "1\n",
     declare_fuzz},
    {"falsify", "Searches for one exact counterexample: sat, or what else came of it.",
     "  grapeshot falsify net.onnx prop.vnnlib --timeout 30\n"
     "  grapeshot falsify net.onnx prop.vnnlib --witness counterexample.txt\n"
     "  grapeshot falsify net.onnx prop.vnnlib --attacks grid,polish --json\n"
     "  grapeshot falsify net.onnx fairness.json\n"
     "Answers: sat (exit status 1); timeout: the limit was reached; unknown: there was nothing "
     "left "
     "to try, or an interrupt. Never unsat.\n",
     declare_falsify},
    {"verify",
     "Answers a VNN-LIB 2.0 query by the standard's command line: sat and a counterexample, "
     "or what else came of it.",
     "  grapeshot verify query.vnnlib --network f=net.onnx --timeout 10\n"
     "  grapeshot verify query.vnnlib --network f=a.onnx --network g=b.onnx\n"
     "  grapeshot verify query.vnnlib --network f=net.onnx --serialise-assignments folder\n"
     "Answers, exit status 0: sat and the values of all variables; timed-out; unknown. Never "
     "unsat. "
     "Errors are status 2 or 3, on stderr.\n",
     declare_verify},
    {"supports", "Tells what `verify` supports, in the words of the VNN-LIB 2.0 standard.",
     "  grapeshot supports --onnx-operators\n  grapeshot supports --hidden-node-theories\n",
     declare_supports},
    {"resume", "Goes on with a run that ended or was ended.",
     "  grapeshot resume run\n"
     "  grapeshot resume run --seconds 600          # of the whole run, what it had counts\n",
     declare_resume},
    {"status", "Shows how runs stand: running, ended or killed.",
     "  grapeshot status run\n"
     "  grapeshot status run --watch                # until it ends\n"
     "  grapeshot status grapeshot-out              # a table of all runs there\n",
     declare_status},
    {"replay", "Confirms findings again, from their files.",
     "  grapeshot replay run                       # every finding of a run\n"
     "  grapeshot replay run --quiet               # only what is not confirmed, and the count\n"
     "  grapeshot replay run/findings/0003-1a2b3c4d\n",
     declare_replay},
    {"report", "Shows a run: a page for people, files for CI.",
     "  grapeshot report run                         # run/report.html\n"
     "  grapeshot report run --format md             # for a pull request, on stdout\n"
     "  grapeshot report run --junit j.xml --sarif s.sarif --pytest test_found.py\n"
     "  grapeshot report run --fail-on new --baseline last-run\n",
     declare_report},
    {"minimize", "Brings a counterexample closer to the original.",
     "  grapeshot minimize run/findings/0003-1a2b3c4d\n"
     "  grapeshot minimize net.onnx prop.vnnlib witness.npy --norm l0 --out smaller.npy\n",
     declare_minimize},
    {"check", "Tells whether a witness violates a specification, exactly.",
     "  grapeshot check net.onnx prop.vnnlib witness.npy\n"
     "  grapeshot check net.onnx prop.vnnlib counterexample.txt\n",
     declare_check},
    {"run", "Runs a network on a batch of inputs.",
     "  grapeshot run net.onnx --data x.npy --out y.npy\n"
     "  grapeshot run net.onnx --data x.npy --out y.npy --float64      # by the graph as read\n"
     "  grapeshot run net.onnx --data x.npy --gradient g.npy --output 3\n",
     declare_run},
    {"diff", "Finds inputs near given ones that are predicted otherwise (DLFuzz).",
     "  grapeshot diff net.onnx --data x.npy --seconds 10\n"
     "  grapeshot diff net.onnx --data x.npy --strategy 1+3 --l2 0.05 --keep-going --json\n"
     "  grapeshot diff net.onnx --data x.npy --integer --high 255 --export-retraining more\n",
     declare_diff},
    {"coverage", "Tells how much of a network a set of inputs exercises.",
     "  grapeshot coverage net.onnx --data x.npy --criteria nc,tknc --json\n"
     "  grapeshot coverage net.onnx --data x.npy --criteria all --stats stats.npz --curve c.csv\n",
     declare_coverage},
    {"profile", "Reference statistics of a network, for criteria that compare with them.",
     "  grapeshot profile net.onnx --data train.npy --out stats.npz\n", declare_profile},
    {"doctor", "Explains a model: operators, shapes, batching, gradients.",
     "  grapeshot doctor net.onnx\n"
     "  grapeshot doctor net.onnx --data x.npy --json\n",
     declare_doctor},
    {"list", "Lists a family: mutations, criteria, operators, ...",
     "  grapeshot list\n  grapeshot list mutations\n", declare_list},
    {"vnncomp", "Runs benchmark folders against what is known of them.",
     "  grapeshot vnncomp benchmarks --timeouts sat=60,unknown=10,unsat=5 --csv out.csv\n"
     "  grapeshot vnncomp benchmarks/acasxu --timeout 20 --json\n"
     "  grapeshot vnncomp benchmarks --results tool/results.csv --timeout 60   # who is wrong?\n",
     declare_vnncomp},
    {"bench", "Measures: the paper's experiments, throughput, falsification, ...",
     "  grapeshot bench paper --budget 1800          # Tables 3-7 and Figure 6 in half an hour\n"
     "  grapeshot bench sensitivity --budget 600\n"
     "  grapeshot bench throughput --seconds 30 --repeats 3\n",
     declare_bench},
    {"version", "Version, LibTorch, processor.", "  grapeshot version --json\n", declare_version},
};

}  // namespace

std::span<const Command> commands() {
  return kTable;
}

}  // namespace grapeshot::cli
