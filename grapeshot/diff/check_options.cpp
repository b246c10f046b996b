// grapeshot/diff/check_options.cpp: which options go.
#include <cmath>
#include <string>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/diff/as_published.h"
#include "grapeshot/diff/constraint.h"
#include "grapeshot/diff/diff.h"
#include "grapeshot/diff/neurons.h"
#include "grapeshot/diff/objective.h"

namespace grapeshot::diff {
namespace {

void check(bool ok, std::string_view flag, std::string_view range) {
  GRAPESHOT_CHECK(ok, kInvalidArgument, "--", flag, " must be ", range);
}

}  // namespace

void check_options(const DiffOptions& o) {
  check(o.seconds >= 0. && std::isfinite(o.seconds), "seconds", "at least 0");
  check(o.candidates >= 0, "candidates", "at least 0");
  check(o.seconds > 0. || o.candidates > 0, "seconds", "above 0 without --candidates");
  check(o.batch >= 0 && o.batch <= (int64_t{1} << 16), "batch", "from 0 to 65536");
  check(o.top_k >= 1, "top-k", "at least 1");
  check(o.neurons >= 0, "neurons", "at least 0");
  check(o.weight >= 0. && std::isfinite(o.weight), "weight", "at least 0");
  check(o.lambda >= 0. && std::isfinite(o.lambda), "lambda", "at least 0");
  check(o.iterations >= 1, "iterations", "at least 1");
  check(o.step >= 0. && std::isfinite(o.step), "step", "at least 0");
  if (o.transform.empty()) {
    check_limits(o.limits);
  } else {
    (void)parse_transformations(o.transform);
    check_bound(o.validity);
    Limits range = o.limits;
    range.linf = 1.;  // the bound is the limit
    check_limits(range);
  }
  check(o.keep >= 0. && std::isfinite(o.keep), "keep", "at least 0");
  check(o.tolerance > 0. && std::isfinite(o.tolerance), "tolerance", "above 0");
  check(o.tau >= 0. && o.tau <= 1., "tau", "from 0 to 1");
  check_criterion_options(o.per_criterion, o.tau);
  const std::string names = o.criterion + "," + o.criteria;
  for (const std::string_view name : split_at(',', names)) {
    if (!name.empty() && name != "none") (void)find_criterion(name);
  }
  if (o.as_published) {
    (void)PublishedStrategies(o.strategy);
    check(o.constraint == "none" && o.objective == "classes" && o.transform.empty(), "as-published",
          "without --constraint, --objective and --transform");
  } else {
    (void)parse_strategies(o.strategy);
  }
  (void)parse_constraints(o.constraint, o.limits);
  (void)find_objective(o.objective);
}

void check_models(const std::vector<const Model*>& models, const at::Tensor& images,
                  const DiffOptions& options, bool has_oracle) {
  GRAPESHOT_CHECK(!models.empty(), kInvalidArgument, "diff needs a model");
  for (const Model* model : models) {
    GRAPESHOT_CHECK(images.dim() == 2 && images.size(1) == model->inputs() && images.size(0) > 0,
                    kInvalidArgument, model->name(), ": expects rows of ", model->inputs(),
                    " inputs");
    GRAPESHOT_CHECK(model->outputs() >= 2, kInvalidArgument, model->name(),
                    ": has one output; predictions need at least two classes");
    GRAPESHOT_CHECK(model->outputs() == models[0]->outputs(), kInvalidArgument, model->name(),
                    ": has ", model->outputs(), " outputs, ", models[0]->name(), " has ",
                    models[0]->outputs());
  }
  GRAPESHOT_CHECK(!has_oracle || models.size() == 1, kInvalidArgument,
                  "two runtimes are compared on one model");
  GRAPESHOT_CHECK(!options.as_published || (models.size() == 1 && !has_oracle), kInvalidArgument,
                  "--as-published takes one model");
}

}  // namespace grapeshot::diff
