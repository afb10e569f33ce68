#pragma once
// The one exception type of estrain: the kind of fault, and a chain of causes from the outermost context inwards,
// printed as "resume: read checkpoint run/checkpoints/step-000000100.h5: /model/fc.weight: checksum differs".
//
// Thrown when the current command cannot continue; an expected "no" is a return value. The folder that owns a library
// (toml++, HDF5, c10, std::filesystem) translates the library's exceptions into this type.

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace estrain {

enum class Fault {
  usage,        // the command line is wrong
  spec,         // the job spec is wrong
  infeasible,   // well-formed, but cannot be done (more workers than ESTs)
  corrupt,      // a file is truncated, or the checksum differs
  mismatch,     // two things that must agree do not (checkpoint of another model)
  device,       // a device is missing or failed
  peer,         // another process of the run ended or does not answer
  io,           // the operating system refused (disk full, no permission)
  interrupted,  // asked to stop; resumable
  bug,          // an invariant of estrain is broken
};

// The word used in messages and JSON: "spec", "io", …
std::string_view fault_name(Fault fault);

// Returns the exit code of a command ended by this fault: 2 for usage, spec and infeasible, 75 for interrupted, else 1.
int exit_code(Fault fault);

class Error : public std::exception {
 public:
  Error(Fault fault, std::string what_happened) : fault_(fault), message_(std::move(what_happened)) {}

  template <typename... Args>
  static Error make(Fault fault, fmt::format_string<Args...> format, Args&&... args) {
    return Error(fault, fmt::format(format, std::forward<Args>(args)...));
  }

  // Returns the same error with a prefix: "context: message".
  Error within(std::string_view context) const {
    Error outer = *this;
    outer.message_ = std::string(context) + ": " + message_;
    return outer;
  }
  // Adds advice for the user; printed on a separate line.
  Error advise(std::string advice) const {
    Error advised = *this;
    advised.advice_ = std::move(advice);
    return advised;
  }

  // Names a cause of the fault table (run/faults/faults.toml). The table finds the cause by this id, whatever the
  // message says.
  Error caused_by(std::string cause) const {
    Error error = *this;
    error.cause_ = std::move(cause);
    return error;
  }

  // Sets an exit code other than the fault's.
  Error exiting_with(int code) const {
    Error error = *this;
    error.exit_code_ = code;
    return error;
  }

  Fault fault() const { return fault_; }
  int exit_code() const { return exit_code_ != 0 ? exit_code_ : estrain::exit_code(fault_); }
  const std::string& message() const { return message_; }
  const std::string& advice() const { return advice_; }
  const std::string& cause() const { return cause_; }  // empty: the error names no cause
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Fault fault_;
  std::string message_;
  std::string advice_;
  std::string cause_;
  int exit_code_ = 0;  // 0: the exit code of the fault
};

// A process that can only write to its log names the cause at the end of a line: "… [cause: data_file_shortened]".
inline constexpr std::string_view kCauseMark = " [cause: ", kCauseMarkEnd = "]";

// Runs `body`, and prefixes an Error of `body` with `context`.
template <typename Body>
decltype(auto) with_context(std::string_view context, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    throw error.within(context);
  }
}

// Returns an io Error that ends with the text of `error_number` (an errno value).
Error system_error(std::string_view what_failed, int error_number);

}  // namespace estrain
