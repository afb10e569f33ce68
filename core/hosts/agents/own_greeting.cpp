#include "core/hosts/agents/own_greeting.h"

#include <estrain/version.h>

#include <filesystem>

#include "core/base/process/build_id.h"

namespace estrain::hosts {

net::Greeting own_greeting(const std::string& run, const std::string& host, const std::string& purpose, int64_t term) {
  net::Greeting own;
  own.run = run;
  own.version = ESTRAIN_VERSION;
  own.build = build_id_of_program() * 31 + build_id_of_code(reinterpret_cast<const void*>(&own_greeting));
  own.host = host;
  own.purpose = purpose;
  own.term = term;
  return own;
}

std::string name_of_run(const std::string& directory) {
  std::error_code failure;
  std::filesystem::path path = std::filesystem::weakly_canonical(directory, failure);
  if (failure) path = directory;
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace estrain::hosts
