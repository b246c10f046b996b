// grapeshot/cli/cmd_vnncomp.cpp: `grapeshot vnncomp`: whole benchmark folders.
//
// Every instance is a process of its own, `grapeshot falsify`, as in the competition: times include
// the start-up, and nothing that happens to one instance touches another.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/vnncomp_report.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/instances.h"
#include "grapeshot/io/vnncomp.h"
#include "grapeshot/proc/child.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Beyond its limit a child has this long to answer before it is killed.
constexpr double kGrace_s = 30.;

std::string relative_to(const std::string& path, const fs::path& folder) {
  std::string out = fs::path(path).lexically_relative(fs::absolute(folder).lexically_normal());
  return out.ends_with(".gz") ? out.substr(0, out.size() - 3) : out;
}

// FOLDER itself when it has an instances.csv, else those of its folders that have one.
std::vector<fs::path> category_folders(const std::vector<std::string>& folders) {
  std::vector<fs::path> out;
  for (const std::string& folder : folders) {
    GRAPESHOT_CHECK(fs::is_directory(folder), kNotFound, folder, ": no such folder");
    if (fs::exists(fs::path(folder) / "instances.csv")) {
      out.emplace_back(folder);
      continue;
    }
    const size_t before = out.size();
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (fs::exists(entry.path() / "instances.csv")) out.push_back(entry.path());
    }
    GRAPESHOT_CHECK(out.size() > before, kNotFound, folder,
                    ": neither it nor a folder in it has an instances.csv");
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
  }
  return out;
}

// "sat=60,unknown=10,unsat=5"
std::map<std::string, double> parse_timeouts(const std::string& text) {
  std::map<std::string, double> out;
  for (const std::string_view pair : split_at(',', text)) {
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view number = pair.substr(std::min(equals + 1, pair.size()));
    const std::optional<Decimal> seconds = parse_decimal(number);
    GRAPESHOT_CHECK(equals > 0 && seconds && seconds->nearest >= 0., kInvalidArgument,
                    "--timeouts: '", pair, "' is not of the form verdict=seconds");
    out[std::string(pair.substr(0, equals))] = seconds->nearest;
  }
  return out;
}

std::string csv_field(std::string text) {
  std::ranges::replace(text, ',', ';');
  std::ranges::replace(text, '\n', ' ');
  return text;
}

struct VnncompCommand {
  std::vector<std::string> folders;
  std::string timeouts, csv, results, witnesses, confirm = "auto", attacks = "all";
  double timeout = 0.;
  uint64_t seed = 0;
  int64_t jobs = 0, limit = 0;
  bool resume = false;
  CommonOptions common;

  [[nodiscard]] std::vector<Task> read_tasks() const {
    const std::map<std::string, double> by_verdict = parse_timeouts(timeouts);
    std::vector<Task> tasks;
    for (const fs::path& folder : category_folders(folders)) {
      std::vector<VerdictRow> expected;
      const fs::path known = folder / "expected.csv";
      if (fs::exists(known)) expected = parse_expected(read_file(known.string()), known.string());
      const std::string category =
          fs::absolute(folder).lexically_normal().filename().empty()
              ? fs::absolute(folder).lexically_normal().parent_path().filename().string()
              : fs::absolute(folder).lexically_normal().filename().string();
      int64_t taken = 0;
      for (const InstanceRow& row : read_instances((folder / "instances.csv").string())) {
        if (limit > 0 && taken++ >= limit) break;
        Task task{.category = category,
                  .files = row,
                  .model = relative_to(row.model, folder),
                  .spec = relative_to(row.spec, folder)};
        if (const VerdictRow* verdict = find_expected(expected, task)) {
          task.expected = verdict->verdict;
          task.best_tool = verdict->tool;
          task.best_s = verdict->seconds;
        }
        const auto own = by_verdict.find(task.expected);
        task.timeout_s = own != by_verdict.end() ? own->second
                         : timeout > 0.          ? timeout
                                                 : row.timeout_s;
        tasks.push_back(std::move(task));
      }
    }
    return tasks;
  }

  // The row with these very names, else the first whose names end alike.
  static const VerdictRow* find_expected(const std::vector<VerdictRow>& rows, const Task& task) {
    const VerdictRow* found = nullptr;
    for (const VerdictRow& each : rows) {
      if (each.model == task.model && each.spec == task.spec) return &each;
      const bool alike =
          same_file_name(each.model, task.model) && same_file_name(each.spec, task.spec);
      if (alike && !found) found = &each;
    }
    return found;
  }

  // The instance that a row of another tool is about; null when there is none, or several that
  // nothing tells apart.
  static const Task* find_task(const std::vector<Task>& tasks, const VerdictRow& row) {
    const Task* found = nullptr;
    int64_t alike = 0, certain = 0;
    for (const Task& task : tasks) {
      if (!same_file_name(row.model, task.model) || !same_file_name(row.spec, task.spec)) continue;
      const bool named = row.category == task.category ||
                         row.model.find("/" + task.category + "/") != std::string::npos ||
                         row.model.starts_with(task.category + "/");
      ++alike;
      certain += named ? 1 : 0;
      if (!found || (named && certain == 1)) found = &task;
    }
    return certain == 1 || (certain == 0 && alike == 1) ? found : nullptr;
  }

