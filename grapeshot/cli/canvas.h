// grapeshot/cli/canvas.h: tinted text of a known width, and what a screen is put together from.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace grapeshot::cli {

/// What a terminal can show.
struct Look {
  bool colour = false;   ///< escape sequences of ECMA-48's SGR
  bool unicode = false;  ///< frames, bars and curves of UTF-8 instead of ASCII
};

struct ScreenSize {
  int64_t columns = 80, rows = 24;
  bool operator==(const ScreenSize&) const = default;
};

enum class Tint { kPlain, kFrame, kTitle, kLabel, kGood, kBad, kNote };

/// Pieces of text, each of one tint. A character is one column: texts of others go through
/// printable() before.
class Text {
 public:
  Text() = default;
  template <std::convertible_to<std::string_view> Source>
  Text(const Source& text, Tint tint = Tint::kPlain) {  // NOLINT(google-explicit-constructor)
    put(text, tint);
  }

  template <std::convertible_to<std::string_view> Source>
  Text& add(const Source& text, Tint tint = Tint::kPlain) {
    put(text, tint);
    return *this;
  }
  Text& add(const Text& more);
  [[nodiscard]] int64_t width() const { return width_; }
  /// Cut, or filled with spaces behind, to `width` columns.
  [[nodiscard]] Text fit(int64_t width) const;
  [[nodiscard]] std::string render(Look look) const;

 private:
  void put(std::string_view text, Tint tint);

  struct Piece {
    std::string text;
    Tint tint;
  };
  std::vector<Piece> pieces_;
  int64_t width_ = 0;
};

/// A titled block of lines.
struct Panel {
  std::string title;
  std::vector<Text> lines;
  bool counts_rest = false;  ///< where not all lines have room the last one says how many more
};

/// One panel, or two side by side, of `rows` lines; fewer, down to `least`, where there is no room.
struct Band {
  std::vector<Panel> panels;
  int64_t rows = 0, least = 0;
};

/// Framed bands one below the other in `size`, with what gives way given way: rows of the tallest
/// first, then the last bands.
[[nodiscard]] std::vector<Text> frame(std::vector<Band> bands, ScreenSize size, Look look);

/// `share` (0 to 1) of `width` columns, filled.
[[nodiscard]] std::string bar(double share, int64_t width, Look look);
/// Values from 0 up, a column each, the largest of them the highest.
[[nodiscard]] std::string curve(const std::vector<double>& values, Look look);

}  // namespace grapeshot::cli
