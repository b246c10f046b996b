#include "grapeshot/io/torchscript/torchscript.h"

#include <algorithm>
#include <istream>
#include <streambuf>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/io/onnx/bind.h"

namespace grapeshot::torchscript {
namespace {

// What the node runs, where an If has its branches.
struct Script : onnx::Body {
  torch::jit::Module single, twice;  ///< float32 and float64
  bool has_twice = false;
};

// Bytes as a stream, without a copy.
struct View : std::streambuf {
  explicit View(std::string_view bytes) {
    char* begin = const_cast<char*>(bytes.data());
    setg(begin, begin, begin + bytes.size());
  }
  pos_type seekoff(off_type by, std::ios_base::seekdir from, std::ios_base::openmode) override {
    char* at = from == std::ios_base::beg ? eback() : from == std::ios_base::cur ? gptr() : egptr();
    if (at + by < eback() || at + by > egptr()) return pos_type(off_type(-1));
    setg(eback(), at + by, egptr());
    return gptr() - eback();
  }
  pos_type seekpos(pos_type to, std::ios_base::openmode which) override {
    return seekoff(off_type(to), std::ios_base::beg, which);
  }
};

// The first line of an exception without the C++ and TorchScript backtraces.
std::string brief(const std::exception& error) {
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  std::string text = ours ? ours->what_without_backtrace() : error.what();
  // TorchScript puts the reason last, behind its own traceback.
  const size_t reason = text.rfind("RuntimeError: ");
  if (reason != std::string::npos) text = text.substr(reason + 14);
  const size_t begin = text.find_first_not_of(" \n");
  text = begin == std::string::npos ? "unknown reason" : text.substr(begin);
  return text.substr(0, text.find('\n'));
}

// What an archive that is no TorchScript holds.
std::string other_contents(caffe2::serialize::PyTorchStreamReader& reader) {
  const std::vector<std::string> records = reader.getAllRecords();
  const auto some = [&](std::string_view part) {
    return std::ranges::any_of(
        records, [&](const std::string& each) { return each.find(part) != std::string::npos; });
  };
  if (some("serialized_exported_program") || some("archive_format") || some("models/")) {
    return "an exported program (torch.export.save); torch.onnx.export makes an ONNX file of it";
  }
  if (reader.hasRecord("data.pkl")) {
    return "a pickled object, such as a state dict or a module (torch.save), that only the Python "
           "that wrote it can read; torch.jit.trace(module.eval(), example).save(path) makes "
           "TorchScript of a module";
  }
  return "something else";
}

// Loading a module runs what its __setstate__ says: the code is looked at before.
void check_records(caffe2::serialize::PyTorchStreamReader& reader, size_t bytes,
                   const std::string& path) {
  // Tensors are stored as they are; code, which is compressed, is small.
  constexpr size_t kRatio = 100;
  size_t total = 0;
  for (const std::string& name : reader.getAllRecords()) total += reader.getRecordSize(name);
  GRAPESHOT_CHECK(total / kRatio <= bytes, kParse, path, ": claims to unpack to ", total,
                  " bytes of ", bytes);
  for (const std::string& name : reader.getAllRecords()) {
    if (!name.starts_with("code/") || !name.ends_with(".py")) continue;
    const auto [data, size] = reader.getRecord(name);
    const std::string_view code(static_cast<const char*>(data.get()), size);
    for (const std::string_view call : {".save(", ".from_file(", ".load("}) {
      GRAPESHOT_CHECK(code.find(call) == code.npos, kUnsupported, path, ": its code calls ",
                      call.substr(1), "...): a module that touches files is not run");
    }
  }
}

torch::jit::Module read_module(std::string_view bytes, const std::string& path) {
  const auto is_zip = bytes.starts_with("PK\x03\x04");
  GRAPESHOT_CHECK(is_zip, kParse, path, ": is no TorchScript, which is a zip archive; ",
                  bytes.starts_with("\x80") ? "it is a pickle, as torch.save writes"
                                            : "it is damaged, or of another kind");
  try {
    View view(bytes);
    std::istream stream(&view);
    caffe2::serialize::PyTorchStreamReader reader(&stream);
    GRAPESHOT_CHECK(reader.hasRecord("constants.pkl"), kParse, path, ": holds no TorchScript but ",
                    other_contents(reader));
    check_records(reader, bytes.size(), path);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // A zip archive that torch did not write has no folder that all of its files are in.
    throw Error(ErrorCode::kParse,
                str(path, ": is no archive of TorchScript, or damaged: ", brief(error)));
  }
  try {
    View view(bytes);
    std::istream stream(&view);
    torch::jit::Module module = torch::jit::load(stream, at::Device(at::kCPU), false);
    module.eval();
    for (const at::Tensor& each : module.parameters()) each.set_requires_grad(false);
    return module;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kParse, str(path, ": cannot be read as TorchScript: ", brief(error)));
  }
}

void check_forward(const torch::jit::Module& module, const std::string& path) {
  const auto forward = module.find_method("forward");
  GRAPESHOT_CHECK(forward.has_value(), kUnsupported, path, ": its module has no forward()");
  const auto& arguments = forward->function().getSchema().arguments();
  const bool one = arguments.size() >= 2 &&
                   std::all_of(arguments.begin() + 2, arguments.end(),
                               [](const auto& each) { return each.default_value().has_value(); });
  GRAPESHOT_CHECK(one && arguments[1].type()->isSubtypeOf(*c10::TensorType::get()), kUnsupported,
                  path, ": its forward() takes ", arguments.size() - 1,
                  " arguments; modules of one tensor are supported");
}

at::Tensor flat(const c10::IValue& value, int64_t n) {
  if (value.isTensor()) {
    const at::Tensor& y = value.toTensor();
    GRAPESHOT_CHECK(y.dim() >= 1 && y.size(0) == n, kInvalidArgument, "its output for ", n,
                    " rows has the shape ", y.sizes(), ", which does not begin with them");
    return y;
  }
  GRAPESHOT_CHECK(value.isTuple() || value.isTensorList() || value.isList(), kUnsupported,
                  "its output is of type ", value.tagKind(),
                  "; a tensor, or a tuple or list of tensors is supported");
  std::vector<at::Tensor> parts;
  if (value.isTuple()) {
    for (const c10::IValue& each : value.toTupleRef().elements()) parts.push_back(flat(each, n));
  } else {
    for (const c10::IValue& each : value.toListRef()) parts.push_back(flat(each, n));
  }
  GRAPESHOT_CHECK(!parts.empty(), kUnsupported, "its output is an empty tuple or list");
  for (at::Tensor& part : parts) part = part.reshape({n, -1});
  return at::cat(parts, 1);
}

// x [n, shape...] in float32 or float64; the outputs in the same.
at::Tensor outputs(const Script& script, const at::Tensor& x) {
  // Without optimisation: the first runs of its profiler would be other ones than the later.
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  const bool twice = x.scalar_type() == at::kDouble && script.has_twice;
  // A module's methods are not const; forward() of one in evaluation mode changes nothing.
  auto& module = const_cast<torch::jit::Module&>(twice ? script.twice : script.single);
  const at::Tensor in = twice ? x : x.to(at::kFloat);
  try {
    return flat(module.forward({in}), x.size(0)).to(x.scalar_type());
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidArgument, brief(error));
  }
}

