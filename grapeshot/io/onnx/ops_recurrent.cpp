// grapeshot/io/onnx/ops_recurrent.cpp: layers that go through a sequence step by step.
//
// The rows and ONNX's own batch are one axis of M = N * B sequences; the input's part of all gates
// is one matrix product over all steps, and only the state's part is a loop.
#include <algorithm>
#include <cmath>
#include <string_view>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

using Activation = at::Tensor (*)(const at::Tensor& x);

struct NamedActivation {
  std::string_view name;
  Activation run;
};

constexpr NamedActivation kActivations[] = {
    {"Sigmoid", [](const at::Tensor& x) { return at::sigmoid(x); }},
    {"Tanh", [](const at::Tensor& x) { return at::tanh(x); }},
    {"Relu", [](const at::Tensor& x) { return at::relu(x); }},
};

// One direction of a node: H units, I inputs, G gates.
struct Cell {
  at::Tensor to_gates;     // [H, G H]
  at::Tensor hidden_bias;  // [H] of GRU's last gate, where it is reset with the state's part
  at::Tensor peepholes;    // [3 H]: input, output, forget
  std::vector<Activation> activations;
  double clip = 0.;  // 0: none
  bool input_forget = false, linear_before_reset = false;

  [[nodiscard]] at::Tensor clipped(const at::Tensor& x) const {
    return clip > 0. ? at::clamp(x, -clip, clip) : x;
  }
  [[nodiscard]] at::Tensor activate(size_t which, const at::Tensor& x) const {
    return activations[which](clipped(x));
  }
};

// Each [M, H]; c of LSTM alone.
struct Memory {
  at::Tensor h, c;
};

// The next state, from what the input adds to the gates ([M, G H], biases included).
using StepFn = Memory (*)(const Cell& cell, const at::Tensor& input, const Memory& before);

Memory rnn_step(const Cell& cell, const at::Tensor& input, const Memory& before) {
  return {cell.activate(0, at::addmm(input, before.h, cell.to_gates)), {}};
}

// Gates: input, output, forget, cell.
Memory lstm_step(const Cell& cell, const at::Tensor& input, const Memory& before) {
  const int64_t units = before.h.size(1);
  const at::Tensor all = at::addmm(input, before.h, cell.to_gates);
  const auto peephole = [&](int64_t gate, const at::Tensor& c) {
    const at::Tensor a = all.narrow(1, gate * units, units);
    return cell.peepholes.defined() ? a + cell.peepholes.narrow(0, gate * units, units) * c : a;
  };
  at::Tensor in, out, forget;
  if (cell.peepholes.defined()) {
    in = cell.activate(0, peephole(0, before.c));
    forget = cell.activate(0, peephole(2, before.c));
  } else {
    const at::Tensor gates = cell.activate(0, all.narrow(1, 0, 3 * units));
    in = gates.narrow(1, 0, units);
    out = gates.narrow(1, units, units);
    forget = gates.narrow(1, 2 * units, units);
  }
  if (cell.input_forget) forget = 1. - in;
  const at::Tensor fresh = cell.activate(1, all.narrow(1, 3 * units, units));
  const at::Tensor c = at::addcmul(forget * before.c, in, fresh);
  if (!out.defined()) out = cell.activate(0, peephole(1, c));
  return {out * cell.activations[2](c), c};  // ONNX Runtime clips the gates alone
}

