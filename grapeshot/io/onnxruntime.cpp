#include "grapeshot/io/onnxruntime.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>

#include <dlfcn.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"

namespace grapeshot {
namespace {

namespace fs = std::filesystem;

// What is used of the C interface, onnxruntime_c_api.h: opaque objects, a table of functions in
// which entries are only ever appended, and a few enumerators.
struct Status;
struct Handle;
constexpr int kFloat = 1, kInt32 = 6, kInt64 = 7, kBool = 9, kDouble = 11;  // element types
constexpr int kErrorsOnly = 3;
constexpr uint32_t kApiVersion = 14;  // any that has the entries below

struct ApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

enum Entry : size_t {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kSessionGetInputCount = 30,
  kSessionGetOutputCount = 31,
  kSessionGetInputTypeInfo = 33,
  kSessionGetInputName = 36,
  kSessionGetOutputName = 37,
  kCreateTensorWithData = 49,
  kGetTensorMutableData = 51,
  kCastTypeInfoToTensorInfo = 55,
  kGetTensorElementType = 60,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorShapeElementCount = 64,
  kGetTensorTypeAndShape = 65,
  kCreateCpuMemoryInfo = 69,
  kAllocatorFree = 76,
  kGetAllocatorWithDefaultOptions = 78,
  kReleaseEnv = 92,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseTypeInfo = 98,
  kReleaseTensorInfo = 99,
  kReleaseSessionOptions = 100,
};

class Api {
 public:
  explicit Api(const std::string& library) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = handle ? nullptr : dlerror();
    GRAPESHOT_CHECK(handle, kSystem, library,
                    ": cannot be loaded: ", why ? why : "no reason given");
    using GetBase = const ApiBase* (*)();
    const auto get = reinterpret_cast<GetBase>(dlsym(handle, "OrtGetApiBase"));
    GRAPESHOT_CHECK(get, kSystem, library, ": is not ONNX Runtime");
    table_ = get()->get_api(kApiVersion);
    GRAPESHOT_CHECK(table_, kSystem, library, ": this ONNX Runtime is too old");
    version_ = get()->get_version();
  }

  // Calls an entry that returns a status.
  template <class... Args>
  void call(Entry entry, Args... args) const {
    auto* status = function<Status*(Args...)>(entry)(args...);
    if (!status) return;
    const std::string message = function<const char*(const Status*)>(kGetErrorMessage)(status);
    release(kReleaseStatus, status);
    throw Error(ErrorCode::kInvalidArgument, "ONNX Runtime: " + message);
  }
  template <class T>
  void release(Entry entry, T* object) const {
    if (object) function<void(T*)>(entry)(object);
  }
  [[nodiscard]] const std::string& version() const { return version_; }

 private:
  template <class Function>
  [[nodiscard]] Function* function(Entry entry) const {
    return reinterpret_cast<Function*>(const_cast<void*>(table_[entry]));
  }

  const void* const* table_ = nullptr;
  std::string version_;
};

double read(const void* data, int type, size_t i) {
  switch (type) {
    case kFloat:
      return static_cast<double>(static_cast<const float*>(data)[i]);
    case kDouble:
      return static_cast<const double*>(data)[i];
    case kInt32:
      return static_cast<double>(static_cast<const int32_t*>(data)[i]);
    case kInt64:
      return static_cast<double>(static_cast<const int64_t*>(data)[i]);
    case kBool:
      return static_cast<double>(static_cast<const uint8_t*>(data)[i]);
    default:
      throw Error(ErrorCode::kUnsupported, str("ONNX Runtime: an output of element type ", type));
  }
}

// The newest libonnxruntime.so* of a folder, or "".
std::string library_in(const fs::path& folder) {
  std::error_code ignored;
  std::string best;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("libonnxruntime.so")) best = std::max(best, entry.path().string());
  }
  return best;
}

}  // namespace

std::string find_onnxruntime() {
  if (const char* given = std::getenv("GRAPESHOT_ONNXRUNTIME")) return given;
  std::vector<fs::path> folders;
  // LibTorch's wheel is .../site-packages/torch/lib: the neighbour is
  // .../site-packages/onnxruntime.
  Dl_info torch{};
  void* symbol = dlsym(RTLD_DEFAULT, "_ZN2at15set_num_threadsEi");
  if (symbol && dladdr(symbol, &torch) != 0 && torch.dli_fname) {
    folders.push_back(fs::path(torch.dli_fname).parent_path().parent_path().parent_path());
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV")) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(environment) / "lib", ignored)) {
      folders.push_back(entry.path() / "site-packages");
    }
  }
  for (const fs::path& folder : folders) {
    const std::string found = library_in(folder / "onnxruntime" / "capi");
    if (!found.empty()) return found;
  }
  for (const char* folder : {"/usr/local/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu"}) {
    const std::string found = library_in(folder);
    if (!found.empty()) return found;
  }
  return {};
}

struct OnnxRuntime::Session {
  explicit Session(const std::string& library) : api(library) {}
  ~Session() {
    api.release(kReleaseSession, session);
    api.release(kReleaseMemoryInfo, memory);
    api.release(kReleaseEnv, env);
  }

  Api api;
  Handle *env = nullptr, *session = nullptr, *memory = nullptr;
  std::vector<std::string> inputs, outputs;
  std::vector<std::vector<int64_t>> shapes;  // of the inputs
  bool open_rows = false;                    // the first size of the first one
};

