// grapeshot/io/onnx/rounds.h: counts the subgraphs that one node runs at all depths, since loops of
// a damaged file would hang.
#pragma once

namespace grapeshot::onnx {

/// On the stack while a node with subgraphs runs; those inside of it go on counting. One count a
/// thread.
class Rounds {
 public:
  Rounds();
  ~Rounds();
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  /// One more; throws kUnsupported after 2^14.
  static void count();
};

}  // namespace grapeshot::onnx