onnx::Values run(const onnx::Call& call) {
  const auto& script = static_cast<const Script&>(*call.node.find("module")->body);
  const onnx::Value& x = call.in[0];
  if (x.rows) return {{outputs(script, x.t), true}};
  return {{outputs(script, x.t.unsqueeze(0)).squeeze(0), false}};
}

// What one row costs, from the calls of ATen that a pass makes.
struct Cost {
  int64_t macs = 0, values = 0, widest = 0;
};

thread_local Cost* counting = nullptr;

int64_t size_of(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? value.toTensor().numel() : 0;
}

// What a call's inputs say, which are gone when its outputs are there.
struct Started : at::ObserverContext {
  int64_t per_output = 0;  ///< multiply-adds of one output value
  int64_t of_input = 0;    ///< and those that are known already
  int64_t read = 0;
};

// The last `count` of what is on the stack of a call: others may be below.
c10::ArrayRef<const c10::IValue> last(c10::ArrayRef<const c10::IValue> stack, size_t count) {
  return stack.slice(stack.size() - std::min(count, stack.size()));
}

std::unique_ptr<at::ObserverContext> start_count(const at::RecordFunction& call) {
  auto out = std::make_unique<Started>();
  const std::string_view name = call.name();
  const auto in = last(call.inputs(), call.num_inputs());
  if (!in.empty()) out->read = size_of(in[0]);
  // What every convolution comes to, traced or scripted.
  if (name == "aten::_convolution" && in.size() > 6 && in[1].isTensor() && in[6].isBool()) {
    const at::Tensor& w = in[1].toTensor();
    const int64_t each = w.numel() / std::max<int64_t>(w.size(0), 1);
    (in[6].toBool() ? out->of_input : out->per_output) = in[6].toBool() ? out->read * each : each;
  }
  const size_t left = name == "aten::addmm" ? 1 : 0;
  const bool product = name == "aten::mm" || name == "aten::bmm" || name == "aten::addmm";
  if (product && in.size() > left && in[left].isTensor()) {
    out->per_output = in[left].toTensor().size(-1);
  }
  return out;
}

