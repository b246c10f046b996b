// grapeshot/io/onnx/ops_sequence.cpp: sequences of tensors, and optionals.
//
// An optional is its value, or an empty Value.
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/body.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/parts.h"

namespace grapeshot::onnx {
namespace {

const std::vector<Value>& sequence_of(const Call& call, size_t input) {
  GRAPESHOT_CHECK(input < call.in.size() && call.in[input].sequence, kInvalidArgument, "input ",
                  input, " is no sequence");
  return *call.in[input].sequence;
}

Values made(std::vector<Value> values) {
  return {Value::of_sequence(std::move(values))};
}

// The place in a sequence of `size` values that an input says, from the end where negative; `end`
// where the input is left out.
std::ptrdiff_t place(const Call& call, size_t input, std::ptrdiff_t size, std::ptrdiff_t end) {
  if (!call.has(input)) return end;
  const int64_t given = constant_integer(call, input);
  const int64_t i = given < 0 ? given + size : given;
  GRAPESHOT_CHECK(i >= 0 && i <= end, kInvalidArgument, "a sequence of ", size,
                  " values has no place ", given);
  return i;
}

Values sequence_empty(const Call&) {
  return made({});
}

Values sequence_construct(const Call& call) {
  return made({call.in.begin(), call.in.end()});
}

Values sequence_at(const Call& call) {
  const auto& values = sequence_of(call, 0);
  GRAPESHOT_CHECK(!values.empty(), kInvalidArgument, "the sequence is empty");
  return {values[static_cast<size_t>(place(call, 1, std::ssize(values), std::ssize(values) - 1))]};
}

Values sequence_insert(const Call& call) {
  std::vector<Value> values = sequence_of(call, 0);
  const std::ptrdiff_t size = std::ssize(values);
  values.insert(values.begin() + place(call, 2, size, size), call.in[1]);
  return made(std::move(values));
}

Values sequence_erase(const Call& call) {
  std::vector<Value> values = sequence_of(call, 0);
  GRAPESHOT_CHECK(!values.empty(), kInvalidArgument, "the sequence is empty");
  values.erase(values.begin() + place(call, 1, std::ssize(values), std::ssize(values) - 1));
  return made(std::move(values));
}

Values sequence_length(const Call& call) {
  return {Value{at::scalar_tensor(static_cast<int64_t>(sequence_of(call, 0).size()),
                                  at::TensorOptions(at::kLong)),
                false}};
}

Values split_to_sequence(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(call.node.i("axis", 0), x.rank()) + x.rows;
  const int64_t size = x.t.size(axis);
  std::vector<int64_t> parts;
  const bool by_list = call.has(1) && call.in[1].t.dim() > 0;
  if (by_list) {
    parts = constant_ints(call, 1);
  } else {
    const int64_t each = call.has(1) ? constant_integer(call, 1) : 1;
    GRAPESHOT_CHECK(each > 0, kInvalidArgument, "parts of ", each, " are impossible");
    for (int64_t left = size; left > 0; left -= each) parts.push_back(std::min(each, left));
  }
  check_parts(parts, size);
  // keepdims counts only where the parts are single slices by default.
  const bool squeezes = !call.has(1) && call.node.i("keepdims", 1) == 0;
  std::vector<Value> values;
  for (const at::Tensor& part : x.t.split_with_sizes(parts, axis)) {
    values.push_back({squeezes ? part.squeeze(axis) : part, x.rows});
  }
  return made(std::move(values));
}

Values concat_from_sequence(const Call& call) {
  const auto& values = sequence_of(call, 0);
  GRAPESHOT_CHECK(!values.empty(), kInvalidArgument, "the sequence is empty");
  GRAPESHOT_CHECK(call.node.find("axis"), kInvalidArgument, "there is no axis");
  const bool stacks = call.node.i("new_axis", 0) != 0;
  const int64_t rank = values[0].rank() + stacks;
  const int64_t axis = normal_axis(call.node.i("axis", 0), rank);
  const int64_t n = row_count(values);
  std::vector<at::Tensor> parts;
  int64_t total = 0;
  for (const Value& v : values) {
    GRAPESHOT_CHECK(v.t.defined() && v.rank() + stacks == rank, kInvalidArgument,
                    "its values have different numbers of axes");
    parts.push_back(n < 0 ? v.t : as_rows(v, n));
    total += parts.back().numel();
  }
  checked_count({total});
  return {
      Value{stacks ? at::stack(parts, axis + (n >= 0)) : at::cat(parts, axis + (n >= 0)), n >= 0}};
}

// The subgraph on the first values of all sequences, on the second ones, and so on; tensors among
// the inputs are the same each time.
Values sequence_map(const Call& call) {
  const auto own = call.in.first(own_inputs(call));
  const size_t count = sequence_of(call, 0).size();
  std::vector<std::vector<Value>> results(find_body(call, "body").outputs.size());
  for (size_t i = 0; i < count; ++i) {
    std::vector<Value> in;
    for (const Value& v : own) {
      GRAPESHOT_CHECK(!v.sequence || v.sequence->size() == count, kInvalidArgument,
                      "the sequences have different lengths");
      in.push_back(v.sequence ? (*v.sequence)[i] : v);
    }
    Values out = run_body(call, "body", in);
    for (size_t k = 0; k < out.size(); ++k) results[k].push_back(std::move(out[k]));
  }
  Values out;
  for (std::vector<Value>& each : results) out.push_back(Value::of_sequence(std::move(each)));
  return out;
}

Values optional(const Call& call) {
  return {call.in.empty() ? Value{} : call.in[0]};
}

Values optional_has_element(const Call& call) {
  const bool there = !call.in.empty() && call.in[0].there();
  return {Value{at::scalar_tensor(there, at::TensorOptions(at::kBool)), false}};
}

Values optional_get_element(const Call& call) {
  GRAPESHOT_CHECK(call.in[0].there(), kInvalidArgument, "the optional is empty");
  return {call.in[0]};
}

constexpr uint32_t kFirstTwo = 3u;

constexpr Operator kTable[] = {
    {"ConcatFromSequence", 11, 1, kEveryInput,
     "The values of a sequence one after the other along an axis.", concat_from_sequence,
     Types::kExact},
    {"Optional", 15, 0, kEveryInput, "An optional with or without a value.", optional,
     Types::kExact},
    {"OptionalGetElement", 15, 1, kEveryInput, "The value of an optional.", optional_get_element,
     Types::kExact},
    {"OptionalHasElement", 15, 0, kEveryInput, "Whether an optional has a value.",
     optional_has_element, Types::kExact},
    {"SequenceAt", 11, 2, kFirstInput, "A value of a sequence.", sequence_at, Types::kExact},
    {"SequenceConstruct", 11, 1, kEveryInput, "Tensors as a sequence.", sequence_construct,
     Types::kExact},
    {"SequenceEmpty", 11, 0, kEveryInput, "A sequence without values.", sequence_empty,
     Types::kExact},
    {"SequenceErase", 11, 1, kFirstInput, "A sequence without one of its values.", sequence_erase,
     Types::kExact},
    {"SequenceInsert", 11, 2, kFirstTwo, "A sequence with one value more.", sequence_insert,
     Types::kExact},
    {"SequenceLength", 11, 1, kEveryInput, "The number of values in a sequence.", sequence_length,
     Types::kExact},
    {"SequenceMap", 17, 1, kEveryInput, "A subgraph on every value of a sequence.", sequence_map,
     Types::kExact},
    {"SplitToSequence", 11, 1, kFirstInput, "Parts along an axis as a sequence.", split_to_sequence,
     Types::kExact},
};

}  // namespace

std::span<const Operator> sequence_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
