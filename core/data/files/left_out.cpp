#include "core/data/files/left_out.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace estrain::data {
namespace {

constexpr size_t kMostKinds = 16;
constexpr const char* kOtherKinds = "of other kinds";

constexpr std::array<std::string_view, 16> kUnreadImages = {".avif", ".bmp",  ".gif", ".heic", ".heif", ".jfif",
                                                            ".jp2",  ".jxl",  ".pbm", ".pgm",  ".pnm",  ".ppm",
                                                            ".tga",  ".tiff", ".tif", ".webp"};

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return result;
}

}  // namespace

std::string kind_of_file(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);
  if (name.starts_with('.')) return "hidden";
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot + 1 == name.size()) return "without an ending";
  const std::string start = in_lower_case(name.substr(0, dot)), ending = in_lower_case(name.substr(dot));
  return start.ends_with(".tar") ? ".tar" + ending : ending;
}

void LeftOut::add(const std::string& kind, const std::string& path) {
  auto at = std::ranges::find(kinds_, kind, &Kind::name);
  if (at == kinds_.end() && kinds_.size() < kMostKinds) at = kinds_.insert(at, {kind, 0, path});
  if (at == kinds_.end()) at = std::ranges::find(kinds_, kOtherKinds, &Kind::name);
  if (at == kinds_.end()) at = kinds_.insert(at, {kOtherKinds, 0, path});
  if (++at->count > 1 && path < at->first) at->first = path;
}

int64_t LeftOut::count() const {
  int64_t sum = 0;
  for (const Kind& kind : kinds_) sum += kind.count;
  return sum;
}

std::vector<LeftOut::Kind> LeftOut::kinds() const {
  std::vector<Kind> sorted = kinds_;
  std::ranges::sort(
      sorted, [](const Kind& a, const Kind& b) { return a.count != b.count ? a.count > b.count : a.name < b.name; });
  return sorted;
}

std::string LeftOut::words() const {
  return fmt::format("{}: {}", count() == 1 ? "1 file is left out" : fmt::format("{} files are left out", count()),
                     in_words(kinds()));
}

std::string in_words(const std::vector<LeftOut::Kind>& kinds) {
  std::vector<std::string> words;
  for (const LeftOut::Kind& kind : kinds)
    words.push_back(fmt::format("{} {} (the first is {})", kind.count, kind.name, kind.first));
  return fmt::format("{}", fmt::join(words, ", "));
}

bool is_unread_image(std::string_view kind) { return std::ranges::find(kUnreadImages, kind) != kUnreadImages.end(); }

}  // namespace estrain::data
