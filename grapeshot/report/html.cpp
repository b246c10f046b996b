// grapeshot/report/html.cpp: one page without anything from elsewhere.
//
// What a model or a file is called can be anything. So text is escaped (escape.h), the script
// makes elements and text only, never markup, and the policy lets no script, style or image in but
// the page's own, which it knows by their hashes.
#include <algorithm>
#include <cmath>

#include "grapeshot/base/error.h"
#include "grapeshot/report/chart.h"
#include "grapeshot/report/escape.h"
#include "grapeshot/report/formats.h"
#include "grapeshot/report/page_data.h"
#include "grapeshot/report/parts.h"

namespace grapeshot::report {
namespace {

std::string policy() {
  return str("default-src 'none'; img-src data:; style-src 'sha256-",
             sha256_base64(parts::page_css), "'; script-src 'sha256-",
             sha256_base64(parts::page_js),
             "'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
             "trusted-types 'none'");
}

std::string plural(int64_t n, const std::string& one, const std::string& many) {
  return str(n, " ", n == 1 ? one : many);
}

// What was tested, in one line.
std::string subject(const Run& run) {
  std::string out = "grapeshot " + run.command + " on ";
  out += run.models.size() == 1 ? run.models[0].name()
                                : plural(std::ssize(run.models), "model", "models");
  if (run.seconds > 0.) out += str(", ", number(run.seconds, 3), " s");
  return out;
}

// How many of all are broken, as a bar.
std::string bar(const Run& run) {
  const double all = std::max<double>(1., static_cast<double>(run.instances.size()));
  const double share = 100. * static_cast<double>(run.falsified()) / all;
  return str(
      "<svg class=\"bar\" viewBox=\"0 0 100 3\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"",
      number(share, 3),
      " per cent broken\"><rect class=\"held\" width=\"100\" "
      "height=\"3\"/><rect class=\"lost\" width=\"",
      number(share), "\" height=\"3\"/></svg>\n");
}

std::string figure(const std::string& caption, const std::string& svg,
                   const std::string& rest = {}) {
  return str("<figure class=\"chart\"><figcaption>", markup(caption), "</figcaption>", svg, rest,
             "</figure>\n");
}

std::string legend(const std::vector<Curve>& curves) {
  std::string out = "<ul class=\"legend\">";
  for (size_t c = 0; c < curves.size(); ++c) {
    const double last = curves[c].points.empty() ? 0. : curves[c].points.back().second;
    const std::string value = curves[c].share ? number(100. * last) + " %" : number(last);
    out += str("<li class=\"c", c % 6, "\">", markup(curves[c].name), " ", value, "</li>");
  }
  return out + "</ul>";
}

std::string curves(const Run& run) {
  std::vector<Curve> shares, counts;
  double end = run.seconds;
  for (const Curve& each : run.coverage) {
    if (each.points.empty()) continue;
    (each.share ? shares : counts).push_back(each);
    end = std::max(end, each.points.back().first);
  }
  if (!run.broken.points.empty()) end = std::max(end, run.broken.points.back().first);
  if (!(end > 0.)) end = 1.;
  std::string out;
  if (!run.broken.points.empty()) {
    ChartOptions options{str(headline(run), " after ", number(run.seconds, 3), " seconds"), end,
                         static_cast<double>(run.instances.size()), false, true};
    out += figure("Broken " + noun(run) + " against time", chart({&run.broken, 1}, options));
  }
  if (!shares.empty()) {
    out += figure("Coverage against time",
                  chart(shares, {"coverage against time", end, 0., true, false}), legend(shares));
  }
  if (!counts.empty()) {
    out += figure("Counts against time",
                  chart(counts, {"counts of criteria against time", end, 0., false, false}),
                  legend(counts));
  }
  if (out.empty()) return {};
  return str(
      "<section aria-labelledby=\"h-time\"><h2 id=\"h-time\">Over time</h2>\n"
      "<div class=\"charts\">\n",
      out, "</div></section>\n");
}

std::string limits(const Run& run, const PageData& data) {
  std::string out = caveat(run);
  const auto say = [&](const std::string& text) { out += (out.empty() ? "" : " ") + text; };
  if (data.drawn < std::ssize(run.findings)) {
    say(str("To keep this page quick, only ", data.drawn, " of ", run.findings.size(),
            " findings are drawn: the deepest of every group. Their folders have the others."));
  }
  if (data.rows < std::ssize(run.instances)) {
    say(str("The table lists ", data.rows, " of ", run.instances.size(), " ", noun(run), "."));
  }
  return out.empty() ? out : str("<p class=\"caveat\" role=\"note\">", markup(out), "</p>\n");
}

std::string gallery(const Run& run, const PageData& data) {
  std::string out = "<section aria-labelledby=\"h-findings\"><h2 id=\"h-findings\">Findings</h2>\n";
  if (run.findings.empty()) {
    out += str("<p class=\"empty\">Nothing was found. ",
               run.instances.empty()
                   ? "The run had nothing to look at."
                   : "That is no proof: a longer run (<code>--seconds</code>), other attacks "
                     "(<code>--mutations portfolio</code>) or a larger <code>--eps</code> may "
                     "find what this one did not.",
               "</p>\n");
  } else {
    out += str("<p>", plural(std::ssize(run.findings), "finding", "findings"), " in ",
               plural(data.clusters, "group", "groups"),
               ": what is violated, then the direction of the change.</p>\n"
               "<div id=\"gallery\"></div>\n");
  }
  return out + "</section>\n";
}

std::string facts(const Run& run) {
  std::string out = "<section aria-labelledby=\"h-run\"><h2 id=\"h-run\">How it was run</h2>\n<dl>";
  for (const auto& [label, value] : run.facts) {
    out += str("<dt>", markup(label), "</dt><dd>", markup(value), "</dd>\n");
  }
  for (const PropertyKind& each : run.properties) {
    out += str("<dt>", markup(each.name), "</dt><dd>", markup(each.summary), "</dd>\n");
  }
  return out + "</dl></section>\n";
}

}  // namespace

std::string write_html(const Run& run) {
  const PageData data = page_data(run);
  std::string out =
      str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"",
          policy(),
          "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          markup(headline(run)), " - Grapeshot</title>\n<style>", parts::page_css, "</style>\n");
  out +=
      str("</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n<header>\n"
          "<p class=\"subject\">",
          markup(subject(run)), "</p>\n<h1>", markup(headline(run)), "</h1>\n", bar(run),
          limits(run, data), "</header>\n<main id=\"main\">\n");
  out += curves(run);
  out += str("<section aria-labelledby=\"h-table\"><h2 id=\"h-table\">",
             noun(run) == "images" ? "Images" : "Instances",
             "</h2>\n<div id=\"instances\"></div></section>\n");
  out += gallery(run, data);
  out += facts(run);
  out +=
      "<noscript><p class=\"caveat\">The table and the findings need JavaScript; this page loads "
      "nothing from elsewhere.</p></noscript>\n</main>\n";
  out +=
      str("<footer><p>Grapeshot ", markup(run.version), ", ", markup(run.folder),
          "</p></footer>\n<script type=\"application/json\" id=\"data\">", script_json(data.json),
          "</script>\n<script>", parts::page_js, "</script>\n</body>\n</html>\n");
  return out;
}

}  // namespace grapeshot::report
