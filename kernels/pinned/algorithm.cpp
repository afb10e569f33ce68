#include "kernels/pinned/algorithm.h"

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
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

constexpr const char* kPattern =
    "id=%" PRId64 " tile=%" PRId64 " stages=%" PRId64 " split_k=%" PRId64 " reduction=%" PRId64 " swizzle=%" PRId64
    " custom=%" PRId64 " inner=%" PRId64 " cluster=%" PRId64;
constexpr std::string_view kVersion = " version=", kWords = " words=";

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

std::string ProductAlgorithm::text() const {
  char text[256];
  std::snprintf(text, sizeof text, kPattern, id, tile, stages, split_k, reduction, swizzle, custom, inner, cluster);
  std::string whole = text;
  if (!has_words()) return whole;
  whole.append(kVersion).append(std::to_string(version)).append(kWords);
  for (size_t i = 0; i < words.size(); ++i) {
    std::snprintf(text, sizeof text, "%s%" PRIx64, i == 0 ? "" : ",", words[i]);
    whole += text;
  }
  return whole;
}

std::optional<ProductAlgorithm> ProductAlgorithm::from_text(const std::string& text) {
  ProductAlgorithm a;
  const int read = std::sscanf(text.c_str(), kPattern, &a.id, &a.tile, &a.stages, &a.split_k, &a.reduction, &a.swizzle,
                               &a.custom, &a.inner, &a.cluster);
  if (read != 9) return std::nullopt;
  const size_t version_at = text.find(kVersion), words_at = text.find(kWords);
  if (version_at != text.npos && words_at != text.npos) {
    a.version = std::strtoull(text.c_str() + version_at + kVersion.size(), nullptr, 10);
    const char* next = text.c_str() + words_at + kWords.size();
    for (uint64_t& word : a.words) {
      char* end = nullptr;
      word = std::strtoull(next, &end, 16);
      next = *end == ',' ? end + 1 : end;
    }
  }
  if (a.text() != text) return std::nullopt;  // reject a different spelling
  return a;
}

}  // namespace estrain::kernels::pinned
