#include "core/spec/parsing/findings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace estrain::spec {

void Findings::add(toml::Location at, std::string_view key, std::string what_is_wrong) {
  findings_.push_back({std::move(at), std::string(key), std::move(what_is_wrong)});
}

bool Findings::about(std::string_view key) const {
  const auto concerns = [&](const Finding& finding) {
    return finding.key == key || key.rfind(finding.key + ".", 0) == 0;
  };
  return std::any_of(findings_.begin(), findings_.end(), concerns);
}

void Findings::throw_if_any() {
  if (findings_.empty()) return;
  std::stable_sort(findings_.begin(), findings_.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(!a.at.in_file(), a.at.line, a.at.column) < std::tuple(!b.at.in_file(), b.at.line, b.at.column);
  });
  std::vector<std::string> lines;
  for (const Finding& finding : findings_) {
    lines.push_back(fmt::format("{}: {}: {}", finding.at.text(), finding.key, finding.text));
  }
  throw Error(Fault::spec, fmt::format("{}", fmt::join(lines, "\n")))
      .advise("`estrain train --keys` lists every key with its type, range and default");
}

}  // namespace estrain::spec
