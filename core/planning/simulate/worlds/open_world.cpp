#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/json_lines.h"
#include "core/base/median.h"
#include "core/planning/simulate/world.h"
#include "core/planning/simulate/worlds/worlds.h"

namespace estrain::simulate {
namespace {

bool has_table(const std::string& folder, const std::string& name) {
  std::error_code none;
  return std::filesystem::exists(folder + "/" + name, none) ||
         std::filesystem::exists(folder + "/" + name + ".gz", none);
}

}  // namespace

std::unique_ptr<World> open_world(const WorldFiles& files) {
  if (files.folder.empty()) return open_durations_world(files);
  std::error_code none;
  if (!std::filesystem::is_directory(files.folder, none)) {
    throw Error::make(Fault::usage, "{} is not a folder", files.folder)
        .advise("--world DIR: a folder with the tables of one world");
  }
  if (has_table(files.folder, "pollux_placements.csv")) {
    if (!files.cluster.empty()) throw Error(Fault::usage, "--cluster: Pollux's world has 16x4 devices");
    return open_pollux_world(files.folder, files.trace);
  }
  if (has_table(files.folder, "layer_profiles.csv") && is_burst_trace(files.trace)) return open_burst_world(files);
  if (has_table(files.folder, "step_times.csv")) return open_easyscale_world(files);
  if (has_table(files.folder, "elasticflow_throughputs.csv") && is_elasticflow_trace(files.trace))
    return open_elasticflow_world(files);
  return open_durations_world(files);
}

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
