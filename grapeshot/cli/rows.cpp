// grapeshot/cli/rows.cpp: see rows.h.
#include "grapeshot/cli/rows.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>

#include <ATen/ATen.h>
#include <unistd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/worker.h"
#include "grapeshot/io/npy.h"

namespace grapeshot::cli {

at::Tensor predictions(const Model& model, const at::Tensor& x) {
  at::Tensor out = at::empty({x.size(0)}, at::kLong);
  const int64_t piece = micro_batch(model);
  for (int64_t begin = 0; begin < x.size(0); begin += piece) {
    const int64_t end = std::min(begin + piece, x.size(0));
    out.slice(0, begin, end).copy_(model.forward(x.slice(0, begin, end), Head::kLogits).argmax(1));
  }
  return out;
}

void write_tensor(const std::string& path, const at::Tensor& x) {
  const at::Tensor dense = x.contiguous();
  const auto count = static_cast<size_t>(dense.numel());
  const std::span<const int64_t> shape(dense.sizes().data(), dense.sizes().size());
  if (dense.scalar_type() == at::kDouble) {
    write_npy_float64(path, std::span(dense.const_data_ptr<double>(), count), shape);
  } else {
    write_npy(path, std::span(dense.const_data_ptr<float>(), count), shape);
  }
}

void check_can_write(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  GRAPESHOT_CHECK(!fs::is_directory(path, ignored), kInvalidArgument, path,
                  ": is a folder; name a file");
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  GRAPESHOT_CHECK(fs::is_directory(folder, ignored), kInvalidArgument, path,
                  ": cannot be written: there is no folder ", folder.string());
  GRAPESHOT_CHECK(::access(folder.c_str(), W_OK) == 0, kInvalidArgument, path,
                  ": cannot be written: ", std::generic_category().message(errno));
}

}  // namespace grapeshot::cli