void end_count(const at::RecordFunction& call, at::ObserverContext* context) {
  const auto* started = static_cast<const Started*>(context);
  if (!counting || !started || call.outputs().empty()) return;
  const c10::ArrayRef<const c10::IValue> stack(call.outputs().data(), call.outputs().size());
  const int64_t out = size_of(last(stack, call.num_outputs())[0]);
  counting->macs += started->of_input + started->per_output * out;
  counting->values += out;
  counting->widest = std::max(counting->widest, started->read + out);
}

Cost cost_of(const Script& script, const at::Tensor& x) {
  Cost cost;
  const at::CallbackHandle handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(start_count, end_count)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
  counting = &cost;
  try {
    (void)outputs(script, x);
  } catch (...) {
    // The network's own first run says what is wrong.
  }
  counting = nullptr;
  at::removeCallback(handle);
  return cost;
}

std::shared_ptr<const Script> make_script(torch::jit::Module module, const at::Tensor& x) {
  auto out = std::make_shared<Script>();
  out->single = std::move(module);
  out->single.to(at::kFloat);
  try {
    out->twice = out->single.deepcopy();
    out->twice.to(at::kDouble);
    out->has_twice = true;
    (void)outputs(*out, x.to(at::kDouble));
  } catch (const std::exception&) {
    // Constants of its code are of float32: it is evaluated in that.
    out->has_twice = false;
  }
  return out;
}

onnx::Attribute attribute(std::string name, int64_t i) {
  onnx::Attribute out;
  out.name = std::move(name);
  out.i = i;
  return out;
}

}  // namespace

bool is_torchscript(const onnx::Network& network) {
  return network.nodes.size() == 1 && network.nodes[0].node.op == kNodeType;
}

bool is_torch_file(std::string_view bytes, std::string_view path) {
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("\x80\x02")) return true;
  for (const std::string_view ending : {".pt", ".pth", ".ts", ".pt2"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

std::unique_ptr<onnx::OnnxModel> parse_torchscript(std::string_view bytes, const std::string& path,
                                                   std::vector<int64_t> shape) {
  const at::NoGradGuard no_grad;
  torch::jit::Module module = read_module(bytes, path);
  check_forward(module, path);
  GRAPESHOT_CHECK(!shape.empty(), kInvalidArgument, path,
                  ": TorchScript does not say the shape of its input: give it as --shape 1,28,28, "
                  "without the axis of rows");
  (void)onnx::checked_count(shape);
  std::vector<int64_t> one = shape;
  one.insert(one.begin(), 1);
  Rng rng(uint64_t{1});
  const at::Tensor x = at::rand(one, rng.generator());
  const std::shared_ptr<const Script> script = make_script(std::move(module), x);
  const Cost cost = cost_of(*script, x);
  onnx::BoundNode bound;
  bound.node.op = kNodeType;
  bound.node.name = "forward";
  bound.node.inputs = {"x"};
  bound.node.outputs = {"y"};
  int64_t parameters = 0;
  for (const at::Tensor& each : script->single.parameters()) parameters += each.numel();
  bound.node.attributes = {attribute("module", 0), attribute(onnx::kCountedMacs, cost.macs),
                           attribute(onnx::kCountedValues, cost.values),
                           attribute(onnx::kCountedWidest, cost.widest),
                           attribute("parameters", parameters)};
  bound.node.attributes[0].body = script;
  bound.run = run;
  try {
    (void)outputs(*script, at::cat({x, x}));
  } catch (const Error&) {
    bound.batched = onnx::kNoInput;  // a batch of one row is written into it
  }
  onnx::Network network;
  network.path = path;
  network.opset = onnx::kNewestOpset;
  network.nodes.push_back(std::move(bound));
  network.input = "x";
  network.output = "y";
  network.input_shape = shape;
  const int64_t size = x.numel();
  network.inputs = {{"x", shape, 0, size, shape}};
  network.outputs = {{"y", {}, 0, 0, {}}};
  return std::make_unique<onnx::OnnxModel>(std::move(network));
}

}  // namespace grapeshot::torchscript
