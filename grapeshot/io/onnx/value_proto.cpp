#include "grapeshot/io/onnx/value_proto.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/proto.h"
#include "grapeshot/io/onnx/tensor_proto.h"

namespace grapeshot::onnx {
namespace {

using protozero::pbf_reader;

// Field numbers of onnx-data.proto, https://github.com/onnx/onnx/blob/main/onnx/onnx-data.proto;
// SequenceProto and OptionalProto number what they may contain alike.
namespace contained_field {
constexpr uint32_t kTensor = 3, kSequence = 5, kOptional = 7;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Value read(pbf_reader message, std::span<const Container> containers) {
    if (containers.empty()) {
      return {read_tensor(message, path_, "tensor", external_, NotANumber::kAllowed).t, false};
    }
    const std::span<const Container> inside = containers.subspan(1);
    uint32_t field = contained_field::kTensor;
    if (!inside.empty()) {
      field = inside[0] == Container::kSequence ? contained_field::kSequence
                                                : contained_field::kOptional;
    }
    std::vector<Value> values;
    while (message.next()) {
      if (message.tag() == field) {
        values.push_back(read(message.get_message(), inside));
      } else {
        message.skip();
      }
    }
    if (containers[0] == Container::kSequence) return Value::of_sequence(std::move(values));
    return values.empty() ? Value{} : values.back();
  }

 private:
  const std::string& path_;
  uint64_t external_ = 0;
};

}  // namespace

Value parse_value(std::string_view bytes, const std::string& path, const Port& port) {
  try {
    return Reader(path).read(pbf_reader(bytes.data(), bytes.size()), port.containers);
  } catch (const protozero::exception& e) {
    throw Error(ErrorCode::kParse,
                str(path, ": not a value of ONNX, or cut off or damaged (", e.what(), ")"));
  }
}

}  // namespace grapeshot::onnx
