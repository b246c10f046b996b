#include "grapeshot/io/onnx/operator_notes.h"

#include <algorithm>

namespace grapeshot::onnx {
namespace {

constexpr std::string_view kChance = "Numbers by chance: no finding could be replayed.";
constexpr std::string_view kText = "Texts: no tensor holds them, and there is nothing to perturb.";
constexpr std::string_view kTrees =
    "Of ai.onnx.ml, whose models are trees and tables without a gradient.";

constexpr ExcludedOperator kExcluded[] = {
    {"Bernoulli", kChance},
    {"Multinomial", kChance},
    {"RandomNormal", kChance},
    {"RandomNormalLike", kChance},
    {"RandomUniform", kChance},
    {"RandomUniformLike", kChance},
    {"ImageDecoder",
     "Its input is a compressed file, and a change of its bytes is no change of a picture."},
    {"RegexFullMatch", kText},
    {"StringConcat", kText},
    {"StringNormalizer", kText},
    {"StringSplit", kText},
    {"ai.onnx.ml.LabelEncoder", kText},
    {"ai.onnx.ml.TreeEnsemble", kTrees},
    {"ai.onnx.preview.training.Gradient", "A gradient of a subgraph, which no exporter writes."},
};

constexpr std::string_view kWithoutGradient[] = {
    "And",
    "ArgMax",
    "ArgMin",
    "BitCast",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "BlackmanWindow",
    "Constant",
    "ConstantOfShape",
    "ConvInteger",
    "Equal",
    "EyeLike",
    "Greater",
    "GreaterOrEqual",
    "HammingWindow",
    "HannWindow",
    "Hardmax",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "MatMulInteger",
    "MelWeightMatrix",
    "NonMaxSuppression",
    "NonZero",
    "Not",
    "OneHot",
    "OptionalHasElement",
    "Or",
    "QLinearConv",
    "QLinearMatMul",
    "Range",
    "SequenceEmpty",
    "SequenceLength",
    "Shape",
    "Size",
    "TfIdfVectorizer",
    "Xor",
    "ai.onnx.ml.Binarizer",
};

}  // namespace

std::span<const ExcludedOperator> excluded_operators() {
  return kExcluded;
}

bool passes_gradient(std::string_view name) {
  return std::ranges::find(kWithoutGradient, name) == std::end(kWithoutGradient);
}

}  // namespace grapeshot::onnx