// Gates: update, reset, hidden.
Memory gru_step(const Cell& cell, const at::Tensor& input, const Memory& before) {
  const int64_t units = before.h.size(1);
  const auto last = [&](const at::Tensor& t, int64_t axis) {
    return t.narrow(axis, 2 * units, units);
  };
  const auto first = [&](const at::Tensor& t) { return t.narrow(1, 0, 2 * units); };
  const at::Tensor gates =
      cell.activate(0, at::addmm(first(input), before.h, first(cell.to_gates)));
  const at::Tensor update = gates.narrow(1, 0, units), reset = gates.narrow(1, units, units);
  at::Tensor hidden;
  if (cell.linear_before_reset) {
    at::Tensor of_state = at::mm(before.h, last(cell.to_gates, 1));
    if (cell.hidden_bias.defined()) of_state = of_state + cell.hidden_bias;
    hidden = at::addcmul(last(input, 1), reset, of_state);
  } else {
    hidden = at::addmm(last(input, 1), reset * before.h, last(cell.to_gates, 1));
  }
  hidden = cell.activate(1, hidden);
  return {hidden + update * (before.h - hidden), {}};
}

struct Kind {
  int64_t gates;
  std::vector<std::string_view> activations;  // by default
  StepFn step;
};

struct Sizes {
  int64_t rows, steps, batch, inputs, directions, units;  // N, T, B, I, D, H
  bool batch_first;                                       // layout 1
};

Sizes sizes_of(const Call& call, const Kind& kind) {
  const Value &x = call.in[0], &w = call.in[1], &r = call.in[2];
  GRAPESHOT_CHECK(x.rank() == 3 && w.rank() == 3 && r.rank() == 3, kInvalidArgument,
                  "X, W and R must have three axes");
  const int64_t layout = call.node.i("layout", 0);
  GRAPESHOT_CHECK(layout == 0 || layout == 1, kUnsupported, "layout is ", layout);
  const int64_t rows = row_count(call.in);
  Sizes s{rows < 0 ? 1 : rows, x.size(layout), x.size(1 - layout), x.size(2),
          w.size(0),           r.size(2),      layout == 1};
  const std::vector<int64_t> w_shape = {s.directions, kind.gates * s.units, s.inputs};
  const std::vector<int64_t> r_shape = {s.directions, kind.gates * s.units, s.units};
  GRAPESHOT_CHECK(w.shape() == at::IntArrayRef(w_shape) && r.shape() == at::IntArrayRef(r_shape),
                  kInvalidArgument, "W of shape ", w.shape(), " and R of shape ", r.shape(),
                  " do not fit ", s.inputs, " inputs and ", kind.gates, " gates");
  GRAPESHOT_CHECK(call.node.i("hidden_size", s.units) == s.units, kInvalidArgument,
                  "hidden_size is ", call.node.i("hidden_size", 0), ", R has ", s.units, " units");
  const std::string_view direction = call.node.s("direction", "forward");
  const bool both = direction == "bidirectional";
  GRAPESHOT_CHECK(both || direction == "forward" || direction == "reverse", kUnsupported,
                  "direction is '", direction, "'");
  GRAPESHOT_CHECK(s.directions == (both ? 2 : 1), kInvalidArgument, "direction is '", direction,
                  "', W has ", s.directions);
  const std::vector<int64_t> state = {s.batch_first ? s.batch : s.directions,
                                      s.batch_first ? s.directions : s.batch, s.units};
  const auto check_shape = [&](size_t input, const char* name, const std::vector<int64_t>& shape) {
    GRAPESHOT_CHECK(!call.has(input) || call.in[input].shape() == at::IntArrayRef(shape),
                    kInvalidArgument, name, " of shape ", call.in[input].shape(),
                    " is to have the shape ", at::IntArrayRef(shape));
  };
  check_shape(3, "B", {s.directions, 2 * kind.gates * s.units});
  check_shape(5, "initial_h", state);
  check_shape(6, "initial_c", state);
  check_shape(7, "P", {s.directions, 3 * s.units});
  constexpr int64_t kMostSteps = int64_t{1} << 16;
  GRAPESHOT_CHECK(0 < s.steps && s.steps <= kMostSteps, kUnsupported, "a sequence of ", s.steps,
                  " steps is not one of 1 to ", kMostSteps);
  if (call.planning) {
    checked_count({s.steps, s.rows * s.batch, s.directions * kind.gates * s.units});
  }
  return s;
}

