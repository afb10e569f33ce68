#pragma once
// Ends a worker after an audit with a wrong result: Fault::device (this device computes wrong results, or the audit
// cannot tell which of two devices does) or Fault::corrupt (memory changed).

#include <utility>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace estrain::audit {

struct AuditError : Error {
  AuditError(Error error, Step last_good) : Error(std::move(error)), vouched(last_good) {}

  Step vouched;  // the newest step for which audits found this worker, or the state, correct
};

}  // namespace estrain::audit
