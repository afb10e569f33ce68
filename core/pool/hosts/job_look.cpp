#include "core/pool/hosts/job_look.h"

#include "core/base/error.h"
#include "core/base/json/json_fields.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

std::optional<Json> look_at_run(const std::string& run, int milliseconds) {
  if (!launch::launcher_answers(run)) return std::nullopt;
  try {
    const Json status = launch::ask_launcher(run, decisions::StatusRequest{}, milliseconds);
    Json seen = Json::object();
    for (const char* key : {"state", "step", "total_steps", "held", "batch", "lr_factor", "epoch", "gradient_noise"}) {
      if (status.contains(key)) seen[key] = status.at(key);
    }
    seen["step_seconds"] = number_in(object_in(status, "plan"), "measured_step_seconds").value_or(0);
    seen["devices_at_work"] = static_cast<int64_t>(list_in(status, "workers").size());
    return seen;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace estrain::pool
