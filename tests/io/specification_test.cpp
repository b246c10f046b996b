#include "grapeshot/io/properties/specification.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/files.h"

using namespace grapeshot;              // NOLINT(google-build-using-namespace)
using namespace grapeshot::properties;  // NOLINT(google-build-using-namespace)
using grapeshot::testing::message_of;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Twice the first input is every output.
Subject subject(int64_t inputs, int64_t outputs) {
  return {"net.onnx", inputs, outputs, {1, inputs}, [outputs](std::span<const float> x) {
            return std::vector<double>(static_cast<size_t>(outputs), 2. * x[0]);
          }};
}

Specification parse(const std::string& text, int64_t inputs, int64_t outputs) {
  return parse_specification(text, "s.json", subject(inputs, outputs));
}

// What is wrong with it, behind the file's name.
std::string refusal(const std::string& text, int64_t inputs = 4, int64_t outputs = 3,
                    ErrorCode code = ErrorCode::kParse) {
  const std::string message = message_of(code, [&] { (void)parse(text, inputs, outputs); });
  CHECK(message.starts_with("s.json"));
  return message.substr(6);
}

bool violates(const Specification& spec, const std::vector<float>& x,
              const std::vector<double>& y) {
  return judge(spec.property, x, y).violates;
}

// y, z, then their margins, as the network of two runs puts them.
std::vector<double> with_margins(const std::vector<double>& y, const std::vector<double>& z) {
  std::vector<double> out = y;
  out.insert(out.end(), z.begin(), z.end());
  for (const std::vector<double>& scores : {y, z}) {
    for (size_t i = 0; i < scores.size(); ++i) {
      double other = -kInfinity;
      for (size_t j = 0; j < scores.size(); ++j) {
        if (j != i) other = std::max(other, scores[j]);
      }
      out.push_back(scores[i] - other);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("fairness: every two values of a protected feature are a box, the second one's behind") {
  const Specification spec = parse(
      R"({"property": "fairness", "inputs": {"lo": 0, "hi": 1}, "protected": {"2": [3, 1, 2]}})", 4,
      3);
  REQUIRE(spec.property.regions.size() == 3);
  std::vector<std::pair<float, float>> pairs;
  for (const Region& region : spec.property.regions) {
    CHECK(region.box.lo.size() == 5);
    CHECK(region.box.lo[0] == 0.f);
    CHECK(region.box.hi[0] == 1.f);
    CHECK(region.box.lo[2] == region.box.hi[2]);
    CHECK(region.box.lo[4] == region.box.hi[4]);
    pairs.emplace_back(region.box.lo[2], region.box.lo[4]);
  }
  CHECK(pairs == std::vector<std::pair<float, float>>{{1.f, 2.f}, {1.f, 3.f}, {2.f, 3.f}});
  const std::vector<float> x = {0.5f, 0.25f, 1.f, 0.f, 3.f};
  CHECK(second_input(*spec.pair, x) == std::vector<float>{0.5f, 0.25f, 3.f, 0.f});
  CHECK(violates(spec, x, with_margins({1., 0., 0.}, {0., 0., 1.})));
  CHECK(!violates(spec, x, with_margins({1., 0., 0.}, {1., 0.5, 0.})));
  // Nobody knows which class a tie is.
  CHECK(!violates(spec, x, with_margins({1., 1., 0.}, {1., 1., 0.})));
  CHECK(!violates(spec, x, with_margins({1., 1., 0.}, {0., 1., 0.})));
  const Verdict verdict = judge(spec.property, x, with_margins({1., 0., 0.}, {0., 0., 1.}));
  CHECK(spec.words(x, with_margins({1., 0., 0.}, {0., 0., 1.}), verdict) ==
        "an individual with feature 2 1 -> 3: class 0 -> 2");
}

TEST_CASE("fairness: other features differ by no more than eps, whatever float32 rounds") {
  const Specification spec = parse(
      R"({"property": "fairness", "inputs": {"lo": [-3, 0, 100], "hi": [0, 0.1, 1000]},
          "protected": {"1": {"lo": 0, "hi": 1}}, "eps": [0.1, 5, 0.001], "threshold": 0})",
      3, 1);
  const Box& box = spec.property.regions[0].box;
  REQUIRE(box.lo.size() == 6);  // the protected one's second value, and what is added to two
  std::mt19937 random(1);
  const double eps[] = {0.1, 0., 0.001};
  double most = 0.;
  for (int k = 0; k < 20000; ++k) {
    std::vector<float> x;
    for (size_t i = 0; i < 6; ++i) {
      std::uniform_real_distribution<float> between(box.lo[i], box.hi[i]);
      const bool end = i > 3 && random() % 2 == 0;
      x.push_back(end ? (random() % 2 == 0 ? box.lo[i] : box.hi[i]) : between(random));
    }
    const std::vector<float> second = second_input(*spec.pair, x);
    CHECK(second[1] == x[3]);
    for (const size_t i : {size_t{0}, size_t{2}}) {
      const double off = std::abs(static_cast<double>(second[i]) - static_cast<double>(x[i]));
      REQUIRE(off <= eps[i]);
      most = std::max(most, off / eps[i]);
    }
  }
  CHECK(most > 0.95);  // and nearly all of it is used
}

TEST_CASE("fairness: either value may be the first where the others differ by eps") {
  // Class 1 where x1 > 0.55 + 10 x0: the second input may leave the box of the first.
  const auto spec = [](const std::string& values, const std::string& eps) {
    return parse(R"({"property": "fairness", "inputs": {"center": [0, 0.5]}, "protected": {"0": )" +
                     values + "}" + eps + "}",
                 2, 2);
  };
  const auto pairs = [](const Specification& of) {
    std::vector<std::pair<float, float>> out;
    for (const Region& region : of.property.regions) {
      out.emplace_back(region.box.lo[0], region.box.lo[2]);
    }
    return out;
  };
  using Pairs = std::vector<std::pair<float, float>>;
  CHECK(pairs(spec("[0, 1]", "")) == Pairs{{0.f, 1.f}});
  CHECK(pairs(spec("[0, 1]", R"(, "eps": 0.1)")) == Pairs{{0.f, 1.f}, {1.f, 0.f}});
  CHECK(spec("[0, 1, 2]", R"(, "eps": 0.1)").property.regions.size() == 6);
  CHECK(pairs(spec(R"({"lo": 3, "hi": 4})", R"(, "eps": 0.1)")) == Pairs{{3.f, 3.f}});
}

TEST_CASE("fairness: values of a feature in one box leave its eps in the other") {
  const Specification spec = parse(
      R"({"property": "fairness", "inputs": [{"lo": 0, "hi": 1}, {"lo": 0, "hi": 1, "values": {"1": [0, 1]}}],
          "protected": {"0": [0, 1]}, "eps": 0.25, "threshold": 0})",
      2, 1);
  REQUIRE(spec.property.regions.size() == 6);  // (one box and two) times two orders
  for (size_t i = 0; i < 6; ++i) {
    const Box& box = spec.property.regions[i].box;
    REQUIRE(box.lo.size() == 4);
    CHECK(box.lo[3] == -box.hi[3]);
    CHECK((box.hi[3] > 0.2f) == (i < 2));
    CHECK((box.lo[1] == box.hi[1]) == (i >= 2));
  }
}

