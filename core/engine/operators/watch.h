#pragma once
// Watches a model whose code may call other operators in a later mini-batch than in the first, which the scan (scan.h)
// has seen: a module in Python. At D2 each step must have covered operators alone.

#include <memory>
#include <string>

#include "core/engine/operators/scan.h"

namespace estrain::operators {

// Watches this thread while the object lives. Only one may exist at a time.
class Watch {
 public:
  struct Observed;

  // `options` as for scan(); their `replaced` must outlive it.
  explicit Watch(const ScanOptions& options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // The first operator without a portable kernel that was called; empty: none.
  const std::string& uncovered() const;

 private:
  std::unique_ptr<Observed> observed_;
};

}  // namespace estrain::operators
