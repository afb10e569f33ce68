#include "core/state/run_directory/verdict.h"

#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/fault_words.h"
#include "core/base/files/files.h"
#include "core/base/files/run_files.h"
#include "core/base/json/json.h"
#include "core/base/json/json_text.h"
#include "core/state/run_directory/run_owner.h"

namespace estrain::run_directory {

RunVerdict RunVerdict::failed(const Error& error) {
  const std::string advice = error.advice().empty() ? std::string(words_of(error.fault()).hint) : error.advice();
  const bool stopped = error.exit_code() == estrain::exit_code(Fault::interrupted);
  return {error.exit_code(), stopped ? "stopped" : "failed", error.message(), advice, {}, {}};
}

void write_verdict(const std::string& run, const RunVerdict& verdict) {
  const RunOwner self = RunOwner::this_process();
  Json json = {{"exit_code", verdict.exit_code}, {"outcome", verdict.outcome}, {"cause", verdict.cause},
               {"advice", verdict.advice},       {"host", self.host},          {"pid", self.pid},
               {"time", utc_timestamp()}};
  if (verdict.step) json["step"] = *verdict.step;
  if (verdict.saved_step) json["saved_step"] = *verdict.saved_step;
  try {
    write_file_atomically(RunFiles(run).verdict(), json_text(json) + "\n");
  } catch (const Error& error) {
    fmt::print(stderr, "warning: {}\n", error.message());
  }
}

void remove_verdict(const std::string& run) { ::unlink(RunFiles(run).verdict().c_str()); }

}  // namespace estrain::run_directory
