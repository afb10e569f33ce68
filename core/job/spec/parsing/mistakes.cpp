#include "core/job/spec/parsing/mistakes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace estrain::spec {

void Mistakes::add(toml::Location at, std::string_view key, std::string what_is_wrong) {
  mistakes_.push_back({std::move(at), std::string(key), std::move(what_is_wrong)});
}

bool Mistakes::about(std::string_view key) const {
  const auto concerns = [&](const Mistake& mistake) {
    return mistake.key == key || key.rfind(mistake.key + ".", 0) == 0;
  };
  return std::any_of(mistakes_.begin(), mistakes_.end(), concerns);
}

void Mistakes::throw_if_any() {
  if (mistakes_.empty()) return;
  std::stable_sort(mistakes_.begin(), mistakes_.end(), [](const Mistake& a, const Mistake& b) {
    return std::tuple(!a.at.in_file(), a.at.line, a.at.column) < std::tuple(!b.at.in_file(), b.at.line, b.at.column);
  });
  std::vector<std::string> lines;
  for (const Mistake& mistake : mistakes_) {
    lines.push_back(fmt::format("{}: {}: {}", mistake.at.text(), mistake.key, mistake.text));
  }
  throw Error(Fault::spec, fmt::format("{}", fmt::join(lines, "\n")))
      .advise("`estrain train --keys` lists every key with its type, range and default");
}

}  // namespace estrain::spec
