#include "grapeshot/core/device.h"

#include <filesystem>
#include <mutex>
#include <system_error>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "grapeshot/base/error.h"

namespace grapeshot {
namespace {

// It is beside the library that this program is linked with, and registers itself when loaded.
std::filesystem::path cuda_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so";
}

}  // namespace

bool has_cuda_library() {
  std::error_code ignored;
  return std::filesystem::exists(cuda_library(), ignored);
}

c10::Device open_device(const std::string& name) {
  if (name == "cpu") return c10::kCPU;
  static std::once_flag once;
  static bool loaded = false;
  std::call_once(
      once, [] { loaded = dlopen(cuda_library().c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr; });
  GRAPESHOT_CHECK(loaded, kInvalidArgument, "--device ", name, ": this LibTorch (", TORCH_VERSION,
                  ") is built without CUDA");
  GRAPESHOT_CHECK(at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0, kInvalidArgument,
                  "--device ", name, ": there is no CUDA device");
  return {c10::kCUDA, 0};
}

}  // namespace grapeshot
