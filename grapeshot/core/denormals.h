// grapeshot/core/denormals.h: denormal numbers as zero, while proposing only.
#pragma once

namespace grapeshot {

/// While it lives the calling thread flushes denormals to zero (surrogate gradients through
/// saturated outputs are full of them, and they are some ten times slower), or does not. Restores
/// what was set.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool flush);
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_ = 0;
};

}  // namespace grapeshot
