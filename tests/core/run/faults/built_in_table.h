#pragma once

#include <string>

#include "core/base/error.h"
#include "core/run/faults/diagnosis.h"

namespace estrain::faults {

inline const FaultTable& table() {
  static const FaultTable built_in = FaultTable::built_in();
  return built_in;
}

inline const FaultCause& cause_called(const FaultTable& in, const std::string& id) {
  for (const FaultCause& cause : in.causes()) {
    if (cause.id == id) return cause;
  }
  throw Error::make(Fault::usage, "no cause \"{}\"", id);
}

}  // namespace estrain::faults
