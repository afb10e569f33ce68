// The table of events names what the sources write, and nothing else.

// Under a sanitizer, GCC 12 takes parts of <regex> for uninitialized.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "core/state/record/event_names.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace estrain::record {
namespace {

// The string literals in the first argument of every call that writes an event.
std::set<std::string> written_names(const std::string& text) {
  static const std::regex call(R"(\b(log_event|turn\.log|journal\.log)\(([^,{;]*)[,{])"), literal(R"re("([a-z_]+)")re");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
    const std::string first = (*at)[2];
    for (std::sregex_iterator word(first.begin(), first.end(), literal); word != end; ++word) names.insert((*word)[1]);
  }
  return names;
}

TEST_CASE("the table of events has exactly those that the sources write") {
  std::set<std::string> written, known;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ESTRAIN_SOURCE_DIR "/core")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    written.merge(written_names({std::istreambuf_iterator<char>(file), {}}));
  }
  for (const EventName& event : event_names) known.emplace(event.name);
  CHECK(known.size() == std::size(event_names));
  CHECK(std::is_sorted(std::begin(event_names), std::end(event_names),
                       [](const EventName& a, const EventName& b) { return a.name < b.name; }));
  for (const std::string& name : written) CHECK_MESSAGE(known.contains(name), name, " is written and not in the table");
  for (const std::string& name : known) CHECK_MESSAGE(written.contains(name), name, " is in the table and not written");
}

}  // namespace
}  // namespace estrain::record
