// tests/support/project_probe.cpp: core/set_rows.h, for comparison from Python.
//
//   project_probe NORM FOLDER   reads x, lo, hi, centre [N, D] and radius [N] from FOLDER/*.npy and
//                               writes the projection to FOLDER/projected.npy
#include <cstdint>
#include <iostream>
#include <string>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/set_rows.h"
#include "grapeshot/io/npy.h"

int main(int count, char** arguments) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  if (count != 3) return 2;
  const std::string folder = arguments[2];
  const auto read = [&](const char* name) {
    const NpyArray array = read_npy(folder + "/" + name + ".npy");
    return at::tensor(array.values, at::kDouble).view(array.shape);
  };
  try {
    SetRows set;
    set.norm = find_ball_norm(arguments[1]).norm;
    set.centre = read("centre").to(at::kFloat);
    set.radius = read("radius").unsqueeze(1);
    const at::Tensor x =
        project(read("x").to(at::kFloat), set, read("lo").to(at::kFloat), read("hi").to(at::kFloat))
            .contiguous();
    write_npy(folder + "/projected.npy",
              {x.const_data_ptr<float>(), static_cast<size_t>(x.numel())},
              {x.sizes().data(), x.sizes().size()});
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
