#include "core/run/launch/preflight/resumed_data.h"

#include <algorithm>
#include <iterator>

#include "core/base/clock.h"
#include "core/base/json/json.h"
#include "core/data/format_table.h"
#include "core/data/job_data.h"

namespace estrain::launch {
namespace {

Json content_of(const std::optional<data::FileIdentity>& file) {
  if (!file) return nullptr;
  return {{"size", file->size}, {"sampled", file->sampled}, {"whole", file->whole ? Json(*file->whole) : Json()}};
}

std::vector<data::DataChange> changes_among(const data::DataIdentity& identity,
                                            const std::vector<data::FileName>& names) {
  return with_context("data", [&]() -> std::vector<data::DataChange> {
    if (data::is_untouched(identity, names)) return {};
    return data::recognize(identity, data::open_files(names)).changes;
  });
}

}  // namespace

std::vector<data::DataChange> changes_since(const std::string& known, const spec::DataSection& section) {
  return changes_among(data::DataIdentity::from_json(known),
                       with_context("data", [&] { return data::file_names(section); }));
}

std::vector<data::DataChange> changes_since(const std::string& known, const spec::JobSpec& spec) {
  data::DataIdentity identity = data::DataIdentity::from_json(known);
  std::erase_if(identity.files, [](const data::FileIdentity& file) { return !file.samples.empty(); });
  std::vector<data::FileName> names = data::job_file_names(spec);
  std::ranges::copy(data::modules_in(spec, identity), std::back_inserter(names));
  return changes_among(identity, names);
}

std::string change_log_lines(const std::vector<data::DataChange>& changes, Step step) {
  std::string lines;
  for (const data::DataChange& change : changes) {
    const data::FileIdentity& file = change.is ? *change.is : *change.was;
    const Json line = {{"time", utc_timestamp()},
                       {"change", "data"},
                       {"step", step.value},
                       {"what", file.what},
                       {"was", content_of(change.was)},
                       {"is", content_of(change.is)},
                       {"path", file.path},
                       {"words", change.in_words()}};
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return lines;
}

}  // namespace estrain::launch
