#include "core/hosts/agents/own_greeting.h"

#include "core/base/process/build_id.h"

namespace estrain::hosts {

net::Greeting own_greeting(const std::string& host, const std::string& purpose, int64_t term) {
  net::Greeting own;
  own.version = ESTRAIN_VERSION;
  own.build = build_id_of_program() * 31 + build_id_of_code(reinterpret_cast<const void*>(&own_greeting));
  own.host = host;
  own.purpose = purpose;
  own.term = term;
  return own;
}

}  // namespace estrain::hosts
