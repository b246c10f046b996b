// grapeshot/cli/data_box.h: how far inputs of --data may go: --eps, --eps-file, --low, --high.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "grapeshot/cli/data_rows.h"
#include "grapeshot/core/property.h"

namespace grapeshot::cli {

/// All in data units. Lists are as --mean has them; "" means no bound.
struct DataBoxOptions {
  std::string eps_file;  ///< radii, one for each input: a data set of one row, by column names
  std::string low, high;
};

class DataBoxes {
 public:
  /// `rows` must outlive it. Throws Error naming the option or the file that does not fit, and the
  /// row that is out of bounds itself.
  DataBoxes(const DataBoxOptions& options, const DataRows& rows);

  /// The box of `row` within `eps`, or within the radii of the file, cut to the valid range; in
  /// network units, rounded inwards. What may not move is the nearest float32.
  [[nodiscard]] Box box(int64_t row, double eps) const;

 private:
  void read_radii(const std::string& place);
  void check_rows() const;

  const DataRows& rows_;
  at::Tensor radius_, low_, high_;  ///< [D] float64; or none
};

/// Fixes input `i` of the box at `x`, network units: what is no float32 is the nearest one.
void fix(Box& box, size_t i, double x);

}  // namespace grapeshot::cli