TEST_CASE(
    "monotonicity: the second input is never below the first, in the box, and ties are fine") {
  const Specification spec = parse(
      R"({"property": "monotonicity", "inputs": {"lo": -1, "hi": 1, "values": {"3": [0, 1, 2]}},
          "increasing": [0, 3], "decreasing": [1], "output": 1, "tolerance": 0.25})",
      4, 2);
  // (0, 0) (0, 1) (0, 2) (1, 1) (1, 2) (2, 2)
  CHECK(spec.property.regions.size() == 6);
  const std::vector<float> x = {0.f, 0.5f, 0.f, 1.f, 0.75f, 2.f, -0.5f};
  CHECK(second_input(*spec.pair, x) == std::vector<float>{0.75f, -0.5f, 0.f, 2.f});
  const std::vector<float> low = {0.f, 0.5f, 0.f, 1.f, -0.75f, 1.f, 0.75f};
  CHECK(second_input(*spec.pair, low) == std::vector<float>{0.f, 0.5f, 0.f, 1.f});
  CHECK(!violates(spec, x, {0., 1., 0., 0.75, 0., -0.25}));
  CHECK(violates(spec, x, {0., 1., 0., 0.7, 0., std::nextafter(-0.25, -1.)}));
  const Specification strict = parse(
      R"({"property": "monotonicity", "inputs": {"lo": 0, "hi": 1}, "increasing": [0], "class": 0})",
      1, 2);
  CHECK(!violates(strict, {0.f, 1.f}, {0., 0., 0., 0., 0.}));
  CHECK(violates(strict, {0.f, 1.f}, {0., 0., 0., 0., -1e-45}));
}

