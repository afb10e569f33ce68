#include "core/planning/simulate/worlds/measured_charge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/json_lines.h"
#include "core/base/median.h"

namespace estrain::simulate {

double measured_charge(const std::string& events_path) {
  std::vector<double> charges;
  for_each_object(events_path, [&](const Json& event) {
    if (!event.contains("event") || event.at("event") != "resize") return;
    double seconds = 0;
    for (const char* key : {"stood_still_seconds", "lost_while_warming_seconds"}) {
      if (event.contains(key) && event.at(key).is_number()) seconds += event.at(key).get<double>();
    }
    charges.push_back(std::max(0.0, seconds));
  });
  if (charges.empty()) {
    throw Error::make(Fault::infeasible, "{} has no resize", events_path)
        .advise("--charge measured needs --run RUN, a resized run");
  }
  return upper_median(std::move(charges));
}

}  // namespace estrain::simulate