OnnxRuntime::OnnxRuntime(const std::string& library, const std::string& path,
                         std::string_view bytes)
    : session_(std::make_unique<Session>(library)), name_(path), version_(session_->api.version()) {
  Session& s = *session_;
  const Api& api = s.api;
  try {
    api.call(kCreateEnv, kErrorsOnly, "grapeshot", &s.env);
    Handle* options = nullptr;
    api.call(kCreateSessionOptions, &options);
    try {
      api.call(kSetIntraOpNumThreads, options, 1);
      api.call(kSetInterOpNumThreads, options, 1);
      if (!bytes.empty() || path.ends_with(".gz")) {
        const std::string model = bytes.empty() ? read_file(path) : std::string(bytes);
        api.call(kCreateSessionFromArray, s.env, static_cast<const void*>(model.data()),
                 model.size(), options, &s.session);
      } else {  // which finds the model's external data as well
        api.call(kCreateSession, s.env, path.c_str(), options, &s.session);
      }
    } catch (...) {
      api.release(kReleaseSessionOptions, options);
      throw;
    }
    api.release(kReleaseSessionOptions, options);
    api.call(kCreateCpuMemoryInfo, 0, 0, &s.memory);
    Handle* allocator = nullptr;
    api.call(kGetAllocatorWithDefaultOptions, &allocator);
    const auto names = [&](Entry count_entry, Entry name_entry) {
      size_t count = 0;
      api.call(count_entry, s.session, &count);
      std::vector<std::string> out;
      for (size_t i = 0; i < count; ++i) {
        char* text = nullptr;
        api.call(name_entry, s.session, i, allocator, &text);
        out.emplace_back(text);
        api.call(kAllocatorFree, allocator, static_cast<void*>(text));
      }
      return out;
    };
    s.inputs = names(kSessionGetInputCount, kSessionGetInputName);
    s.outputs = names(kSessionGetOutputCount, kSessionGetOutputName);
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      Handle *type = nullptr, *tensor = nullptr;
      api.call(kSessionGetInputTypeInfo, s.session, i, &type);
      api.call(kCastTypeInfoToTensorInfo, type, &tensor);
      size_t rank = 0;
      api.call(kGetDimensionsCount, tensor, &rank);
      std::vector<int64_t> shape(rank);
      api.call(kGetDimensions, tensor, shape.data(), rank);
      if (i == 0) s.open_rows = rank > 0 && shape[0] < 1;
      for (int64_t& size : shape) size = std::max<int64_t>(size, 1);
      s.shapes.push_back(std::move(shape));
      api.release(kReleaseTypeInfo, type);
    }
  } catch (const Error& e) {
    throw Error(e.code(), str(name_, ": ", e.what()));
  }
}

OnnxRuntime::~OnnxRuntime() = default;

bool OnnxRuntime::takes_batches() const {
  return session_->inputs.size() == 1 && session_->outputs.size() == 1 && session_->open_rows;
}

int64_t OnnxRuntime::inputs() const {
  int64_t out = 0;
  for (const auto& shape : session_->shapes) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    out += count;
  }
  return out;
}

std::vector<double> OnnxRuntime::run(std::span<const float> x, int64_t rows) const {
  const Session& s = *session_;
  const Api& api = s.api;
  std::vector<float> copy(x.begin(), x.end());
  std::vector<Handle*> in(s.inputs.size(), nullptr), out(s.outputs.size(), nullptr);
  const auto release = [&] {
    for (Handle* value : in) api.release(kReleaseValue, value);
    for (Handle* value : out) api.release(kReleaseValue, value);
  };
  std::vector<double> y;
  try {
    size_t at = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      std::vector<int64_t> shape = s.shapes[i];
      if (rows != 1) shape[0] = rows;
      size_t count = 1;
      for (const int64_t size : shape) count *= static_cast<size_t>(size);
      GRAPESHOT_CHECK(at + count <= copy.size(), kInvalidArgument, name_, ": ONNX Runtime wants ",
                      at + count, " or more inputs, there are ", copy.size());
      api.call(kCreateTensorWithData, s.memory, static_cast<void*>(copy.data() + at),
               count * sizeof(float), shape.data(), shape.size(), kFloat, &in[i]);
      at += count;
    }
    std::vector<const char*> in_names, out_names;
    for (const std::string& each : s.inputs) in_names.push_back(each.c_str());
    for (const std::string& each : s.outputs) out_names.push_back(each.c_str());
    api.call(kRun, s.session, static_cast<Handle*>(nullptr), in_names.data(), in.data(), in.size(),
             out_names.data(), out_names.size(), out.data());
    for (Handle* value : out) {
      Handle* info = nullptr;
      void* data = nullptr;
      int type = 0;
      size_t count = 0;
      api.call(kGetTensorTypeAndShape, value, &info);
      api.call(kGetTensorElementType, info, &type);
      api.call(kGetTensorShapeElementCount, info, &count);
      api.release(kReleaseTensorInfo, info);
      api.call(kGetTensorMutableData, value, &data);
      for (size_t i = 0; i < count; ++i) y.push_back(read(data, type, i));
    }
  } catch (const Error& e) {
    release();
    throw Error(e.code(), str(name_, ": ", e.what()));
  }
  release();
  return y;
}

}  // namespace grapeshot
