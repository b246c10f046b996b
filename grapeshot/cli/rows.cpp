// grapeshot/cli/rows.cpp: see rows.h.
#include "grapeshot/cli/rows.h"

#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>

#include <ATen/ATen.h>
#include <unistd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/npy.h"

namespace grapeshot::cli {

at::Tensor read_rows(const std::string& path, const Model& model) {
  NpyArray file = read_npy(path);
  const int64_t d = model.inputs();
  const auto size = static_cast<int64_t>(file.values.size());
  int64_t n = file.shape.empty() ? 1 : file.shape[0];
  if (n * d != size && size == d) n = 1;
  GRAPESHOT_CHECK(n * d == size, kInvalidArgument, path, ": ", size, " values in ", n,
                  n == 1 ? " row; " : " rows; ", model.name(), " has ", d, " inputs a row");
  return at::from_blob(file.values.data(), {n, d}, at::kDouble).clone();
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
