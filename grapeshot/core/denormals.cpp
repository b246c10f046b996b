#include "grapeshot/core/denormals.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace grapeshot {

#if defined(__x86_64__)
namespace {
constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
}

FlushDenormals::FlushDenormals(bool flush) : before_(_mm_getcsr()) {
  constexpr unsigned kBoth = kFlushToZero | kDenormalsAreZero;
  _mm_setcsr(flush ? before_ | kBoth : before_ & ~kBoth);
}

FlushDenormals::~FlushDenormals() {
  _mm_setcsr(before_);
}
#else
// Elsewhere denormals stay: slower, not wrong.
FlushDenormals::FlushDenormals(bool) {}
FlushDenormals::~FlushDenormals() = default;
#endif

}  // namespace grapeshot
