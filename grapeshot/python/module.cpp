// grapeshot/python/module.cpp: the extension module grapeshot._core. What users see is
// python/grapeshot.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <CLI/CLI.hpp>
#include <c10/util/Exception.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/process.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/core/mutate.h"
#include "grapeshot/io/onnx/graph.h"
#include "grapeshot/io/onnx/model.h"
#include "grapeshot/python/call.h"
#include "grapeshot/python/callable_model.h"

namespace grapeshot::python {
namespace {

namespace py = pybind11;

// A Model that Python holds. pybind11 knows of no const.
struct Handle {
  std::shared_ptr<const Model> model;
};

const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kParse:
      return "ParseError";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kSystem:
      return "SystemFailure";
    case ErrorCode::kInternal:
      break;
  }
  return "InternalError";
}

void raise(const char* name, const std::string& message) {
  const py::object type = py::module_::import("grapeshot._errors").attr(name);
  PyErr_SetObject(type.ptr(), py::str(cli::one_line(message)).ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(class_of(error.code()), error.what());
  } catch (const c10::Error& error) {
    raise("InternalError", str("LibTorch refused: ", error.what_without_backtrace()));
  }
}

// Every option of a command as its help page has it.
py::list options(const std::string& command) {
  const cli::Command& row = find_row(cli::commands(), command, "command");
  CLI::App app(std::string(row.summary), command);
  (void)row.declare(app);
  py::list out;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    py::dict each;
    each["name"] = option->get_lnames()[0];
    each["help"] = option->get_description();
    each["default"] = option->get_default_str();
    each["type"] = option->get_items_expected_max() == 0 ? "FLAG" : option->get_type_name();
    out.append(each);
  }
  return out;
}

// x, float32 and of whole rows, without its inner shape.
at::Tensor rows_of(const Model& model, const at::Tensor& x) {
  return x.reshape({x.size(0), model.inputs()});
}

void define_model(py::module_& m) {
  py::class_<Handle>(m, "Model")
      .def_property_readonly("name", [](const Handle& h) { return h.model->name(); })
      .def_property_readonly("inputs", [](const Handle& h) { return h.model->inputs(); })
      .def_property_readonly("outputs", [](const Handle& h) { return h.model->outputs(); })
      .def_property_readonly("input_shape", [](const Handle& h) { return h.model->input_shape(); })
      .def("forward",
           [](const Handle& h, const at::Tensor& x) {
             const py::gil_scoped_release unlocked;
             const at::NoGradGuard no_grad;
             return h.model->forward(rows_of(*h.model, x), Head::kOutputs);
           })
      .def("gradient", [](const Handle& h, const at::Tensor& x, const at::Tensor& cotangent) {
        const py::gil_scoped_release unlocked;
        const at::NoGradGuard no_grad;
        const auto given = [&](const at::Tensor&) { return cotangent; };
        return h.model->gradient(rows_of(*h.model, x), Head::kOutputs, Surrogate::kLoose, given)
            .x.reshape(x.sizes());
      });
  m.def("load_model", [](const std::string& path) {
    const py::gil_scoped_release unlocked;
    return Handle{onnx::load_model(path)};
  });
  m.def("parse_model", [](const py::bytes& bytes, const std::string& name) {
    const std::string text = bytes;
    const py::gil_scoped_release unlocked;
    return Handle{std::make_shared<onnx::OnnxModel>(onnx::parse_graph(text, name))};
  });
  m.def("callable_model", [](std::string name, std::vector<int64_t> shape, int64_t outputs,
                             py::object forward, py::object gradient, bool float64) {
    return Handle{std::make_shared<CallableModel>(
        std::move(name), std::move(shape), outputs,
        Functions{std::move(forward), std::move(gradient)}, float64)};
  });
}

std::vector<std::string> gradient_mutations() {
  std::vector<std::string> out;
  for (const Mutation& each : mutations()) {
    if (each.gradient) out.emplace_back(each.name);
  }
  return out;
}

py::dict finding(const std::string& id, const Finding& f) {
  py::dict out;
  out["id"] = id;
  out["instance"] = f.instance;
  out["x"] = f.x;
  out["original"] = f.original;
  out["outputs"] = f.confirmation.y32;
  out["margin"] = f.confirmation.verdict32.margin;
  out["mutation"] = f.mutation;
  out["seconds"] = f.seconds;
  return out;
}

py::tuple call_command(const std::string& command, std::vector<std::string> arguments,
                       const std::map<std::string, Handle>& models, const py::object& progress) {
  cli::GivenModels given;
  for (const auto& [path, handle] : models) given[path] = handle.model;
  const Called called = call(command, std::move(arguments), std::move(given), progress);
  py::list findings;
  for (const auto& [id, each] : called.findings) findings.append(finding(id, each));
  return py::make_tuple(called.json, findings, called.notes);
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The engine of grapeshot; use the package grapeshot.";
  py::register_exception_translator(translate);
  m.attr("torch_version") = TORCH_VERSION;
  m.attr("version") = GRAPESHOT_VERSION;
  m.def("options", options);
  m.def("gradient_mutations", gradient_mutations);
  m.def("absolute_path", cli::absolute_path);
  m.def("check_is_new", cli::RunFolder::check_is_new);
  m.def("call", call_command, py::arg("command"), py::arg("arguments"), py::arg("models"),
        py::arg("progress"));
  define_model(m);
}

}  // namespace grapeshot::python
