#include "grapeshot/cli/run_reader.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/file_lock.h"
#include "tests/support/files.h"
#include "tests/support/runs.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::cli;      // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

namespace fs = std::filesystem;

// A run folder in a place of its own.
class Folder {
 public:
  Folder() {
    fs::create_directories(path());
    write("run.json", run_json(45).dump());
  }
  [[nodiscard]] std::string path() const { return temporary_.file("run"); }
  [[nodiscard]] std::string at(const std::string& name) const { return path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
  }
  void append(const std::string& text) const {
    std::ofstream(at("stats.jsonl"), std::ios::app | std::ios::binary) << text;
  }
  void summarize(double seconds, bool interrupted) const {
    nlohmann::json summary = stats_line(seconds, 9);
    summary["interrupted"] = interrupted;
    write("summary.json", summary.dump());
  }

 private:
  TemporaryFolder temporary_;
};

std::string line(double seconds, int64_t broken) {
  return stats_line(seconds, broken).dump() + "\n";
}

}  // namespace

TEST_CASE("RunReader: running while the folder's lock is held, whatever else is there") {
  const Folder folder;
  RunReader reader(folder.path());
  std::optional<FileLock> lock(folder.at("lock"));
  CHECK(reader.read().state == RunState::kStarting);
  CHECK(reader.read().instances == 45);
  folder.append(line(1., 2));
  CHECK(reader.read().state == RunState::kRunning);
  CHECK(reader.read().broken == 2);
  folder.summarize(0.5, false);  // of an earlier time: it was resumed
  CHECK(reader.read().state == RunState::kRunning);
  CHECK(reader.to_json()["state"] == "running");
  lock.reset();
  CHECK(reader.read().state == RunState::kKilled);
  folder.summarize(1.5, true);
  CHECK(reader.read().state == RunState::kInterrupted);
  folder.summarize(1.5, false);
  CHECK(reader.read().state == RunState::kEnded);
  CHECK(reader.read().broken == 9);
  CHECK(reader.to_json()["instances_falsified"] == 9);
  CHECK(FileLock(folder.at("lock")).held());  // looking does not keep it
}

TEST_CASE("RunReader: half a line is none until the rest has come") {
  const Folder folder;
  RunReader reader(folder.path());
  const std::string second = line(2., 3);
  folder.append(line(1., 2) + second.substr(0, 50));
  CHECK(reader.read().broken == 2);
  folder.append(second.substr(50));
  CHECK(reader.read().broken == 3);
  CHECK(reader.read().seconds == 2.);
}

TEST_CASE("RunReader: many lines at once, and a file that has become shorter") {
  const Folder folder;
  RunReader reader(folder.path());
  std::string text;
  for (int k = 1; k <= 5000; ++k) text += line(k, k % 40);
  REQUIRE(text.size() > size_t{2} << 20);
  folder.append(text);
  CHECK(reader.read().seconds == 5000.);
  folder.write("stats.jsonl", line(3., 1));
  CHECK(reader.read().seconds == 3.);
  CHECK(reader.read().broken == 1);
}

TEST_CASE("RunReader: what is damaged is named with its line") {
  const auto message = [](const std::string& text) {
    const Folder folder;
    RunReader reader(folder.path());
    folder.append(line(1., 2) + text + "\n" + line(2., 3));
    const Error error = error_of([&] { (void)reader.read(); });
    CHECK(error.code() == ErrorCode::kParse);
    return std::string(error.what());
  };
  CHECK(message("{\"seconds\": 1").find("stats.jsonl:2: not a JSON object") != std::string::npos);
  CHECK(message("7").find("stats.jsonl:2: not a JSON object") != std::string::npos);
  CHECK(message(R"({"candidates": 1.5})").find("stats.jsonl:2: candidates") != std::string::npos);
  CHECK(message(std::string(size_t{17} << 20, ' ')).find("longer than a line") !=
        std::string::npos);
}

TEST_CASE("RunReader: no run folder, and a run.json that is none") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(RunReader(folder.path() + "/nowhere"), doctest::Contains("no run folder"),
                       Error);
  folder.write("run.json", "{");
  CHECK_THROWS_WITH_AS(RunReader(folder.path()), doctest::Contains("run.json:1:2"), Error);
  folder.write("run.json", "{\"command\": \"other\"}");
  CHECK_THROWS_AS(RunReader(folder.path()), Error);
}

TEST_CASE("run_folders: a run itself, or the runs in a folder") {
  const Folder folder;
  CHECK(run_folders(folder.path()) == std::vector<std::string>{folder.path()});
  const std::string above = fs::path(folder.path()).parent_path().string();
  CHECK(run_folders(above) == std::vector<std::string>{folder.path()});
  CHECK_THROWS_WITH_AS((void)run_folders(above + "/nowhere"), doctest::Contains("no run folder"),
                       Error);
}