TEST_CASE(
    "permutation: stated ones are what the second input is, of equal keys the first is first") {
  const Specification spec = parse(
      R"({"property": "permutation", "inputs": {"lo": 0, "hi": 9}, "elements": 3,
          "permutations": [[2, 0, 1], [1, 0, 2]], "threshold": 1, "output": 0})",
      6, 2);
  REQUIRE(spec.property.regions.size() == 2);
  const auto whole = [&](size_t region) {
    std::vector<float> x = {1, 2, 3, 4, 5, 6};
    const std::vector<float>& keys = spec.property.regions[region].box.lo;
    x.insert(x.end(), keys.end() - 3, keys.end());
    return x;
  };
  CHECK(second_input(*spec.pair, whole(0)) == std::vector<float>{5, 6, 1, 2, 3, 4});
  CHECK(second_input(*spec.pair, whole(1)) == std::vector<float>{3, 4, 1, 2, 5, 6});
  CHECK(order_of(std::vector<float>{0.f, 1.f, 0.f, 1.f}) == std::vector<int64_t>{1, 3, 0, 2});
  CHECK(violates(spec, whole(0), {2., 0., 0., 0.}));
  CHECK(!violates(spec, whole(0), {2., 0., 1., 0.}));
}

TEST_CASE("bounds: boxes are rounded inwards, bounds of outputs are not violated by equality") {
  const Specification spec = parse(
      R"({"property": "bounds", "inputs": {"lo": 0.1, "hi": 0.2}, "lo": -1, "hi": 0.3})", 1, 1);
  const Box& box = spec.property.regions[0].box;
  CHECK(static_cast<double>(box.lo[0]) >= 0.1);
  CHECK(static_cast<double>(std::nextafter(box.lo[0], 0.f)) < 0.1);
  CHECK(static_cast<double>(box.hi[0]) <= 0.2);
  CHECK(static_cast<double>(std::nextafter(box.hi[0], 1.f)) > 0.2);
  const std::vector<float> x = {0.15f};
  CHECK(!violates(spec, x, {0.3}));
  CHECK(violates(spec, x, {std::nextafter(0.3, 1.)}));
  CHECK(!violates(spec, x, {-1.}));
  CHECK(violates(spec, x, {std::nextafter(-1., -2.)}));
  CHECK(!violates(spec, {0.3f}, {9.}));
}

TEST_CASE("bounds: a distance is from the value at the centre, which comes before what is fixed") {
  const Specification spec = parse(
      R"({"property": "bounds", "inputs": {"center": [1.5, 0, 0], "eps": 1, "only": [1],
          "values": {"2": [3, 4]}}, "output": 2, "delta": 0.5})",
      3, 3);
  REQUIRE(spec.property.regions.size() == 2);
  CHECK(spec.property.regions[1].box.lo == std::vector<float>{1.5f, -1.f, 4.f});
  CHECK(!violates(spec, {1.5f, 1.f, 3.f}, {0., 0., 3.5}));
  CHECK(violates(spec, {1.5f, 1.f, 3.f}, {0., 0., 3.6}));
  CHECK(violates(spec, {1.5f, 1.f, 4.f}, {0., 0., 2.4}));
}

TEST_CASE("bounds: the network is asked once for a centre, however many boxes it makes") {
  int asked = 0;
  Subject of = subject(3, 1);
  of.evaluate = [&](std::span<const float>) { return ++asked, std::vector<double>{1.}; };
  const Specification spec = parse_specification(
      R"({"property": "bounds", "delta": 1, "inputs": [{"center": [0, 0, 0], "values": {"0": [1, 2, 3], "2": [4, 5]}},
                                                       {"center": [1, 1, 1], "eps": 1}]})",
      "s.json", of);
  CHECK(spec.property.regions.size() == 7);
  CHECK(asked == 2);
}

TEST_CASE("words count boxes as the search does, without those that hold no float32") {
  const Specification spec = parse(
      R"({"property": "bounds", "inputs": [{"center": [0.1], "eps": 1e-12}, {"center": [3], "eps": 1}], "delta": 0.5})",
      1, 1);
  REQUIRE(spec.property.regions.size() == 1);
  const std::vector<float> x = {3.f};
  const std::vector<double> y = {7.};
  CHECK(spec.words(x, y, judge(spec.property, x, y)) == "an input: output 0 is 7, above 6.5");
  // Where there is nothing else, they stay: the instance has nothing to search.
  const Specification none =
      parse(R"({"property": "bounds", "inputs": {"center": [0.1], "eps": 1e-12}, "lo": 0})", 1, 1);
  REQUIRE(none.property.regions.size() == 1);
  CHECK(none.property.regions[0].box.empty);
}

