// grapeshot/core/device.h: where tensors live.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace grapeshot {

/// Whether this LibTorch brings CUDA along; loads nothing, since torch decides about CUDA when it
/// is asked for the first time.
[[nodiscard]] bool has_cuda_library();

/// The device called `name`: cpu or cuda. LibTorch's CUDA library is loaded when it is asked for
/// the first time, since a program that has it takes seconds to start. Throws
/// Error{kInvalidArgument} where there is no such library or no such device.
[[nodiscard]] c10::Device open_device(const std::string& name);

}  // namespace grapeshot