  // Those that the other tool calls proven.
  [[nodiscard]] std::vector<Task> claimed(const std::vector<Task>& tasks) const {
    std::vector<Task> out;
    int64_t unmatched = 0;
    for (const VerdictRow& row : parse_results(read_file(results), results)) {
      if (row.verdict != "unsat") continue;
      const Task* task = find_task(tasks, row);
      if (!task) {
        ++unmatched;
        continue;
      }
      out.push_back(*task);
      out.back().expected = "unsat";
      out.back().best_tool = "";
      out.back().best_s = row.seconds;
    }
    if (unmatched > 0) {
      std::cerr << "grapeshot: note: " << results << ": " << unmatched
                << " of its rows name no instance of these folders, or more than one\n";
    }
    GRAPESHOT_CHECK(!out.empty(), kInvalidArgument, results,
                    ": calls no instance of these folders unsat");
    return out;
  }

  // The same for the same instance, whatever else is run.
  static std::string witness_name(const Task& task) {
    std::string out = task.category + "-" + fs::path(task.model).stem().string() + "-" +
                      fs::path(task.spec).stem().string();
    out += str("-", std::hex, std::hash<std::string>{}(task.files.model + "," + task.files.spec));
    return out + ".counterexample";
  }

  [[nodiscard]] Outcome run_one(const Task& task, int64_t threads,
                                const std::atomic<bool>& stop) const {
    Outcome out;
    const std::string path = (fs::path(witnesses) / witness_name(task)).string();
    const std::vector<std::string> command = {own_program(),    "falsify",
                                              task.files.model, task.files.spec,
                                              "--timeout",      str(task.timeout_s),
                                              "--threads",      str(threads),
                                              "--seed",         str(seed),
                                              "--confirm",      confirm,
                                              "--attacks",      attacks,
                                              "--witness",      path,
                                              "--json"};
    const ChildResult child = run_child(command, task.timeout_s + kGrace_s, &stop);
    out.wall_s = child.seconds;
    if (stop) {
      out.answer = "interrupted";
      return out;
    }
    const json said = json::parse(child.out, nullptr, /*allow_exceptions=*/false);
    if (said.is_discarded() || !said.contains("answer")) {
      out.answer = "error";
      const size_t end = child.err.find('\n');
      out.message = child.timed_out
                        ? str("killed after ", child.seconds, " s")
                        : str("exit status ", child.status, " ", child.err.substr(0, end));
      return out;
    }
    out.answer = said["answer"];
    out.start_up_s = said.value("start_up_s", 0.);
    if (said.contains("best_margin") && said["best_margin"].is_number()) {
      out.margin = said["best_margin"];
    }
    out.attack = said.value("attack", "");
    if (out.answer == "sat") out.witness = path;
    return out;
  }

  [[nodiscard]] static std::string csv_row(const Task& t, const Outcome& o) {
    return str(csv_field(t.category), ",", csv_field(t.model), ",", csv_field(t.spec), ",",
               t.expected, ",", t.timeout_s, ",", o.answer, ",", o.wall_s, ",", o.start_up_s, ",",
               std::isnan(o.margin) ? std::string() : str(o.margin), ",", o.attack, ",",
               t.best_tool, ",", t.best_s ? str(*t.best_s) : std::string(), ",",
               csv_field(o.witness), ",", csv_field(o.message), "\n");
  }
  static constexpr const char* kHeader =
      "category,onnx,vnnlib,expected,timeout_s,answer,wall_s,start_up_s,margin,attack,best_tool,"
      "best_time_s,witness,message\n";

  struct Earlier {
    Outcome outcome;
    std::string line;
  };

  // Rows of an earlier run by category, onnx and vnnlib.
  [[nodiscard]] std::map<std::string, Earlier> earlier() const {
    std::map<std::string, Earlier> out;
    if (!resume || csv.empty() || !fs::exists(csv)) return out;
    std::istringstream text(read_file(csv));
    for (std::string line; std::getline(text, line);) {
      std::vector<std::string> f;
      std::istringstream fields(line);
      for (std::string field; std::getline(fields, field, ',');) f.push_back(field);
      if (f.size() < 9 || f[0] == "category") continue;
      Outcome o;
      o.answer = f[5];
      o.wall_s = std::strtod(f[6].c_str(), nullptr);
      o.start_up_s = std::strtod(f[7].c_str(), nullptr);
      if (!f[8].empty()) o.margin = std::strtod(f[8].c_str(), nullptr);
      if (f.size() > 9) o.attack = f[9];
      if (f.size() > 12) o.witness = f[12];
      if (f.size() > 13) o.message = f[13];
      if (o.answer != "interrupted") out[f[0] + "," + f[1] + "," + f[2]] = {o, line};
    }
    return out;
  }

