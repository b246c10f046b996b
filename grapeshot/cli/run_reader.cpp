#include "grapeshot/cli/run_reader.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/io/file_lock.h"
#include "grapeshot/io/properties/field.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;
using properties::Field;

constexpr size_t kPiece = size_t{1} << 20, kLongestLine = size_t{16} << 20;

bool holds_run(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path / "run.json", failure);
}

}  // namespace

RunReader::RunReader(const std::string& path) : path_(fs::absolute(path).lexically_normal()) {
  GRAPESHOT_CHECK(holds_run(path_), kNotFound, path, ": no run folder (no run.json in it)");
  begin();
}

void RunReader::begin() {
  const std::string file = (path_ / "run.json").string();
  begun_ = fs::last_write_time(file);
  const json run = read_json(file);
  standing_.begin(Field(run, file));
  const fs::path name =
      path_.filename().empty() ? path_.parent_path().filename() : path_.filename();
  standing_.folder = printable(name.string(), 80);
}

const Standing& RunReader::read() {
  // First: what a run that has ended wrote is there then.
  const bool runs = FileLock::is_taken((path_ / "lock").string());
  if (fs::last_write_time(path_ / "run.json") != begun_) begin();
  read_stats();
  if (runs) {
    standing_.state = line_ > 0 ? RunState::kRunning : RunState::kStarting;
    return standing_;
  }
  standing_.state = RunState::kKilled;
  const std::string file = (path_ / "summary.json").string();
  if (!fs::is_regular_file(file)) return standing_;
  const json summary = read_json(file);
  const Field of(summary, file);
  // One from before it was resumed is not of its end.
  if (of.at("seconds").number() < standing_.seconds) return standing_;
  standing_.take(of);
  latest_ = ordered_json(summary);
  standing_.state =
      json_field<bool>(summary, "interrupted", file) ? RunState::kInterrupted : RunState::kEnded;
  return standing_;
}

void RunReader::read_stats() {
  const fs::path file = path_ / "stats.jsonl";
  if (!fs::is_regular_file(file)) return;
  if (fs::file_size(file) < offset_) {  // another run in the same place, or half a line cut off
    offset_ = 0;
    line_ = 0;
    standing_ = {};
    begin();
  }
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset_));
  std::string text(kPiece, '\0'), rest;
  while (in.read(text.data(), static_cast<std::streamsize>(kPiece)), in.gcount() > 0) {
    rest.append(text, 0, static_cast<size_t>(in.gcount()));
    size_t begin = 0;
    for (size_t end; (end = rest.find('\n', begin)) != rest.npos; begin = end + 1) {
      take_line(rest.substr(begin, end - begin));
    }
    offset_ += begin;
    rest.erase(0, begin);  // the last one may not be whole yet
    GRAPESHOT_CHECK(rest.size() < kLongestLine, kParse, file.string(), ":", line_ + 1,
                    ": longer than a line of stats can be");
  }
}

void RunReader::take_line(const std::string& text) {
  const std::string where = str((path_ / "stats.jsonl").string(), ":", ++line_);
  const json line = json::parse(text, nullptr, false);
  GRAPESHOT_CHECK(line.is_object(), kParse, where, ": not a JSON object");
  standing_.take(Field(line, where));
  latest_ = ordered_json(line);
}

ordered_json RunReader::to_json() const {
  ordered_json out = {{"run", path_.string()},
                      {"command", standing_.command},
                      {"state", name_of(standing_.state)},
                      {"inputs_checked_per_s_now", standing_.rate_now}};
  if (latest_.is_object()) {
    for (const auto& [key, value] : latest_.items()) {
      if (!out.contains(key)) out[key] = value;
    }
  }
  return out;
}

std::vector<std::string> run_folders(const std::string& path) {
  if (holds_run(path)) return {path};
  std::vector<std::string> out;
  std::error_code failure;
  for (const fs::directory_entry& each : fs::directory_iterator(path, failure)) {
    if (holds_run(each.path())) out.push_back(each.path().string());
  }
  GRAPESHOT_CHECK(!out.empty(), kNotFound, path,
                  ": no run folder (no run.json in it), nor a folder "
                  "of such");
  std::ranges::sort(out);
  return out;
}

}  // namespace grapeshot::cli