TEST_CASE("set: some allowed class scores above the others, or outputs lie in one of the boxes") {
  const Specification classes = parse(
      R"({"property": "set", "inputs": [{"lo": 0, "hi": 1}, {"lo": 2, "hi": 3}],
          "classes": [0, "b"], "output_names": ["a", "b", "c", "d"]})",
      1, 4);
  for (const float x : {0.5f, 2.5f}) {
    CHECK(!violates(classes, {x}, {1., 5., 4., 4.}));
    CHECK(violates(classes, {x}, {1., 5., 6., 4.}));
    CHECK(violates(classes, {x}, {1., 5., 4., 5.}));  // a tie, as in VNN-LIB
  }
  CHECK(!violates(classes, {1.5f}, {0., 0., 9., 9.}));
  const Specification boxes = parse(
      R"({"property": "set", "inputs": {"lo": 0, "hi": 1},
          "outputs": [{"0": [0, 1], "1": [0, 1]}, {"0": [2, 3]}]})",
      1, 2);
  CHECK(boxes.property.regions[0].cases.size() == 8);
  for (const double a : {-1., 0., 0.5, 1., 1.5, 2., 2.5, 3., 3.5}) {
    for (const double b : {-1., 0., 0.5, 1., 1.5}) {
      const bool allowed = (a >= 0. && a <= 1. && b >= 0. && b <= 1.) || (a >= 2. && a <= 3.);
      CHECK(violates(boxes, {0.f}, {a, b}) == !allowed);
    }
  }
}

TEST_CASE("temporal: cases that cannot hold or say nothing new are left out") {
  const auto cases = [](const std::string& formula) {
    return parse(
               R"({"property": "temporal", "inputs": {"lo": 0, "hi": 1}, "steps": 6, "formula": )" +
                   formula + "}",
               1, 6)
        .property.regions[0]
        .cases.size();
  };
  CHECK(cases(R"({"always": {"above": 0}})") == 6);
  CHECK(cases(R"({"eventually": {"above": 0}})") == 1);
  // Above 2 at some step, then not below 1 at the next: no step is both.
  CHECK(cases(R"({"always": {"if": {"above": 2}, "then": {"eventually": {"below": 1},
               "steps": [1, 1]}}})") == 5);
  // Violated above 0 and (above 0 or below -1): above 0.
  CHECK(cases(R"({"or": [{"below": 0}, {"and": [{"below": 0}, {"above": -1}]}]})") == 1);
  CHECK(refusal(R"({"property": "temporal", "inputs": {"lo": 0, "hi": 1}, "steps": 1,
                    "formula": {"or": [{"below": 1}, {"above": 1}]}})",
                1, 1) == ": formula: can never be violated");
}

TEST_CASE("temporal: windows of windows are looked at once a step, not once a way to get there") {
  std::string nested = R"({"above": 0})";  // 163 million ways
  for (int i = 0; i < 9; ++i) nested = R"({"always": )" + nested + "}";
  const Specification spec =
      parse(R"({"property": "temporal", "inputs": {"lo": 0, "hi": 1}, "steps": 30, "formula": )" +
                nested + "}",
            1, 30);
  CHECK(spec.property.regions[0].cases.size() == 30);
}

