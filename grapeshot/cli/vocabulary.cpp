#include "grapeshot/cli/vocabulary.h"

#include <algorithm>
#include <string_view>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"

namespace grapeshot::cli {

Vocabulary::Vocabulary(const std::string& table, const std::string& words,
                       const onnx::OnnxModel& model)
    : inputs_(model.network().inputs) {
  NpyArray given = read_npy(table);
  GRAPESHOT_CHECK(given.shape.size() == 2 && !given.values.empty(), kInvalidArgument, table,
                  ": is not of shape [V, E], an embedding a row");
  table_ = at::from_blob(given.values.data(), given.shape, at::kDouble).clone();
  const int64_t width = table_.size(1);
  const auto takes = [&](const onnx::PortSlice& input) {
    return !input.shape.empty() && input.shape.back() == width;
  };
  const auto input = std::ranges::find_if(inputs_, takes);
  GRAPESHOT_CHECK(input != inputs_.end(), kInvalidArgument, table, ": embeddings of ", width,
                  " numbers; ", model.name(), " has no input with as many in its last axis");
  begin_ = input->begin;
  size_ = input->size;
  if (words.empty()) return;
  const std::string text = read_file(words);
  for (const std::string_view line : split_at('\n', text)) words_.push_back(printable(line));
  GRAPESHOT_CHECK(std::ssize(words_) == table_.size(0), kInvalidArgument, words, ": ",
                  words_.size(), " words; ", table, " has ", table_.size(0), " embeddings");
}

std::vector<int64_t> Vocabulary::nearest(const at::Tensor& x) const {
  const at::Tensor tokens =
      x.slice(0, begin_, begin_ + size_).to(at::kDouble).reshape({-1, table_.size(1)});
  const at::Tensor rows = at::cdist(tokens, table_).argmin(1).contiguous();
  const auto* data = rows.const_data_ptr<int64_t>();
  return {data, data + rows.numel()};
}

std::string Vocabulary::word(int64_t row) const {
  return words_.empty() ? std::to_string(row) : words_[static_cast<size_t>(row)];
}

nlohmann::ordered_json Vocabulary::changes(const at::Tensor& original, const at::Tensor& x,
                                           const Box& box) const {
  const std::vector<int64_t> was = nearest(original), is = nearest(x);
  std::vector<bool> dropped(was.size(), false);
  for (const int32_t bit : box.droppable) {
    for (const onnx::PortSlice& input : inputs_) {
      const int64_t token = bit - input.begin;
      if (0 <= token && token < std::min(input.size, std::ssize(was)) &&
          x[bit].item<float>() == 0.f) {
        dropped[static_cast<size_t>(token)] = true;
      }
    }
  }
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (size_t t = 0; t < was.size(); ++t) {
    if (!dropped[t] && was[t] == is[t]) continue;
    nlohmann::ordered_json change = {{"token", t}, {"was", word(was[t])}, {"is", nullptr}};
    if (!dropped[t]) change["is"] = word(is[t]);
    out.push_back(std::move(change));
  }
  return out;
}

}  // namespace grapeshot::cli
