#include "kernels/pinned/convolution_algorithm.h"

#include <charconv>
#include <string_view>

namespace estrain::kernels::pinned {
namespace {

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool take(std::string_view& text, int64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string ConvolutionAlgorithm::text() const {
  std::string text = "engine=" + std::to_string(engine) + " knobs=";
  for (size_t i = 0; i < knobs.size(); ++i)
    text += (i > 0 ? "," : "") + std::to_string(knobs[i].first) + ":" + std::to_string(knobs[i].second);
  return text;
}

std::optional<ConvolutionAlgorithm> ConvolutionAlgorithm::from_text(const std::string& text) {
  ConvolutionAlgorithm algorithm;
  std::string_view rest = text;
  if (!take(rest, "engine=") || !take(rest, &algorithm.engine) || !take(rest, " knobs=")) return std::nullopt;
  while (!rest.empty()) {
    if (!algorithm.knobs.empty() && !take(rest, ",")) return std::nullopt;
    auto& [type, value] = algorithm.knobs.emplace_back();
    if (!take(rest, &type) || !take(rest, ":") || !take(rest, &value)) return std::nullopt;
    if (algorithm.knobs.size() > 1 && algorithm.knobs[algorithm.knobs.size() - 2].first >= type) return std::nullopt;
  }
  if (algorithm.text() != text) return std::nullopt;
  return algorithm;
}

}  // namespace estrain::kernels::pinned
