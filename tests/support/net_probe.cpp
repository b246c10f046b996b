// tests/support/net_probe.cpp: runs many small networks in one process, for comparison from Python.
//
// Lines "MODEL DATA OUT OUTPUT" on stdin, separated by tabs. Per line OUT.y.npy gets the outputs of
// the rows in DATA (.npy, float32) as the loop computes them, OUT.u.npy those of the graph as read
// and OUT.g.npy the gradient of output number OUTPUT; stdout gets "ok", or "CODE message".
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/onnx/model.h"

namespace {

using grapeshot::onnx::OnnxModel;

void write(const std::string& path, const at::Tensor& t) {
  const at::Tensor dense = t.contiguous();
  grapeshot::write_npy(path, {dense.const_data_ptr<float>(), static_cast<size_t>(dense.numel())},
                       {dense.sizes().data(), dense.sizes().size()});
}

void probe(const std::vector<std::string>& fields) {
  const auto net = grapeshot::onnx::load_model(fields.at(0));
  grapeshot::NpyArray file = grapeshot::read_npy(fields.at(1));
  const at::Tensor x =
      at::from_blob(file.values.data(), {file.shape.at(0), net->inputs()}, at::kDouble)
          .to(at::kFloat);
  GRAPESHOT_CHECK(net->fallback().empty(), kInternal, net->name(), ": ", net->fallback());
  const std::string& out = fields.at(2);
  write(out + ".y.npy", net->forward(x, grapeshot::Head::kOutputs));
  write(out + ".u.npy", net->forward_unlowered(x));
  const auto pick = [&](const at::Tensor& y) {
    at::Tensor cotangent = at::zeros_like(y);
    cotangent.select(1, std::stoll(fields.at(3))).fill_(1);
    return cotangent;
  };
  write(out + ".g.npy",
        net->gradient(x, grapeshot::Head::kOutputs, grapeshot::Surrogate::kLoose, pick).x);
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = line.find('\t', begin);
    fields.push_back(line.substr(begin, end - begin));
  }
  return fields;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer = "ok";
    try {
      probe(split(line));
    } catch (const grapeshot::Error& e) {
      answer = std::to_string(static_cast<int>(e.code())) + " " + e.what();
    } catch (const std::exception& e) {
      answer = std::string("? ") + e.what();
    }
    std::cout << answer.substr(0, answer.find('\n')) << std::endl;
  }
}
