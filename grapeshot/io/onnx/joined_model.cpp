#include "grapeshot/io/onnx/joined_model.h"

#include <algorithm>
#include <map>
#include <memory>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/graph_writer.h"

namespace grapeshot::onnx {
namespace {

using protozero::pbf_writer;
using query::Query;
using query::Role;
using query::Variable;

constexpr int64_t kMostTerms = int64_t{1} << 22;

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

std::string print(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t size : shape) out += str(out == "[" ? "" : ",", size);
  return out + "]";
}

// The extra outputs [R] of the values [V] of all inputs and base outputs. Every polynomial is
// padded to the terms of the longest, every term to the factors of the longest: with the value 1,
// which stands behind the others, and the coefficient 0.
std::string extra_outputs(Nodes& nodes, const Query& query, const std::string& values) {
  size_t terms = 1, factors = 1;
  for (const query::Polynomial& each : query.extras) {
    terms = std::max(terms, each.terms.size());
    for (const query::Monomial& term : each.terms) factors = std::max(factors, term.factors.size());
  }
  const int64_t rows = std::ssize(query.extras), columns = static_cast<int64_t>(terms);
  GRAPESHOT_CHECK(rows * columns <= kMostTerms, kUnsupported, query.path, ": ", rows,
                  " polynomials of up to ", columns, " terms are too many to search");
  const int64_t one = query.property.inputs + query.base_outputs;
  const auto size = static_cast<size_t>(rows * columns);
  std::vector<float> coefficients(size, 0.f);
  std::vector<std::vector<int64_t>> from(factors, std::vector<int64_t>(size, one));
  for (size_t r = 0; r < query.extras.size(); ++r) {
    for (size_t t = 0; t < query.extras[r].terms.size(); ++t) {
      const query::Monomial& term = query.extras[r].terms[t];
      coefficients[r * terms + t] = static_cast<float>(term.coefficient);
      for (size_t f = 0; f < term.factors.size(); ++f) from[f][r * terms + t] = term.factors[f];
    }
  }
  const std::string all =
      nodes.add("Concat", {values, nodes.constant("one", std::vector<float>{1.f}, {1})}, "pool",
                {{"axis", 0}});
  std::string product = nodes.constant("coefficients", coefficients, {rows, columns});
  for (size_t f = 0; f < factors; ++f) {
    const std::string index = nodes.constant(str("factors/", f), from[f], {rows, columns});
    const std::string factor = nodes.add("Gather", {all, index}, str("factor/", f), {{"axis", 0}});
    product = nodes.add("Mul", {product, factor}, str("product/", f));
  }
  return nodes.sums(product, "extras");
}

class Joiner {
 public:
  Joiner(const Query& query, const std::vector<NetworkFile>& files)
      : query_(query), files_(files), writer_(graph_), nodes_(writer_, opset()) {
    for (const NetworkFile& file : files) {
      auto& source = sources_[file.path];
      if (source) continue;
      source = std::make_unique<Source>(file.bytes, file.path, str("w", sources_.size()));
      source->copy_weights(writer_);
      bytes_.push_back(file.bytes);
    }
  }

  std::string run() {
    Names outputs;
    for (size_t n = 0; n < files_.size(); ++n) add_network(n, outputs);
    Names all = outputs;
    if (!query_.extras.empty()) {
      Names values = {"whole"};
      values.insert(values.end(), outputs.begin(), outputs.end());
      all.push_back(
          extra_outputs(nodes_, query_, nodes_.add("Concat", values, "values", {{"axis", 0}})));
    }
    (void)nodes_.add("Concat", all, "both", {{"axis", 0}});
    writer_.add_string(kGraphName, "joined networks");
    write_port(writer_, kInput, "whole", query_.property.inputs);
    write_port(writer_, kOutput, "both", query_.property.outputs);
    return write_model(bytes_, query_.path, graph_);
  }

 private:
  [[nodiscard]] int64_t opset() const {
    for (const NetworkFile& file : files_) {
      GRAPESHOT_CHECK(file.model->network().opset >= 7, kUnsupported, file.path, ": has opset ",
                      file.model->network().opset, "; ", query_.path, " needs opset 7 or later");
    }
    return files_[0].model->network().opset;
  }

  // One run, and its base outputs in the order of their declaration.
  void add_network(size_t n, Names& outputs) {
    const NetworkFile& file = files_[n];
    const Source& source = *sources_.at(file.path);
    const std::string run = std::to_string(n + 1);
    std::vector<int64_t> from;
    for (const Variable& each : query_.variables) {
      if (each.network != n || each.role != Role::kInput) continue;
      for (int64_t i = each.begin; i < each.begin + each.size; ++i)
        from.push_back(query_.place[static_cast<size_t>(i)]);
    }
    write_inputs(nodes_, source, *file.model, nodes_.gather("whole", from, "inputs/" + run), run);
    source.copy_nodes(writer_, run);
    for (const Variable& each : query_.variables) {
      if (each.network != n || each.role != Role::kHidden) continue;
      GRAPESHOT_CHECK(source.writes(each.tensor), kUnsupported, file.path,
                      ": no node writes a tensor called '", each.tensor, "', which ", query_.path,
                      " declares as ", each.name);
      outputs.push_back(
          nodes_.reshape(source.named(each.tensor, run), {each.size}, str("hidden/", each.name)));
    }
    outputs.push_back(flat_outputs(nodes_, source, run));
  }

  const Query& query_;
  const std::vector<NetworkFile>& files_;
  std::string graph_;
  pbf_writer writer_;
  Nodes nodes_;
  std::map<std::string, std::unique_ptr<Source>> sources_;
  std::vector<std::string_view> bytes_;
};

}  // namespace

void check_declared(const Query& query, size_t index, const OnnxModel& model) {
  std::vector<const Variable*> inputs, outputs;
  for (const Variable& each : query.variables) {
    if (each.network != index || each.role == Role::kHidden) continue;
    (each.role == Role::kInput ? inputs : outputs).push_back(&each);
  }
  const auto check = [&](const std::vector<const Variable*>& declared,
                         const std::vector<PortSlice>& ports, std::string_view what) {
    GRAPESHOT_CHECK(declared.size() == ports.size(), kInvalidArgument, query.path, ": declares ",
                    declared.size(), " ", what, declared.size() == 1 ? "" : "s", " of ",
                    query.networks[index].name, ", ", model.name(), " has ", ports.size());
    for (size_t i = 0; i < ports.size(); ++i) {
      GRAPESHOT_CHECK(without_ones(declared[i]->shape) == without_ones(ports[i].shape),
                      kInvalidArgument, query.path, ": declares ", declared[i]->name, " as ",
                      print(declared[i]->shape), ", the ", what, " '", ports[i].name, "' of ",
                      model.name(), " is ", print(ports[i].shape));
    }
  };
  check(inputs, model.network().inputs, "input");
  check(outputs, model.network().outputs, "output");
}

std::string joined_model(const Query& query, const std::vector<NetworkFile>& files) {
  GRAPESHOT_CHECK(files.size() == query.networks.size(), kInternal, query.path, ": ", files.size(),
                  " files for ", query.networks.size(), " networks");
  return Joiner(query, files).run();
}

}  // namespace grapeshot::onnx
