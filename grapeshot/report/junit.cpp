// grapeshot/report/junit.cpp: JUnit's XML, in the dialect that Jenkins and GitLab read: a suite per
// model, a test case per instance.
#include <cstdio>

#include "grapeshot/base/error.h"
#include "grapeshot/report/escape.h"
#include "grapeshot/report/formats.h"

namespace grapeshot::report {
namespace {

std::string seconds(double value) {
  char out[40];
  std::snprintf(out, sizeof out, "%.3f", value);
  return out;
}

// The deepest finding of every instance, or null.
std::vector<const Finding*> by_instance(const Run& run) {
  std::vector<const Finding*> out(run.instances.size(), nullptr);
  for (const size_t f : deepest_of_each(run)) out[run.findings[f].instance] = &run.findings[f];
  return out;
}

std::string failure(const Run& run, const Instance& instance, const Finding* finding) {
  if (finding == nullptr) {
    return str("    <failure type=\"broken\" message=\"broken\">", instance.findings,
               " findings, which were not read</failure>\n");
  }
  std::string message = describe(run, *finding);
  if (finding->margin) message += str(", margin ", number(*finding->margin));
  return str("    <failure type=\"", markup(finding->property), "\" message=\"", markup(message),
             "\">", markup(message), "\n", markup(finding->folder), "/input.npy\n",
             markup(replay_line(*finding)), "\n</failure>\n");
}

std::string suite(const Run& run, size_t model, const std::vector<const Finding*>& findings) {
  int64_t tests = 0, failures = 0, skipped = 0;
  std::string cases;
  for (size_t i = 0; i < run.instances.size(); ++i) {
    const Instance& each = run.instances[i];
    if (each.model != model) continue;
    ++tests;
    cases +=
        str("   <testcase classname=\"", markup(run.models[model].name()), "\" name=\"",
            markup(each.name), "\" time=\"", seconds(each.seconds_to_first.value_or(0.)), "\">\n");
    if (each.broken()) {
      ++failures;
      cases += failure(run, each, findings[i]);
    } else if (run.ending != Ending::kComplete) {
      // What was not broken yet did not pass either.
      ++skipped;
      cases += str("    <skipped message=\"", markup(caveat(run)), "\"/>\n");
    }
    cases += "   </testcase>\n";
  }
  return str("  <testsuite name=\"", markup(run.models[model].name()), "\" tests=\"", tests,
             "\" failures=\"", failures, "\" errors=\"0\" skipped=\"", skipped, "\" time=\"",
             seconds(run.seconds), "\">\n", cases, "  </testsuite>\n");
}

}  // namespace

std::string write_junit(const Run& run) {
  const std::vector<const Finding*> findings = by_instance(run);
  const auto unbroken = std::ssize(run.instances) - run.falsified();
  std::string out = str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"grapeshot ",
                        markup(run.command), "\" tests=\"", run.instances.size(), "\" failures=\"",
                        run.falsified(), "\" errors=\"0\" skipped=\"",
                        run.ending == Ending::kComplete ? 0 : unbroken, "\" time=\"",
                        seconds(run.seconds), "\">\n");
  for (size_t m = 0; m < run.models.size(); ++m) out += suite(run, m, findings);
  return out + "</testsuites>\n";
}

}  // namespace grapeshot::report