  int run() {
    const std::atomic<bool>& stop = stop_on_interrupt();
    std::vector<Task> tasks = read_tasks();
    if (!results.empty()) tasks = claimed(tasks);
    const bool own_folder = witnesses.empty();
    if (own_folder) witnesses = csv.empty() ? "grapeshot-out/witnesses" : csv + ".witnesses";
    fs::create_directories(witnesses);
    const int64_t cores = core_count();
    const int64_t lanes = std::min<int64_t>(jobs > 0 ? jobs : cores, std::ssize(tasks));
    const int64_t threads = std::max<int64_t>(1, cores / lanes);
    std::vector<Outcome> outcomes(tasks.size());
    std::map<std::string, Earlier> before = earlier();
    const auto key = [](const Task& t) {
      return csv_field(t.category) + "," + csv_field(t.model) + "," + csv_field(t.spec);
    };
    std::ofstream rows;
    if (!csv.empty()) {
      rows.open(csv, std::ios::trunc);
      GRAPESHOT_CHECK(rows.is_open(), kSystem, csv, ": cannot be written");
      rows << kHeader;
      // What belongs to other folders stays.
      std::set<std::string> own;
      for (const Task& task : tasks) own.insert(key(task));
      for (const auto& [name, row] : before) {
        if (!own.contains(name)) rows << row.line << "\n";
      }
      rows << std::flush;
    }
    std::mutex mutex;
    size_t next = 0, done = 0;
    const Clock::time_point start = Clock::now();
    std::exception_ptr failure;
    const auto work = [&] {
      while (!stop) {
        size_t i = 0;
        {
          const std::lock_guard lock(mutex);
          if (next >= tasks.size() || failure) return;
          i = next++;
        }
        const auto old = before.find(key(tasks[i]));
        Outcome outcome;
        try {
          outcome = old != before.end() ? old->second.outcome : run_one(tasks[i], threads, stop);
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
          return;
        }
        const std::lock_guard lock(mutex);
        outcomes[i] = std::move(outcome);
        ++done;
        if (rows.is_open()) rows << csv_row(tasks[i], outcomes[i]) << std::flush;
        if (!common.quiet) log(tasks[i], outcomes[i], done, tasks.size(), seconds_since(start));
      }
    };
    std::vector<std::thread> workers;
    for (int64_t i = 0; i < lanes; ++i) workers.emplace_back(work);
    for (std::thread& worker : workers) worker.join();
    if (failure) std::rethrow_exception(failure);
    return report(tasks, outcomes, seconds_since(start), stop);
  }

  static void log(const Task& t, const Outcome& o, size_t done, size_t all, double seconds) {
    const bool odd = (t.expected == "sat" && o.answer != "sat") ||
                     (t.expected != "sat" && o.answer == "sat") || o.answer == "error";
    if (!odd && done != all && done % 50 != 0) return;
    std::fprintf(stderr, "%4zu of %zu, %.0f s: %s %s %s: %s, expected %s%s%s\n", done, all, seconds,
                 t.category.c_str(), t.model.c_str(), t.spec.c_str(), o.answer.c_str(),
                 t.expected.c_str(), o.message.empty() ? "" : ": ", o.message.c_str());
  }

  int report(const std::vector<Task>& tasks, const std::vector<Outcome>& outcomes, double seconds,
             bool interrupted) const {
    VnncompReport report = make_report(tasks, outcomes);
    report.seconds = seconds;
    report.interrupted = interrupted;
    report.of_a_tool = !results.empty();
    report.witnesses = witnesses;
    if (common.json) {
      std::cout << to_json(report).dump(2) << "\n";
    } else {
      print(report);
    }
    const Line& total = report.total;
    return total.sat_broken + total.unsat_broken + total.unknown_broken > 0 ? kFound
                                                                            : kNothingFound;
  }
};

}  // namespace

Action declare_vnncomp(CLI::App& app) {
  auto c = std::make_shared<VnncompCommand>();
  app.add_option("FOLDER", c->folders,
                 "Benchmark folders with an instances.csv, or folders of such folders")
      ->required();
  app.add_option("--timeouts", c->timeouts,
                 "Seconds by what expected.csv says, such as sat=60,unknown=10,unsat=5");
  app.add_option("--timeout", c->timeout, "Seconds for all others (default: instances.csv's own)");
  app.add_option("--csv", c->csv, "A row per instance, written as they end");
  app.add_option("--results", c->results,
                 "Another tool's results.csv: try to break what it calls unsat (or holds)");
  app.add_option(
      "--witnesses", c->witnesses,
      "Folder for counterexamples (default: beside the csv, or grapeshot-out/witnesses)");
  app.add_flag("--resume", c->resume, "Go on with the --csv of an earlier run");
  app.add_option("--limit", c->limit, "The first N instances of every folder (0: all)");
  app.add_option("--jobs", c->jobs, "Instances at a time (0: one a core)")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1024}));
  app.add_option("--confirm", c->confirm, "As for falsify: auto, ort or none")
      ->capture_default_str();
  app.add_option("--attacks", c->attacks, "all, or names joined by commas")->capture_default_str();
  app.add_option("--seed", c->seed, "Seed of all randomness")->capture_default_str();
  add_common_options(app, c->common);
  return [c] { return c->run(); };
}

}  // namespace grapeshot::cli