std::vector<Activation> activations_of(const Call& call, const Kind& kind, const Sizes& s,
                                       int64_t direction) {
  const size_t count = kind.activations.size();
  std::vector<std::string_view> names = kind.activations;
  if (const Attribute* given = call.node.find("activations"); given && !given->strings.empty()) {
    const size_t wanted = count * static_cast<size_t>(s.directions);
    GRAPESHOT_CHECK(given->strings.size() == wanted, kInvalidArgument, "activations are ",
                    given->strings.size(), ", not ", wanted);
    for (size_t i = 0; i < count; ++i) {
      names[i] = given->strings[static_cast<size_t>(direction) * count + i];
    }
  }
  std::vector<Activation> out;
  for (const std::string_view name : names) {
    const auto known = std::ranges::find(kActivations, name, &NamedActivation::name);
    GRAPESHOT_CHECK(known != std::end(kActivations), kUnsupported, "the activation '", name,
                    "' is not one of Sigmoid, Tanh, Relu");
    out.push_back(known->run);
  }
  return out;
}

// A cell, and what all gates get whatever the input is: [G H], or undefined.
std::pair<Cell, at::Tensor> cell_of(const Call& call, const Kind& kind, const Sizes& s,
                                    int64_t direction) {
  Cell cell;
  cell.to_gates = call.in[2].t.select(0, direction).t();
  cell.activations = activations_of(call, kind, s, direction);
  cell.clip = call.node.f("clip", 0.f);
  GRAPESHOT_CHECK(cell.clip >= 0. && std::isfinite(cell.clip), kInvalidArgument, "clip is ",
                  cell.clip);
  cell.input_forget = call.node.i("input_forget", 0) != 0;
  constexpr int64_t kGatesOfGru = 3;
  cell.linear_before_reset =
      kind.gates == kGatesOfGru && call.node.i("linear_before_reset", 0) != 0;
  if (call.has(7)) cell.peepholes = call.in[7].t.select(0, direction);
  at::Tensor bias;
  if (call.has(3)) {
    const int64_t size = kind.gates * s.units;
    const auto [of_input, of_state] = [&] {
      const at::Tensor both = call.in[3].t.select(0, direction);
      return std::pair(both.narrow(0, 0, size), both.narrow(0, size, size));
    }();
    if (cell.linear_before_reset) {
      const int64_t shared = size - s.units;
      cell.hidden_bias = of_state.narrow(0, shared, s.units);
      bias = at::cat({of_input.narrow(0, 0, shared) + of_state.narrow(0, 0, shared),
                      of_input.narrow(0, shared, s.units)});
    } else {
      bias = of_input + of_state;
    }
  }
  return {std::move(cell), bias};
}

// An initial state [D, B, H] or, batch first, [B, D, H], of one direction: [M, H].
at::Tensor initial(const Call& call, size_t input, const Sizes& s, int64_t direction) {
  if (!call.has(input)) {
    return at::zeros({s.rows * s.batch, s.units}, call.in[0].t.options());
  }
  const at::Tensor t = as_rows(call.in[input], s.rows);
  return t.select(s.batch_first ? 2 : 1, direction).reshape({s.rows * s.batch, s.units});
}

// Which steps belong to which sequence, [T, M, 1]; undefined where all do.
at::Tensor valid_steps(const Call& call, const Sizes& s) {
  if (!call.has(4)) return {};
  const std::vector<int64_t> lengths = constant_ints(call, 4);
  GRAPESHOT_CHECK(
      std::ssize(lengths) == s.batch &&
          std::ranges::all_of(lengths,
                              [&](int64_t length) { return 0 <= length && length <= s.steps; }),
      kInvalidArgument, "sequence_lens are not ", s.batch, " numbers from 0 to ", s.steps);
  const auto all = [&](int64_t length) { return length == s.steps; };
  if (std::ranges::all_of(lengths, all)) return {};
  const at::Tensor valid =
      at::arange(s.steps).unsqueeze(1) < at::tensor(lengths, at::kLong).unsqueeze(0);
  return valid.unsqueeze(1)
      .expand({s.steps, s.rows, s.batch})
      .reshape({s.steps, s.rows * s.batch, 1})
      .to(call.in[0].t.device());
}

