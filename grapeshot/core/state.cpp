#include "grapeshot/core/state.h"

#include <exception>

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "grapeshot/base/error.h"

namespace grapeshot {

void State::put(const std::string& name, const at::Tensor& value) {
  tensors_[name] = value.cpu();
}

void State::put(const std::string& name, int64_t value) {
  tensors_[name] = at::tensor({value}, at::kLong);
}

void State::put(const std::string& name, double value) {
  tensors_[name] = at::tensor({value}, at::kDouble);
}

void State::put(const std::string& name, std::string_view value) {
  tensors_[name] =
      at::tensor(std::vector<uint8_t>(value.begin(), value.end()), at::TensorOptions(at::kByte));
}

void State::put(const std::string& name, const std::vector<int64_t>& values) {
  tensors_[name] = at::tensor(values, at::kLong);
}

int64_t State::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, t] : tensors_) sum += static_cast<int64_t>(t.nbytes());
  return sum;
}

at::Tensor State::tensor(const std::string& name) const {
  const auto it = tensors_.find(name);
  GRAPESHOT_CHECK(it != tensors_.end(), kParse, "it holds no '", name, "'");
  return it->second;
}

at::Tensor State::find(const std::string& name, at::ScalarType type) const {
  const at::Tensor t = tensor(name);
  GRAPESHOT_CHECK(t.scalar_type() == type && t.dim() == 1, kParse, "its '", name,
                  "' is of another kind");
  return t.contiguous();
}

int64_t State::integer(const std::string& name) const {
  const std::vector<int64_t> values = integers(name);
  GRAPESHOT_CHECK(values.size() == 1, kParse, "its '", name, "' is no single number");
  return values[0];
}

double State::real(const std::string& name) const {
  const at::Tensor t = find(name, at::kDouble);
  GRAPESHOT_CHECK(t.numel() == 1, kParse, "its '", name, "' is no single number");
  return t.item<double>();
}

std::string State::text(const std::string& name) const {
  const at::Tensor t = find(name, at::kByte);
  const auto* bytes = t.const_data_ptr<uint8_t>();
  return {bytes, bytes + t.numel()};
}

std::vector<int64_t> State::integers(const std::string& name) const {
  const at::Tensor t = find(name, at::kLong);
  const auto* values = t.const_data_ptr<int64_t>();
  return {values, values + t.numel()};
}

void State::fill(const std::string& name, const at::Tensor& into) const {
  const at::Tensor t = tensor(name);
  GRAPESHOT_CHECK(t.sizes() == into.sizes() && t.scalar_type() == into.scalar_type(), kParse,
                  "its '", name, "' is of another shape");
  into.copy_(t);
}

std::vector<char> State::encode() const {
  c10::Dict<std::string, at::Tensor> all;
  for (const auto& [name, t] : tensors_) {
    // What is written is all of a tensor's memory, of which a slice is a part.
    const bool whole = t.is_contiguous() && t.storage().nbytes() == static_cast<size_t>(t.nbytes());
    all.insert(name, whole ? t : t.clone(at::MemoryFormat::Contiguous));
  }
  return torch::jit::pickle_save(c10::IValue(all));
}

State State::decode(const std::vector<char>& bytes) {
  State state;
  try {
    const c10::IValue value = torch::jit::pickle_load(bytes);
    for (const auto& entry : value.toGenericDict()) {
      state.tensors_[entry.key().toStringRef()] = entry.value().toTensor();
    }
  } catch (const std::exception&) {  // c10::Error, or what its reader of zip files throws
    throw Error(ErrorCode::kParse, "it is damaged, or no checkpoint at all");
  }
  return state;
}

}  // namespace grapeshot
