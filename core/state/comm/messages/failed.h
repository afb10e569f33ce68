#pragma once
// The last message of a process which ends by an error.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json/fields.h"

namespace estrain::comm {

struct Failed {
  static constexpr std::string_view name = "failed";
  int fault = static_cast<int>(Fault::bug);
  std::string message, advice, cause;

  Failed() = default;
  explicit Failed(const Error& error)
      : fault(static_cast<int>(error.fault())),
        message(error.message()),
        advice(error.advice()),
        cause(error.cause()) {}
  Error error() const { return Error(static_cast<Fault>(fault), message).advise(advice).caused_by(cause); }

  ESTRAIN_FIELDS(fault, message, advice, cause)
};

// Prints the error into the log of a process which ends by the error. The log may lie on a full disk: a failure to
// print is ignored, and Failed is sent before.
inline void print_last_error(const Error& error) {
  std::fputs(fmt::format("{}\n{}\n", error.message(), error.advice()).c_str(), stderr);
}

}  // namespace estrain::comm
