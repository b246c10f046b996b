#include "grapeshot/cli/canvas.h"

#include <algorithm>
#include <cmath>

namespace grapeshot::cli {
namespace {

// Whether the byte begins a character of UTF-8.
bool begins(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

std::string_view sequence(Tint tint) {
  switch (tint) {
    case Tint::kPlain:
      return "";
    case Tint::kFrame:
      return "\x1b[2m";
    case Tint::kTitle:
      return "\x1b[1;36m";
    case Tint::kLabel:
      return "\x1b[2m";
    case Tint::kGood:
      return "\x1b[32m";
    case Tint::kBad:
      return "\x1b[1;31m";
    case Tint::kNote:
      return "\x1b[33m";
  }
  return "";
}

struct Frame {
  std::string_view across, down, top_left, top, top_right, left, cross, right, bottom_left, bottom,
      bottom_right;
};
constexpr Frame kUnicode = {"─", "│", "┌", "┬", "┐", "├", "┼", "┤", "└", "┴", "┘"};
constexpr Frame kAscii = {"-", "|", "+", "+", "+", "+", "+", "+", "+", "+", "+"};

std::string repeat(std::string_view text, int64_t n) {
  std::string out;
  for (int64_t i = 0; i < n; ++i) out += text;
  return out;
}

int64_t height(const std::vector<Band>& bands) {
  int64_t out = 1;
  for (const Band& band : bands) out += 1 + band.rows;
  return out;
}

// What a horizontal rule has above or below it: where the middle bar is, or nowhere.
bool halved(const Band* band) {
  return band != nullptr && band->panels.size() == 2;
}

Text rule(const Band* above, const Band* below, int64_t left, int64_t right, const Frame& f) {
  const bool up = halved(above), down = halved(below);
  const std::string_view middle =
      up && down ? f.cross : (down ? f.top : (up ? f.bottom : f.across));
  Text out;
  const auto part = [&](int64_t width, const Panel* panel) {
    const std::string title = panel ? " " + panel->title + " " : "";
    const int64_t rest = width - 1 - Text(title).width();
    if (title.empty() || rest < 0) return (void)out.add(repeat(f.across, width), Tint::kFrame);
    out.add(f.across, Tint::kFrame).add(title, Tint::kTitle);
    out.add(repeat(f.across, rest), Tint::kFrame);
  };
  out.add(above ? (below ? f.left : f.bottom_left) : f.top_left, Tint::kFrame);
  if (!up && !down) {
    part(left + 1 + right, below ? &below->panels[0] : nullptr);
  } else {
    part(left, below ? &below->panels[0] : nullptr);
    out.add(middle, Tint::kFrame);
    part(right, down ? &below->panels[1] : nullptr);
  }
  return out.add(above ? (below ? f.right : f.bottom_right) : f.top_right, Tint::kFrame);
}

Text panel_line(const Panel& panel, size_t row, size_t rows) {
  if (row >= panel.lines.size()) return {};
  if (panel.counts_rest && row + 1 == rows && panel.lines.size() > rows) {
    return {"and " + std::to_string(panel.lines.size() - row) + " more", Tint::kLabel};
  }
  return panel.lines[row];
}

}  // namespace

void Text::put(std::string_view text, Tint tint) {
  if (text.empty()) return;
  width_ += std::ranges::count_if(text, begins);
  if (!pieces_.empty() && pieces_.back().tint == tint) {
    pieces_.back().text += text;
  } else {
    pieces_.push_back({std::string(text), tint});
  }
}

Text& Text::add(const Text& more) {
  for (const Piece& piece : more.pieces_) put(piece.text, piece.tint);
  return *this;
}

Text Text::fit(int64_t width) const {
  Text out;
  int64_t left = std::max<int64_t>(width, 0);
  for (const Piece& piece : pieces_) {
    size_t end = 0;
    while (end < piece.text.size() && (left > 0 || !begins(piece.text[end]))) {
      if (begins(piece.text[end++])) --left;
    }
    out.add(std::string_view(piece.text).substr(0, end), piece.tint);
    if (end < piece.text.size()) break;
  }
  return out.add(std::string(static_cast<size_t>(left), ' '));
}

std::string Text::render(Look look) const {
  std::string out;
  for (const Piece& piece : pieces_) {
    const std::string_view tint = look.colour ? sequence(piece.tint) : "";
    out += tint;
    out += piece.text;
    if (!tint.empty()) out += "\x1b[0m";
  }
  return out;
}

std::vector<Text> frame(std::vector<Band> bands, ScreenSize size, Look look) {
  const Frame& f = look.unicode ? kUnicode : kAscii;
  while (height(bands) > size.rows && !bands.empty()) {
    const auto tallest =
        std::ranges::max_element(bands, {}, [](const Band& b) { return b.rows - b.least; });
    if (tallest->rows > tallest->least) {
      --tallest->rows;
    } else {
      bands.pop_back();
    }
  }
  const int64_t inner = size.columns - 3;
  const int64_t left = inner / 2, right = inner - left;
  std::vector<Text> out;
  for (size_t i = 0; i <= bands.size(); ++i) {
    const Band* above = i > 0 ? &bands[i - 1] : nullptr;
    const Band* below = i < bands.size() ? &bands[i] : nullptr;
    if (above || below) out.push_back(rule(above, below, left, right, f));
    for (size_t row = 0; below && row < static_cast<size_t>(below->rows); ++row) {
      Text line;
      for (size_t k = 0; k < below->panels.size(); ++k) {
        const Panel& panel = below->panels[k];
        const int64_t width = halved(below) ? (k == 0 ? left : right) : inner + 1;
        line.add(f.down, Tint::kFrame).add(" ");
        line.add(panel_line(panel, row, static_cast<size_t>(below->rows)).fit(width - 1));
      }
      out.push_back(line.add(f.down, Tint::kFrame));
    }
  }
  return out;
}

std::string bar(double share, int64_t width, Look look) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double cells = std::clamp(share, 0., 1.) * static_cast<double>(width);
  const auto full = static_cast<int64_t>(cells);
  if (!look.unicode) return repeat("#", std::llround(cells));
  const auto rest = static_cast<size_t>((cells - static_cast<double>(full)) * 8.);
  return repeat("█", full) + std::string(kEighths[rest]);
}

std::string curve(const std::vector<double>& values, Look look) {
  constexpr std::string_view kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view kAsciiHeights[] = {"_", ".", "-", "=", "+", "*", "#", "@"};
  double most = 0.;
  for (const double value : values) most = std::max(most, value);
  std::string out;
  for (const double value : values) {
    const double share = most > 0. ? std::clamp(value / most, 0., 1.) : 0.;
    const auto level = std::min<size_t>(static_cast<size_t>(share * 8.), 7);
    out += look.unicode ? kHeights[level] : kAsciiHeights[level];
  }
  return out;
}

}  // namespace grapeshot::cli
