#include "grapeshot/python/callable_model.h"

#include <utility>

#include <ATen/ATen.h>
#include <pybind11/functional.h>

#include "grapeshot/core/denormals.h"

namespace grapeshot::python {

namespace py = pybind11;

namespace {

int64_t count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

}  // namespace

CallableModel::CallableModel(std::string name, std::vector<int64_t> shape, int64_t outputs,
                             Functions functions, bool float64)
    : name_(std::move(name)),
      shape_(std::move(shape)),
      inputs_(count(shape_)),
      outputs_(outputs),
      functions_(std::move(functions)),
      float64_(float64),
      has_gradient_(!functions_.gradient.is_none()) {}

CallableModel::~CallableModel() {
  const py::gil_scoped_acquire lock;  // the last one to let go may be any thread
  functions_ = {};
}

at::Tensor CallableModel::shaped(const at::Tensor& x) const {
  std::vector<int64_t> shape = shape_;
  shape.insert(shape.begin(), x.size(0));
  return x.reshape(shape);
}

at::Tensor CallableModel::forward(const at::Tensor& x, Head /*head*/) const {
  if (x.size(0) == 0) return at::empty({0, outputs_}, x.options());
  const py::gil_scoped_acquire lock;
  return functions_.outputs(shaped(x)).cast<at::Tensor>();
}

Gradient CallableModel::gradient(const at::Tensor& x, Head head, const Surrogate& /*surrogate*/,
                                 const Cotangent& cotangent) const {
  if (x.size(0) == 0 || !has_gradient_) return {forward(x, head), at::zeros_like(x)};
  const py::gil_scoped_acquire lock;
  const py::tuple both = functions_.gradient(shaped(x), py::cpp_function(cotangent));
  return {both[0].cast<at::Tensor>(), both[1].cast<at::Tensor>().reshape(x.sizes())};
}

Trace CallableModel::trace(const at::Tensor& x, Head head, const Wanted& /*wanted*/) const {
  return {forward(x, head)};
}

at::Tensor CallableModel::evaluate(const at::Tensor& x) const {
  const FlushDenormals keep_denormals(false);
  const at::Tensor given = float64_ ? x : x.to(at::kFloat);
  at::Tensor y = at::empty({x.size(0), outputs_}, x.options());
  for (int64_t r = 0; r < x.size(0); ++r) {
    y.narrow(0, r, 1).copy_(forward(given.narrow(0, r, 1), Head::kOutputs));
  }
  return y;
}

}  // namespace grapeshot::python
