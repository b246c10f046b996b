// grapeshot/core/precision.h: in which type gradient passes run.
#pragma once

#include <cstdint>

#include "grapeshot/core/model.h"
#include "grapeshot/core/options.h"

namespace grapeshot {

/// Whether the gradient passes that propose candidates for `model` run in bfloat16; verdicts are
/// float32 always. As --precision says; under `auto` where the processor multiplies tiles of
/// bfloat16 (AMX), a pass of `rows` rows is measured to be faster by a third at least, and no
/// budget of candidates asks for a campaign that repeats itself.
[[nodiscard]] bool proposes_in_bfloat16(const Model& model, const LoopOptions& options,
                                        int64_t rows);

}  // namespace grapeshot
