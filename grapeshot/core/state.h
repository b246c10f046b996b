// grapeshot/core/state.h: what a campaign has to remember, as tensors by name.
//
// Every class that has something to remember has save(State&, prefix) and load(const State&,
// prefix) and knows its own names. The bytes are those of torch.save of a dictionary of tensors, so
// that torch.load(path, weights_only=False) shows what is in a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

namespace grapeshot {

class State {
 public:
  /// Tensors are kept by reference until encode().
  void put(const std::string& name, const at::Tensor& value);
  void put(const std::string& name, int64_t value);
  void put(const std::string& name, double value);
  void put(const std::string& name, std::string_view value);
  void put(const std::string& name, const std::vector<int64_t>& values);

  [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }
  // Throw Error{kParse} when `name` is not there or of another kind.
  [[nodiscard]] at::Tensor tensor(const std::string& name) const;
  [[nodiscard]] int64_t integer(const std::string& name) const;
  [[nodiscard]] double real(const std::string& name) const;
  [[nodiscard]] std::string text(const std::string& name) const;
  [[nodiscard]] std::vector<int64_t> integers(const std::string& name) const;
  /// Fills `into` with the tensor of that name, which has its shape and type.
  void fill(const std::string& name, const at::Tensor& into) const;

  /// Of all tensors.
  [[nodiscard]] int64_t bytes() const;

  [[nodiscard]] std::vector<char> encode() const;
  /// Throws Error{kParse} for what encode() has not written.
  [[nodiscard]] static State decode(const std::vector<char>& bytes);

 private:
  [[nodiscard]] at::Tensor find(const std::string& name, at::ScalarType type) const;

  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace grapeshot
