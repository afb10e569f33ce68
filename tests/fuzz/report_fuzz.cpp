// A run directory read by `estrain report`: any events and metrics give a page, and nothing in them becomes an HTML
// element.
#include <set>

#include "core/base/files/files.h"
#include "core/inspect/report/page.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

const std::set<std::string_view> kElements = {
    "!DOCTYPE", "html",    "head",   "meta",    "title",  "style",      "body",   "header", "h1",
    "h2",       "h3",      "nav",    "a",       "main",   "section",    "dl",     "div",    "dt",
    "dd",       "p",       "strong", "pre",     "figure", "figcaption", "small",  "ul",     "li",
    "i",        "b",       "span",   "svg",     "path",   "fieldset",   "legend", "label",  "input",
    "details",  "summary", "table",  "caption", "thead",  "tbody",      "tr",     "th",     "td"};

void require_own_elements(std::string_view html) {
  for (size_t at = html.find('<'); at != html.npos; at = html.find('<', at + 1)) {
    std::string_view name = html.substr(at + 1);
    if (name.starts_with("/")) name.remove_prefix(1);
    name = name.substr(0, name.find_first_of(" >"));
    require(kElements.contains(name), "only elements of the page's own");
  }
}

void read(std::string_view bytes) {
  static const Folder folder;
  const std::string run = folder.path();
  const size_t half = bytes.size() / 2;
  write_file_atomically(run + "/events.jsonl", bytes.substr(0, half));
  write_file_atomically(run + "/metrics.jsonl", bytes.substr(half));
  const report::RunRecords records = report::read_run(run);
  report::RunDifference difference;
  difference.words = std::string(bytes);
  require_own_elements(report::page({records}, {}));
  require_own_elements(report::page({records, records}, {difference}));
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::read(estrain::fuzz::text_of(data, size));
  return 0;
}