Values run(const Call& call, const Kind& kind) {
  const Sizes s = sizes_of(call, kind);
  const int64_t sequences = s.rows * s.batch;
  const bool rows = row_count(call.in) >= 0, cells = kind.step == lstm_step;
  const at::Tensor x =
      as_rows(call.in[0], s.rows)
          .permute(s.batch_first ? at::IntArrayRef{2, 0, 1, 3} : at::IntArrayRef{1, 0, 2, 3})
          .reshape({s.steps * sequences, s.inputs});
  const at::Tensor valid = valid_steps(call, s);
  const bool reverse = call.node.s("direction", "forward") == "reverse";
  std::vector<at::Tensor> all, last, last_c;  // by direction: [T, M, H], [M, H], [M, H]
  for (int64_t d = 0; d < s.directions; ++d) {
    const auto [cell, bias] = cell_of(call, kind, s, d);
    const at::Tensor weight = call.in[1].t.select(0, d).t();
    const at::Tensor inputs = (bias.defined() ? at::addmm(bias, x, weight) : at::mm(x, weight))
                                  .view({s.steps, sequences, kind.gates * s.units});
    Memory state{initial(call, 5, s, d), cells ? initial(call, 6, s, d) : at::Tensor()};
    std::vector<at::Tensor> by_step(static_cast<size_t>(s.steps));
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = reverse || d == 1 ? s.steps - 1 - k : k;
      Memory next = kind.step(cell, inputs.select(0, t), state);
      at::Tensor& shown = by_step[static_cast<size_t>(t)];
      shown = next.h;
      if (valid.defined()) {
        const at::Tensor own = valid.select(0, t);
        shown = at::where(own, next.h, 0.);
        next.h = at::where(own, next.h, state.h);
        if (cells) next.c = at::where(own, next.c, state.c);
      }
      state = std::move(next);
    }
    all.push_back(at::stack(by_step));
    last.push_back(state.h);
    last_c.push_back(state.c);
  }
  const auto value = [&](const at::Tensor& t) { return Value{rows ? t : t.squeeze(0), rows}; };
  const at::Tensor y = at::stack(all).view({s.directions, s.steps, s.rows, s.batch, s.units});
  Values out = {value(
      y.permute(s.batch_first ? at::IntArrayRef{2, 3, 1, 0, 4} : at::IntArrayRef{2, 1, 0, 3, 4}))};
  for (const auto* states : {&last, &last_c}) {
    if (states == &last_c && !cells) continue;
    const at::Tensor t = at::stack(*states).view({s.directions, s.rows, s.batch, s.units});
    out.push_back(value(
        t.permute(s.batch_first ? at::IntArrayRef{1, 2, 0, 3} : at::IntArrayRef{1, 0, 2, 3})));
  }
  return out;
}

Values lstm(const Call& call) {
  return run(call, {4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step});
}

Values gru(const Call& call) {
  return run(call, {3, {"Sigmoid", "Tanh"}, gru_step});
}

Values rnn(const Call& call) {
  return run(call, {1, {"Tanh"}, rnn_step});
}

// The sequence and the states that it begins with.
constexpr uint32_t kSequence = 1u | 1u << 5 | 1u << 6;

constexpr Operator kTable[] = {
    {"GRU", 7, 3, kSequence, "All directions and layouts; activations Sigmoid, Tanh, Relu.", gru},
    {"LSTM", 7, 3, kSequence,
     "All directions and layouts, peepholes; activations Sigmoid, Tanh, Relu.", lstm},
    {"RNN", 7, 3, kSequence, "All directions and layouts; activations Sigmoid, Tanh, Relu.", rnn},
};

}  // namespace

std::span<const Operator> recurrent_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
