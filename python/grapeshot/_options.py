"""Options of the program as types, for editors and type checkers.

Made by tools/make_python_options.py; a test compares it with the program.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

# Names joined by commas, and files of numbers.
Text = str | PathLike | Sequence | Mapping[str, float]
Array = Any


class FuzzOptions(TypedDict, total=False):
    # Of one input of a TorchScript MODEL, without the axis of rows, as 1,28,28, or a .npy file of
    # one (default: that of a row of --data)
    shape: Array | None
    # The file of a network that a VNN-LIB 2.0 query declares, NAME=FILE.onnx; once for each,
    # MODEL is for the one not named
    network: Text | int | None
    # What --data is in (grapeshot list data), where content and name do not say it
    format: Text | int | None
    # Axes of the images of --data, NCHW or NHWC, where the format does not say it: they are
    # turned to the network's
    layout: Text | int | None
    # Rows of --data, as 10:50 (10 to 49), 10:, :50 or 10
    rows: Text | int | None
    # The first so many of these rows (0: all) (0)
    limit: int | None
    # The network takes (value / data-scale - mean) / std; all other options are in the values of
    # the file (1)
    data_scale: float | None
    # One number, or one for each channel or input, joined by commas, after --data-scale
    mean: Text | int | None
    # The same
    std: Text | int | None
    # What eps bounds: linf, every input's change; l2, the length of the change; l1, the sum of
    # all changes (linf)
    norm: Text | int | None
    # Inputs are whole numbers: --grid 1
    integer: bool | None
    # Inputs are multiples of this, such as 1/255 as 0.003921568627451
    grid: float | None
    # Groups of inputs of which one is 1 and the others 0, as 3-7,8-10 or 3+5+9: the 1 may move
    one_hot: Text | int | None
    # Only this label counts, or all: every other label, one after another
    target: Text | int | None
    # A radius for each input in place of --eps: a file of one row, by the names of columns where
    # both are tables
    eps_file: Text | int | None
    # Smallest valid value, in the units of --data; one number, or as --mean
    low: Text | int | None
    # Largest valid value
    high: Text | int | None
    # Also inputs that the model does not predict as labelled
    misclassified: bool | None
    # Inputs that never change, such as padding: a file of 1 for them, else 0, [N, ...] or a row;
    # or names of columns, joined by commas
    frozen: Text | int | None
    # The model's input that is 1 for tokens that are there and 0 for padding
    mask: Text | int | None
    # With --mask: tokens of a row that mutation mask may drop at a time (1)
    drop: int | None
    # Embeddings of words, .npy, [V, E]: findings say which are nearest
    vocabulary: Array | None
    # Those words, a line each
    words: Text | int | None
    # Reference statistics for --criterion and --criteria, as `grapeshot profile` makes them
    stats: Text | int | None
    # Write no report.html
    no_report: bool | None
    # Exit status 1 when one of these conditions holds and 0 otherwise: falsified>0, share>=0.1,
    # new, ...; joined by commas, see `grapeshot list gates`
    fail_on: Text | int | None
    # An earlier run folder, for --fail-on new
    baseline: Text | int | None
    # Progress as a screen, or else as lines (default: a screen where stderr is a terminal that
    # can show one)
    screen: bool | None
    # Preset of the paper's configurations: seq-fixed, batch-iso or batch-ani; flags override it
    mode: Text | int | None
    # Options from a JSON file, such as an earlier run.json
    config: Text | int | None
    # Stop after this many seconds (60)
    seconds: float | None
    # Stop with the batch that reaches this many candidates: the reproducible budget (0: none) (0)
    candidates: int | None
    # Give every instance this many seconds, one after another (0: all at once) (0)
    seconds_per_instance: float | None
    # Findings kept before an instance retires (1)
    per_instance: int | None
    # Go on with broken instances, to count violations
    keep_going: bool | None
    # Seed of all randomness (0)
    seed: int | None
    # Lanes, one core each (0: all cores) (0)
    threads: int | None
    # Rows of a batch, or auto (auto)
    batch: Text | int | None
    # MiB for the kept inputs, one half, and for the passes of the networks, the other (1024)
    memory: int | None
    # Seconds from one checkpoint, for `resume`, to the next (0: none) (5)
    checkpoint: float | None
    # Where the batched passes run: cpu or cuda (cpu)
    device: Text | int | None
    # Of the passes that propose inputs: float32, bfloat16, or auto (where it is faster) (auto)
    precision: Text | int | None
    # fair: every unbroken instance gets its share; paper: by energy, with replacement (fair)
    schedule: Text | int | None
    # paper, default, portfolio (attacks that choose by themselves), or names joined by commas
    # (default)
    mutations: Text | int | None
    # Shares of the mutations of the set, e.g. descent=1,random=0
    weights: Text | int | None
    # Of --mutations portfolio: all, or names joined by commas (all)
    attacks: Text | int | None
    # Step sizes: fixed, iso or ani (ani)
    scale: Text | int | None
    # s in (0, 1]: share of a range that a step moves (0.1)
    scale_factor: float | None
    # The step of --scale fixed, input units (0.01)
    eta: float | None
    # T, gradient steps of one candidate (10)
    steps: int | None
    # A neuron fires above this activation (0.1)
    tau: float | None
    # Energy of a row that gains coverage (10)
    alpha: float | None
    # Energy of a row that violates (100)
    beta: float | None
    # Smallest energy (0.1)
    e_min: float | None
    # Coverage criterion that drives the campaign, or none (nc)
    criterion: Text | int | None
    # More criteria to report, joined by commas
    criteria: Text | int | None
    # global: new neurons of the union; best-input: more than any single input (global)
    coverage: Text | int | None
    # Count a convolution and the ReLU behind it both, as the paper does
    every_tap: bool | None
    # kmnc: sections of a neuron's range (1000)
    sections: int | None
    # nbc, snac: standard deviations that a range is widened by (0)
    sigma: float | None
    # tknc, tknp, bknc: neurons of a layer (10)
    top_neurons: int | None
    # lsa, dsa, mdsa: buckets of surprise (1000)
    buckets: int | None
    # lsa, dsa, mdsa: the largest surprise with a bucket (0: 2 for dsa, 2000 for the others) (0)
    upper_bound: float | None
    # ann: squared distance of outputs that counts as new (1)
    distance: float | None
    # ss, sv, vs, vv: share of a layer's other neurons that may change sign (0.2)
    sign_ratio: float | None
    # sv, vs, vv: factor that counts as a change of value (2)
    value_ratio: float | None
    # hidden: parts of a unit's range; attention: parts of a head's range of entropy (10)
    cells: int | None


class FalsifyOptions(TypedDict, total=False):
    # The file of a network that a VNN-LIB 2.0 query declares, NAME=FILE.onnx; once for each,
    # MODEL is for the one not named
    network: Text | int | None
    # Seconds from the start of the process to the answer (60)
    timeout: float | None
    # Write the counterexample here: VNN-COMP's text, or an array (.npy)
    witness: Array | None
    # auto: ONNX Runtime, where it is installed, decides what rounding may undo; ort: it has to
    # agree with every counterexample; none (auto)
    confirm: Text | int | None
    # all, or names joined by commas (all)
    attacks: Text | int | None
    # Of one input of a TorchScript MODEL, without the axis of rows, as 1,28,28, or a .npy file of
    # one (default: that of a row of --data)
    shape: Array | None
    # Inputs are whole numbers: --grid 1
    integer: bool | None
    # Inputs are multiples of this, such as 1/255 as 0.003921568627451
    grid: float | None
    # Seed of all randomness (0)
    seed: int | None
    # Lanes, one core each (0: all cores) (0)
    threads: int | None


class DiffOptions(TypedDict, total=False):
    # Of one input of a TorchScript MODEL, without the axis of rows, as 1,28,28, or a .npy file of
    # one (default: that of a row of --data)
    shape: Array | None
    # Variants of MODEL's weights that it is compared with, joined by commas: float16, bfloat16,
    # int8, pruned; or onnxruntime: what that computes
    against: Text | int | None
    # The file that --against onnxruntime runs there (default MODEL)
    reference_model: Text | int | None
    # What --data is in (grapeshot list data), where content and name do not say it
    format: Text | int | None
    # Axes of the images of --data, NCHW or NHWC, where the format does not say it: they are
    # turned to the network's
    layout: Text | int | None
    # Rows of --data, as 10:50 (10 to 49), 10:, :50 or 10
    rows: Text | int | None
    # The first so many of these rows (0: all) (0)
    limit: int | None
    # The network takes (value / data-scale - mean) / std; all other options are in the values of
    # the file (1)
    data_scale: float | None
    # One number, or one for each channel or input, joined by commas, after --data-scale
    mean: Text | int | None
    # The same
    std: Text | int | None
    # Also inputs that the model does not predict as labelled
    misclassified: bool | None
    # Findings written of one image at most (3)
    per_image: int | None
    # Inputs that never change: a file of an input's size, 1 for them, else 0; or names of
    # columns, joined by commas
    frozen: Text | int | None
    # Inputs are whole numbers, or multiples of --grid
    integer: bool | None
    # Folder for all differences as arrays to train with: X.npy, y.npy
    export_retraining: Array | None
    # Reference statistics for --criterion and --criteria
    stats: Text | int | None
    # Stop after this many seconds (10)
    seconds: float | None
    # Stop with the batch that reaches this many candidates: the reproducible budget (0: none) (0)
    candidates: int | None
    # Go on with images whose prediction has changed
    keep_going: bool | None
    # Seed of all randomness (0)
    seed: int | None
    # Rows of a batch (0: what the models handle well) (0)
    batch: int | None
    # Runner-up classes of the objective (4)
    top_k: int | None
    # m, neurons that a step drives (10)
    neurons: int | None
    # How they are chosen: 1, 2, 3, 4, random, none, or several as in 1+3 (1)
    strategy: Text | int | None
    # What a step may change: none (anything), light, occlusion or blackout, or several joined by
    # + (none)
    constraint: Text | int | None
    # What a step climbs: classes, boundary or magnitude (towards outputs that are not finite)
    # (classes)
    objective: Text | int | None
    # Transform images instead of climbing: deephunter, deeptest, or several as in rotate+blur
    transform: Text | int | None
    # Of --transform: where fewer inputs than this share of them change, by any amount (0.02)
    free_share: float | None
    # Of --transform: otherwise all by less than this share of the valid range (0.2)
    change_share: float | None
    # Of the runner-up classes against the image's own; with several models, of its class in all
    # but one against that one (0.5)
    weight: float | None
    # Of the neurons against the classes (0.5)
    lambda_: float | None
    # Steps of a row before it takes another seed (3)
    iterations: int | None
    # Times the gradient over its root mean square, input units (0: half of what the limits allow)
    # (0)
    step: float | None
    # Largest L2 distance from the image, as a share of its norm (0: none, where another limit is
    # given) (0.02)
    l2: float | None
    # Largest change of one input, input units (0: none) (0)
    linf: float | None
    # Inputs that differ at most (0: any number) (0)
    l0: int | None
    # --l0 counts places of the last two axes, all channels of one together
    pixels: bool | None
    # Smallest signal-to-noise ratio, 10 log10(|image|^2 / |change|^2), dB (0: any) (0)
    snr: float | None
    # Largest second difference of the change along the last axis, input units (0: any) (0)
    smooth: float | None
    # Smallest valid input; with --high, both 0: that of the data (0)
    low: float | None
    # Largest valid input (0)
    high: float | None
    # Inputs are multiples of this, as the images are (1: whole numbers; 0: any) (0)
    grid: float | None
    # Share of neurons that a seed has to gain, less with every step (0.01)
    keep: float | None
    # Of --against onnxruntime: the difference of outputs, over the largest, that counts
    # (0.00012207)
    tolerance: float | None
    # Do what DLFuzz's released code does where it departs from the paper, and count what of its
    # findings would not pass the checks; strategies are then 0, 1, 2, 3
    as_published: bool | None
    # A neuron fires above this activation, 0 to 1: of its layer's range for the strategies (0.25)
    tau: float | None
    # Coverage criterion that decides what is kept (nc-scaled)
    criterion: Text | int | None
    # More criteria to report, joined by commas
    criteria: Text | int | None
    # kmnc: sections of a neuron's range (1000)
    sections: int | None
    # nbc, snac: standard deviations that a range is widened by (0)
    sigma: float | None
    # tknc, tknp, bknc: neurons of a layer (10)
    top_neurons: int | None
    # lsa, dsa, mdsa: buckets of surprise (1000)
    buckets: int | None
    # lsa, dsa, mdsa: the largest surprise with a bucket (0: 2 for dsa, 2000 for the others) (0)
    upper_bound: float | None
    # ann: squared distance of outputs that counts as new (1)
    distance: float | None
    # ss, sv, vs, vv: share of a layer's other neurons that may change sign (0.2)
    sign_ratio: float | None
    # sv, vs, vv: factor that counts as a change of value (2)
    value_ratio: float | None
    # hidden: parts of a unit's range; attention: parts of a head's range of entropy (10)
    cells: int | None
    # Progress as a screen, or else as lines (default: a screen where stderr is a terminal that
    # can show one)
    screen: bool | None


class CoverageOptions(TypedDict, total=False):
    # Of one input of a TorchScript MODEL, without the axis of rows, as 1,28,28, or a .npy file of
    # one (default: that of a row of --data)
    shape: Array | None
    # What --data is in (grapeshot list data), where content and name do not say it
    format: Text | int | None
    # Axes of the images of --data, NCHW or NHWC, where the format does not say it: they are
    # turned to the network's
    layout: Text | int | None
    # Rows of --data, as 10:50 (10 to 49), 10:, :50 or 10
    rows: Text | int | None
    # The first so many of these rows (0: all) (0)
    limit: int | None
    # The network takes (value / data-scale - mean) / std; all other options are in the values of
    # the file (1)
    data_scale: float | None
    # One number, or one for each channel or input, joined by commas, after --data-scale
    mean: Text | int | None
    # The same
    std: Text | int | None
    # Names joined by commas, or all: those that have what they need (nc)
    criteria: Text | int | None
    # Reference statistics, as `grapeshot profile` makes them
    stats: Text | int | None
    # nc, nc-scaled: a neuron fires above this (0.1)
    tau: float | None
    # nc, nc-scaled: global (new neurons of the union) or best-input (more than any single input)
    # (global)
    coverage: Text | int | None
    # Count a convolution and the ReLU behind it both
    every_tap: bool | None
    # kmnc: sections of a neuron's range (1000)
    sections: int | None
    # nbc, snac: standard deviations that a range is widened by (0)
    sigma: float | None
    # tknc, tknp, bknc: neurons of a layer (10)
    top_neurons: int | None
    # lsa, dsa, mdsa: buckets of surprise (1000)
    buckets: int | None
    # lsa, dsa, mdsa: the largest surprise with a bucket (0: 2 for dsa, 2000 for the others) (0)
    upper_bound: float | None
    # ann: squared distance of outputs that counts as new (1)
    distance: float | None
    # ss, sv, vs, vv: share of a layer's other neurons that may change sign (0.2)
    sign_ratio: float | None
    # sv, vs, vv: factor that counts as a change of value (2)
    value_ratio: float | None
    # hidden: parts of a unit's range; attention: parts of a head's range of entropy (10)
    cells: int | None
    # Where the values go by number of inputs, .csv
    curve: Text | int | None
