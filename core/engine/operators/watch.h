#pragma once
// A Watch is for a model with code that may call other operators in a later mini-batch than in the first mini-batch,
// seen by the scan (scan.h): a module in Python. At D2 each step must have covered operators alone.

#include <memory>
#include <string>

#include "core/engine/operators/scan.h"

namespace estrain::operators {

// Watches this thread, and autograd's threads at work for it, while the object lives. Only one Watch may exist at a
// time.
class Watch {
 public:
  struct Observed;

  // `options` as for scan(); the `replaced` of the options must outlive the Watch.
  explicit Watch(const ScanOptions& options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Returns the first called operator without a portable kernel; empty: no such call.
  const std::string& uncovered() const;

 private:
  std::unique_ptr<Observed> observed_;
};

}  // namespace estrain::operators
