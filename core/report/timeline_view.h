#pragma once
// The time line of a run as HTML: a picture of which worker trained which ESTs when, with what happened marked above
// it; then the same in tables, and where the time went.
//
// In the picture every EST is a row and running time goes to the right. A block's colour names the worker. Stages too
// short to be seen are drawn together.

#include <string>

#include "core/report/timeline.h"

namespace estrain::report {

// `id` is a name of this page alone, and begins all names that the part gives.
std::string timeline_html(const std::string& id, const Timeline& timeline);
std::string time_spent_html(const Timeline& timeline);
std::string devices_html(const Timeline& timeline);
std::string events_html(const std::string& id, const Timeline& timeline);

}  // namespace estrain::report
