#include "core/pool/daemon/checks.h"

#include <filesystem>

#include "core/base/clock.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"
#include "core/pool/hosts/own_command.h"

namespace estrain::pool {

void Checks::carry_out(const dispatch::CheckJob& action) {
  waiting_.push_back(action.job);
  start();
}

void Checks::start() {
  if (waiting_.empty() || std::ssize(processes_) >= dispatch::kChecksAtOnce) return;
  const dispatch::JobId id = waiting_.front();
  waiting_.pop_front();
  if (job_of(id).phase != dispatch::Phase::checking) return start();
  std::filesystem::remove(directory_.check_log(id));
  try {
    processes_[id] = ChildProcess::start(
        own_command({"check", directory_.spec(id), "--run", directory_.run(id), "--json"}, directory_.check_log(id)));
  } catch (const Error& error) {
    dispatcher_.tell(dispatch::Checked{id, false, error.message()});
    start();
  }
}

void Checks::on_ended(dispatch::JobId id) {
  const ChildEnd end = processes_[id].wait();
  processes_.erase(id);
  const Json answer = answer_in(directory_.check_log(id));
  dispatch::Checked result{id, end.code == 0 && !end.signaled, ""};
  if (!result.fine) {
    for (const Json& check : list_in(answer, "checks")) {
      if (text_in(check, "severity").value_or("") != "error") continue;
      result.reason += (result.reason.empty() ? "" : "; ") + text_in(check, "check").value_or("") + ": " +
                       text_in(check, "message").value_or("");
    }
    if (result.reason.empty()) result.reason = end.text() + ", see " + directory_.check_log(id);
  }
  const Json& seconds = object_in(answer, "seconds");
  const bool portable = job_of(id).request.mixes_types;
  result.mini_batch_seconds = number_in(seconds, portable ? "portable" : "torch").value_or(0);
  result.total_steps = whole_in(answer, "total_steps").value_or(0);
  if (answer.contains("work")) result.work = json_text(answer.at("work"));
  dispatcher_.tell(result);
  start();
}

}  // namespace estrain::pool
