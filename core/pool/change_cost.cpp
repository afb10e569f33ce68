#include "core/pool/change_cost.h"

#include "core/base/clock.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {

double change_cost(const std::string& run, double asked) {
  if (asked <= 0) return 0;
  const std::string since = utc_timestamp(asked);
  double cost = 0;
  for_each_object(run_directory::RunDirectory(run).events(), [&](const Json& event) {
    if (text_in(event, "event").value_or("") != "resize" || text_in(event, "time").value_or("") < since) return;
    cost = cost_in(event);
  });
  return cost;
}

double cost_in(const Json& resize) {
  return number_in(resize, "stood_still_seconds").value_or(0) +
         number_in(resize, "lost_while_warming_seconds").value_or(0);
}

}  // namespace estrain::pool
