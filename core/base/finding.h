#pragma once
// A result of a check before a job starts: the subject, whether it is fine, and advice if not. A check reports all of
// its findings; an Error (error.h) ends the command.

#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace estrain {

enum class Severity { ok, warning, error };

inline std::string_view severity_name(Severity severity) {
  return severity == Severity::ok ? "ok" : severity == Severity::warning ? "warning" : "error";
}

// Who corrects an error: the author of the job (spec, data, device list), or the administrator of the machine. The exit
// code of `estrain check` depends on the origin. Only errors need an origin.
enum class Origin { user, machine };

struct Finding {
  std::string check;  // the subject in a word or two: "disk space"
  Severity severity = Severity::ok;
  std::string seen;    // "12 GiB free, 3 GiB needed"
  std::string advice;  // empty if nothing needs doing
  Origin origin = Origin::user;

  bool operator==(const Finding&) const = default;

  static Finding fine(std::string check, std::string seen) {
    return {std::move(check), Severity::ok, std::move(seen), ""};
  }
  static Finding warn(std::string check, std::string seen, std::string advice) {
    return {std::move(check), Severity::warning, std::move(seen), std::move(advice)};
  }
  static Finding user_error(std::string check, std::string seen, std::string advice) {
    return {std::move(check), Severity::error, std::move(seen), std::move(advice)};
  }
  static Finding machine_error(std::string check, std::string seen, std::string advice) {
    return {std::move(check), Severity::error, std::move(seen), std::move(advice), Origin::machine};
  }
  // Returns an error with the words of an Error that a part of the check threw. A device, peer, io or bug fault is of
  // the machine, any other fault of the user.
  static Finding of(std::string check, const Error& error) {
    const Fault fault = error.fault();
    const bool machine = fault == Fault::device || fault == Fault::peer || fault == Fault::io || fault == Fault::bug;
    return {std::move(check), Severity::error, error.message(), error.advice(),
            machine ? Origin::machine : Origin::user};
  }
};

}  // namespace estrain
