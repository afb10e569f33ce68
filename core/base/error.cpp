#include "core/base/error.h"

#include <cerrno>
#include <cstring>

namespace estrain {

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::usage:
      return "usage";
    case Fault::spec:
      return "spec";
    case Fault::infeasible:
      return "infeasible";
    case Fault::corrupt:
      return "corrupt";
    case Fault::mismatch:
      return "mismatch";
    case Fault::device:
      return "device";
    case Fault::peer:
      return "peer";
    case Fault::io:
      return "io";
    case Fault::interrupted:
      return "interrupted";
    case Fault::bug:
      return "bug";
  }
  return "bug";
}

int exit_code(Fault fault) {
  switch (fault) {
    case Fault::usage:
    case Fault::spec:
    case Fault::infeasible:
      return 2;
    case Fault::interrupted:
      return 75;
    default:
      return 1;
  }
}

Error system_error(std::string_view what_failed, int error_number) {
  Error error(Fault::io, fmt::format("{}: {}", what_failed, std::strerror(error_number)));
  if (error_number == ENOSPC || error_number == EDQUOT)
    return error.advise("free disk space, or point the run directory at another disk");
  if (error_number == EFBIG) return error.advise("raise the limit on the size of a file: ulimit -f unlimited");
  if (error_number == EACCES || error_number == EPERM) return error.advise("check the owner and mode of the path");
  return error;
}

}  // namespace estrain
