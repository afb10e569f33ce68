#pragma once
// The timeline of a run as HTML: a picture of the ESTs of each worker over time, with events marked above; then the
// same in tables, and the uses of time.
//
// In the picture every EST is a row, and running time goes to the right. A block's colour identifies the worker. Stages
// too short to be visible are merged.

#include <string>

#include "core/inspect/report/charts/timeline.h"

namespace estrain::report {

// `id` must be unique on the page; `id` is the prefix of all names in this part.
std::string timeline_html(const std::string& id, const Timeline& timeline);
std::string time_spent_html(const Timeline& timeline);
std::string devices_html(const Timeline& timeline);
std::string events_html(const std::string& id, const Timeline& timeline);

}  // namespace estrain::report
