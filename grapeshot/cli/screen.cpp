#include "grapeshot/cli/screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "grapeshot/base/error.h"

namespace grapeshot::cli {
namespace {

// Below this the blocks have no room: a list instead.
constexpr int64_t kLeastColumns = 64, kLeastRows = 14;
constexpr int64_t kMostColumns = 110;                   // wider is no easier to read
constexpr int64_t kMostCounted = 8, kMostCriteria = 3;  // lines of these

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[96];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

std::string whole(int64_t n) {
  return std::to_string(n);
}

// One thing that is told: its label, and what there is to say.
struct Entry {
  std::string label;
  Text value;
};

constexpr int64_t kLabelWidth = 12;
constexpr int64_t kMostName = 30;  // of a run in a table

Text line_of(const Entry& entry, bool right) {
  const Text label(entry.label, Tint::kLabel);
  Text out;
  if (right) out.add(std::string(size_t(std::max<int64_t>(kLabelWidth - label.width(), 0)), ' '));
  out.add(label).add(right ? " : " : "  ", Tint::kLabel);
  return out.add(entry.value);
}

Panel panel(std::string title, const std::vector<Entry>& entries) {
  Panel out{std::move(title), {}};
  for (const Entry& each : entries) out.lines.push_back(line_of(each, true));
  return out;
}

// A point in time, in a run that goes on also how long ago that was.
Text moment(const std::optional<double>& at, const Standing& s) {
  if (!at || *at < 0.) return Text("none yet", Tint::kLabel);
  Text out(duration(*at));
  if (goes_on(s)) out.add(" (" + duration(std::max(s.seconds - *at, 0.)) + " ago)", Tint::kLabel);
  return out;
}

Entry run_time(const Standing& s) {
  Text value(duration(s.seconds));
  if (s.limit_s > 0.) value.add(" of " + duration(s.limit_s), Tint::kLabel);
  return {"run time", value};
}

Entry broken(const Standing& s) {
  Text value(whole(s.broken) + " broken", s.broken > 0 ? Tint::kBad : Tint::kPlain);
  value.add(", " + whole(s.left()) + " left");
  return {std::string(s.instances_are), value};
}

Entry distinct(const Standing& s) {
  Text value(s.distinct ? short_count(double(*s.distinct)) : "-");
  if (s.violations) value.add(" of " + short_count(double(*s.violations)), Tint::kLabel);
  return {s.command == "diff" ? "differences" : "distinct", value};
}

Entry speed(const Standing& s) {
  return {s.inputs_checked ? "checked" : "candidates",
          Text(short_count(s.rate_now) + "/s")
              .add(", mean " + short_count(s.mean_rate()) + "/s", Tint::kLabel)};
}

Entry candidates(const Standing& s) {
  Text value(short_count(double(s.candidates)));
  if (s.limit > 0) value.add(" of " + short_count(double(s.limit)), Tint::kLabel);
  if (s.inputs_checked) value.add(", " + short_count(s.candidates_now) + "/s", Tint::kLabel);
  return {"candidates", value};
}

std::string rows_of(const std::vector<int64_t>& batch) {
  if (batch.empty()) return "";
  const auto [least, most] = std::ranges::minmax(batch);
  return least == most ? whole(least) : whole(least) + "-" + whole(most);
}

Entry lanes(const Standing& s) {
  const std::string rows = rows_of(s.batch);
  return {"lanes, batch", s.lanes > 0 ? Text(whole(s.lanes) + " of " + rows + " rows") : Text("-")};
}

Entry memory(const Standing& s) {
  Text value(s.rss_mib ? format("%.0f MiB", *s.rss_mib) : "-");
  if (s.memory_mib > 0.) value.add(format(" (budget %.0f)", s.memory_mib), Tint::kLabel);
  return {"memory", value};
}

Entry closest(const Standing& s) {
  return {"closest", s.best_margin ? Text(format("%.4g", *s.best_margin)) : Text("-")};
}

Entry corpus(const Standing& s) {
  return {"corpus", s.corpus ? Text(short_count(double(*s.corpus)) + " inputs") : Text("-")};
}

Panel mutations(const Standing& s) {
  Panel out{"mutations", {}, true};
  if (s.mutations.empty()) {
    out.lines.emplace_back("not counted", Tint::kLabel);
    return out;
  }
  out.lines.push_back(Text("             share  found  hits gains", Tint::kLabel));
  int64_t all = 0;
  for (const MutationStanding& each : s.mutations) all += each.candidates;
  for (const MutationStanding& each : s.mutations) {
    Text line = Text(each.name).fit(11);
    line.add(
        format("%5.1f %%", 100. * double(each.candidates) / double(std::max<int64_t>(all, 1))));
    line.add(format("%7s", short_count(double(each.findings)).c_str()),
             each.findings > 0 ? Tint::kBad : Tint::kPlain);
    line.add(format("%6s", short_count(double(each.hits)).c_str()));
    line.add(format("%6s", short_count(double(each.gains)).c_str()));
    out.lines.push_back(line);
  }
  return out;
}

std::string bin_name(double end, bool last) {
  if (last) return "more";
  return "<= " + format("%g", end);
}

// The bins between the first and the last that hold something.
Panel margins(const Standing& s, int64_t width, Look look) {
  Panel out{"margins of those left", {}, true};
  const auto filled = [](const auto& bin) { return bin.second > 0; };
  const auto first = std::ranges::find_if(s.margins, filled);
  auto last = s.margins.end();
  while (last != first && !filled(*(last - 1))) --last;
  int64_t most = s.untried;
  for (const auto& [end, n] : s.margins) most = std::max(most, n);
  const int64_t room = std::max<int64_t>(width - 18, 4);
  const auto line = [&](const std::string& name, int64_t n) {
    Text text(format("%8s %6s ", name.c_str(), short_count(double(n)).c_str()));
    const double share = double(n) / double(std::max<int64_t>(most, 1));
    out.lines.push_back(text.add(bar(share, room, look), Tint::kGood));
  };
  for (auto bin = first; bin != last; ++bin) {
    line(bin_name(bin->first, !std::isfinite(bin->first)), bin->second);
  }
  if (s.untried > 0) line("untried", s.untried);
  if (out.lines.empty()) out.lines.emplace_back("none", Tint::kLabel);
  return out;
}

std::string value_of(const CoverageStanding& c) {
  return c.share ? format("%.4g %%", 100. * c.value) : format("%.6g", c.value);
}

Panel coverage(const Standing& s, int64_t width, Look look) {
  Panel out{"coverage", {}, true};
  const int64_t room = std::max<int64_t>((width - 30) / 2, 4);
  for (const CoverageStanding& each : s.coverage) {
    Text line = Text(each.name).fit(12);
    line.add(Text(format("%10s  ", value_of(each).c_str())));
    if (each.share) line.add(Text(bar(each.value, room, look), Tint::kGood).fit(room));
    // Against time, of the criterion that drives.
    if (&each == &s.coverage[0]) {
      line.add("  ").add(curve(s.coverage_curve.parts(size_t(room)), look), Tint::kGood);
    }
    out.lines.push_back(line);
  }
  if (out.lines.empty()) out.lines.emplace_back("none is counted", Tint::kLabel);
  return out;
}

Text title(const Standing& s) {
  Text out("grapeshot " + s.command, Tint::kTitle);
  const bool bad = s.state == RunState::kKilled || s.state == RunState::kInterrupted;
  const Tint tint = bad ? Tint::kNote : goes_on(s) ? Tint::kGood : Tint::kLabel;
  out.add("  (", tint).add(name_of(s.state), tint).add(")", tint);
  return out.add("  " + s.model);
}

// The most important first: what has no room is at the end.
std::vector<Text> listing(const Standing& s, ScreenSize size, Look look) {
  std::vector<Text> out = {title(s)};
  std::vector<Entry> entries = {run_time(s), broken(s),
                                speed(s),    {"last found", moment(s.last_s, s)},
                                distinct(s), closest(s)};
  for (const CoverageStanding& each : s.coverage) {
    const auto room = size_t(std::clamp<int64_t>(size.columns - 30, 0, 40));
    Text value(value_of(each));
    if (&each == &s.coverage[0]) {
      value.add("  ").add(curve(s.coverage_curve.parts(room), look), Tint::kGood);
    }
    entries.push_back({each.name, value});
  }
  entries.insert(entries.end(), {candidates(s), lanes(s), memory(s), corpus(s)});
  for (const Entry& each : entries)
    out.push_back(line_of({Text(each.label).fit(kLabelWidth).render({}), each.value}, false));
  return out;
}

std::vector<Text> blocks(const Standing& s, ScreenSize size, Look look) {
  const int64_t half = (size.columns - 3) / 2;
  std::vector<Entry> results = {broken(s), distinct(s)};
  if (s.borderline) results.push_back({"borderline", Text(short_count(double(*s.borderline)))});
  results.push_back(closest(s));
  std::vector<Band> bands;
  bands.push_back({{panel("process timing", {run_time(s),
                                             {"first found", moment(s.first_s, s)},
                                             {"last found", moment(s.last_s, s)},
                                             {"last gain", moment(s.gained_s, s)}}),
                    panel("overall results", results)},
                   4,
                   3});
  bands.push_back({{panel("speed", {speed(s), candidates(s), lanes(s)}),
                    panel("corpus and memory",
                          {corpus(s),
                           memory(s),
                           {"broken", Text(curve(s.broken_curve.parts(size_t(half - 20)), look),
                                           Tint::kBad)}})},
                   3,
                   2});
  if (!s.mutations.empty() || !s.margins.empty()) {
    const Panel left = mutations(s), right = margins(s, half, look);
    const auto rows = std::max(std::ssize(left.lines), std::ssize(right.lines));
    bands.push_back({{left, right}, std::min(rows, kMostCounted), 2});
  }
  const Panel last = coverage(s, size.columns - 4, look);
  bands.push_back({{last}, std::min<int64_t>(std::ssize(last.lines), kMostCriteria), 1});
  std::vector<Text> out = {title(s)};
  const ScreenSize rest{size.columns, size.rows - 1};
  for (Text& line : frame(std::move(bands), rest, look)) out.push_back(std::move(line));
  return out;
}

std::vector<std::string> rendered(std::vector<Text> lines, ScreenSize size, Look look) {
  std::vector<std::string> out;
  for (const Text& line : lines) {
    if (std::ssize(out) >= size.rows) break;
    out.push_back(line.fit(std::min(line.width(), size.columns)).render(look));
  }
  return out;
}

}  // namespace

std::string duration(double seconds) {
  const auto s = static_cast<long long>(std::clamp(seconds, 0., 1e12));
  if (seconds < 10.) return format("%.1f s", seconds);
  if (s < 60) return format("%lld s", s);
  if (s < 3600) return format("%lld min %lld s", s / 60, s % 60);
  if (s < 86400) return format("%lld h %lld min", s / 3600, s / 60 % 60);
  return format("%lld d %lld h", s / 86400, s / 3600 % 24);
}

std::string short_count(double count) {
  constexpr std::string_view kUnits = "kMGTPE";
  if (std::abs(count) < 1000.) return format("%.0f", count);
  size_t unit = 0;
  for (count /= 1000.; std::abs(count) >= 999.5 && unit + 1 < kUnits.size(); ++unit) count /= 1000.;
  return format(std::abs(count) < 9.995   ? "%.2f%c"
                : std::abs(count) < 99.95 ? "%.1f%c"
                                          : "%.0f%c",
                count, kUnits[unit]);
}

std::vector<std::string> draw_table(const std::vector<Standing>& runs, ScreenSize size, Look look) {
  using Row = std::vector<Text>;
  std::vector<Row> table;
  Row head;
  for (const char* name : {"run", "state", "time", "broken", "left", "speed", "distinct", "last"}) {
    head.emplace_back(name, Tint::kLabel);
  }
  table.push_back(head);
  const auto row_of = [](const Text& name, const Text& state, const Text& time, const Standing& s,
                         const std::string& last) {
    return Row{name,
               state,
               time,
               Text(whole(s.broken), s.broken > 0 ? Tint::kBad : Tint::kPlain),
               whole(s.left()),
               short_count(s.rate_now) + "/s",
               s.distinct ? short_count(double(*s.distinct)) : "-",
               last};
  };
  Standing all;
  int64_t at_work = 0;
  for (const Standing& s : runs) {
    table.push_back(row_of(s.folder, name_of(s.state), duration(s.seconds), s,
                           s.last_s && *s.last_s >= 0. ? duration(*s.last_s) : "-"));
    all.instances += s.instances;
    all.broken += s.broken;
    all.seconds += s.seconds;
    all.distinct = all.distinct.value_or(0) + s.distinct.value_or(0);
    if (!goes_on(s)) continue;
    ++at_work;
    all.rate_now += s.rate_now;
  }
  if (runs.size() > 1) {
    table.push_back(row_of("all " + std::to_string(runs.size()), whole(at_work) + " running",
                           duration(all.seconds), all, ""));
  }
  std::vector<Text> lines(table.size());
  for (size_t column = 0; column < head.size(); ++column) {
    int64_t width = 0;
    for (const Row& row : table) width = std::max(width, row[column].width());
    if (column == 0) width = std::min(width, kMostName);
    const int64_t gap = column > 0 ? 2 : 0;
    if (lines[0].width() + gap + width > size.columns) break;  // no room for more
    for (size_t i = 0; i < table.size(); ++i) {
      lines[i].add(std::string(static_cast<size_t>(gap), ' ')).add(table[i][column].fit(width));
    }
  }
  return rendered(std::move(lines), size, look);
}

std::vector<std::string> draw(const Standing& standing, ScreenSize size, Look look,
                              const std::string& note) {
  size.columns = std::clamp<int64_t>(size.columns, 1, kMostColumns);
  size.rows = std::max<int64_t>(size.rows, 1);
  ScreenSize rest = size;
  if (!note.empty() && rest.rows > 1) --rest.rows;
  std::vector<Text> lines = size.columns < kLeastColumns || rest.rows < kLeastRows
                                ? listing(standing, rest, look)
                                : blocks(standing, rest, look);
  if (std::ssize(lines) > rest.rows) lines.resize(static_cast<size_t>(rest.rows));
  if (rest.rows < size.rows) lines.emplace_back(note, Tint::kNote);
  return rendered(std::move(lines), size, look);
}

}  // namespace grapeshot::cli