TEST_CASE("a specification that is wrong is refused in one sentence with the place") {
  const std::string in = R"("inputs": {"lo": 0, "hi": 1})";
  const auto bounds = [&](const std::string& rest) {
    return refusal(R"({"property": "bounds", "output": 0, )" + rest + "}");
  };
  CHECK(refusal("{\n  \"property\": nan}") == ":2:16: not JSON");
  CHECK(refusal("[]") == ": must be an object");
  CHECK(
      refusal(R"({"property": "fair"})") ==
      ": property: no property is called 'fair'; known: fairness, monotonicity, bounds, temporal, "
      "set, permutation");
  CHECK(bounds(in + R"(, "lo": 1, "lo": 2)") == ": the key 'lo' is there twice in one object");
  CHECK(bounds(in + R"(, "lo": 1e999)") == ": a number is beyond the largest float64");
  CHECK(bounds(in + R"(, "lo": "1")") == ": lo: must be a number");
  CHECK(bounds(in + R"(, "low": 1)") ==
        ": no key is called 'low' here; known: property, description, feature_names, output_names, "
        "inputs, output, lo, hi, delta");
  CHECK(bounds(R"("hi": 1, "inputs": {"lo": 0, "hi": [1, 2]})") ==
        ": inputs.hi: has 2 numbers, must have 4");
  CHECK(bounds(R"("hi": 1, "inputs": {"lo": [0, 2, 0, 0], "hi": 1})") ==
        ": inputs: feature 1 has the lower bound 2 above its upper bound 1");
  CHECK(bounds(R"("hi": 1, "inputs": {"lo": 0, "hi": 1e39})") ==
        ": inputs: the bounds of feature 0 are beyond float32");
  CHECK(bounds(R"("hi": 1, "inputs": {"center": [0, 0, 0, 0], "eps": -1})") ==
        ": inputs.eps: must be at least 0");
  CHECK(bounds(R"("hi": 1, "inputs": {"lo": 0, "hi": 1, "values": {"4": [1]}})") ==
        ": inputs.values.4: no feature is called '4'; the network has 0 to 3");
  CHECK(bounds(R"("hi": 1, "inputs": {"center": {"file": "none.npy", "row": 0}})")
            .starts_with(": inputs.center.file: "));
  CHECK(bounds(in + R"(, "delta": 1)") == ": delta: needs 'center' in 'inputs'");
  CHECK(refusal(R"({"property": "fairness", "protected": {"0": [0, 1]}, )" + in + "}", 4, 1) ==
        ": the network has one output: 'threshold' or 'tolerance' must say what may change");
  CHECK(refusal(R"({"property": "fairness", "protected": {"0": [0, 1]}, "eps": 1e-9, )" + in +
                "}") == ": eps: 1e-09 is less than float32 tells apart at feature 1 = 1");
  CHECK(refusal(R"({"property": "monotonicity", "increasing": [4], "output": 0, )" + in + "}") ==
        ": increasing[0]: must be from 0 to 3, is 4");
  CHECK(refusal(R"({"property": "permutation", "elements": 3, "permutations": "any", )" + in +
                "}") == ": elements: does not divide the network's 4 inputs");
  CHECK(refusal(R"({"property": "permutation", "elements": 2, "permutations": [[0, 0]], )" + in +
                "}") == ": permutations[0][1]: names an element twice");
  CHECK(refusal(R"({"property": "set", "classes": [0, 1, 2], )" + in + "}") ==
        ": classes: must name some of the network's 3 classes, not all");
}

TEST_CASE("what multiplies to too much is refused with the number and the limit") {
  const auto fairness = [](int64_t values) {
    std::string list;
    for (int64_t i = 0; i < values; ++i) list += str(i == 0 ? "" : ", ", i);
    return R"({"property": "fairness", "inputs": {"lo": 0, "hi": 1}, "protected": {"0": [)" + list +
           "]}}";
  };
  CHECK(parse(fairness(91), 4, 3).property.regions.size() == 4095);
  CHECK(refusal(fairness(92), 4, 3, ErrorCode::kUnsupported) ==
        ": its values multiply to 4186 boxes, at most 4096 are taken");
  CHECK(refusal(R"({"property": "temporal", "inputs": {"lo": 0, "hi": 1}, "steps": 5000, "formula":
                    {"always": {"above": 0}}})",
                1, 5000, ErrorCode::kUnsupported)
            .ends_with("at most 4096 and 262144 are taken"));
  CHECK(refusal(R"({"property": "temporal", "inputs": {"lo": 0, "hi": 1}, "steps": 600, "formula":
                    {"always": {"above": 0}}})",
                1, 600, ErrorCode::kUnsupported) ==
        ": multiplies to 360000 numbers a box (1 boxes, 600 ways to be violated of 1 conditions, "
        "over 600 outputs), at most 262144 are taken");
}

TEST_CASE("pairs of values and comparisons of classes are counted before they are made") {
  std::string list;
  for (int64_t i = 0; i < 20000; ++i) list += str(i == 0 ? "" : ", ", i);
  const auto began = std::chrono::steady_clock::now();
  CHECK(refusal(R"({"property": "monotonicity", "increasing": [0], "output": 0,
                    "inputs": {"lo": 0, "hi": 1, "values": {"0": [)" +
                    list + "]}}}",
                4, 3, ErrorCode::kUnsupported) ==
        ": its values multiply to 2.0001e+08 boxes, at most 4096 are taken");
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(500));
  CHECK(refusal(
            R"({"property": "fairness", "inputs": {"lo": 0, "hi": 1}, "protected": {"0": [0, 1]}})",
            4, 182, ErrorCode::kUnsupported)
            .ends_with("over 728 outputs), at most 262144 are taken"));
}
