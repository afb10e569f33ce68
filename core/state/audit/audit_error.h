#pragma once
// How a worker ends after an audit that found something wrong: Fault::device (this device computes wrong results, or
// nobody can tell which of two does) or Fault::corrupt (memory changed).

#include <utility>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace estrain::audit {

struct AuditError : Error {
  AuditError(Error error, Step last_good) : Error(std::move(error)), vouched(last_good) {}

  Step vouched;  // the newest step for which audits found this worker, or the state, correct
};

}  // namespace estrain::audit
