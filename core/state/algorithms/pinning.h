#pragma once
// Chooses the algorithm of each operation once, among the deterministic ones, by measuring; then keeps it.
//
// Libraries choose by heuristics, which change with their version and the driver, or by measuring, which varies; the
// bits change with the choice. So the first worker that meets an operation chooses, while it holds the run's file of
// choices. All other workers, and the same one after a restart, find the choice there. Checkpoints carry it.
//
//   1. the run's own choice: its file, into which a resume puts the choices of its checkpoint before workers start; a
//      lookup does not wait for processes that are choosing
//   2. this user's choice for the type of device (the store): runs on machines of one kind agree
//   3. the fastest candidate, measured now; written to the store, then to the run's file
//
// If this device lacks the algorithm of (1), it is refused, since another algorithm gives other bits; if it lacks that
// of (2), it chooses again. Another version of the libraries may compute differently under the same name: (1) is used
// with a warning, (2) is chosen again. If lack of memory prevented trying a candidate, the choice goes only to the
// run's file.

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/state/algorithms/choice_file.h"
#include "core/state/algorithms/key.h"

namespace estrain::algorithms {

// The algorithms of a library for one operation on the current device. Their texts are permanent names, from which they
// can be rebuilt.
class Algorithms {
 public:
  virtual ~Algorithms() = default;

  // The deterministic ones, sorted by name, which decides ties. Calls `between` now and then if it takes
  // long.
  virtual std::vector<std::string> candidates(const std::function<void()>& between) = 0;
  // Why this algorithm is unusable here; nothing if it is usable.
  virtual std::optional<std::string> refusal(const std::string& algorithm) = 0;
  // The seconds of one run; nothing if it fails, or if two runs give different bits. Need not be precise if much longer
  // than `fastest`, the least so far.
  virtual std::optional<double> seconds(const std::string& algorithm, double fastest) = 0;
  // Why a failed candidate may run another time, for example lack of memory; null: no such reason.
  virtual std::exception_ptr obstacle() { return nullptr; }
  // Why none of the library's algorithms is a candidate; "" if it has none.
  virtual std::string objection() { return ""; }
};

// The settings for pinning in a run.
struct Pinning {
  std::string run{};    // file of the run's choices
  std::string store{};  // file of this user's choices on this machine; empty: none
  // Whether to replace an algorithm of the run that this type of device lacks, with other bits.
  bool may_replace = false;
  // If another process holds the store for this long without adding to it, the store counts as unusable.
  int64_t patience_ns = 60'000'000'000;
  std::function<void()> beat{};                         // called during waits and measurements, as a sign of life
  std::function<void(const std::string&)> warn{};       // receives warnings for the user, one sentence each
  std::function<void(const Choice&, size_t)> chosen{};  // called for a measured choice, with the number of candidates
};

class PinnedAlgorithms {
 public:
  // `device`: the type of device, part of a choice's key. `libraries`: their versions, in words.
  PinnedAlgorithms(Pinning pinning, std::string device, std::string libraries);

  // The algorithm for `key`; empty: the library has none, for all workers of the run. Thread-safe. Throws
  // Fault::infeasible (this device lacks the run's algorithm), Fault::io, Fault::corrupt, and what `algorithms`
  // throws.
  std::string algorithm_for(const Key& key, Algorithms& algorithms);

 private:
  const Choice* known(const Choices& run, const std::string& key, Algorithms& algorithms) const;
  const std::string& require(const Choice& choice, Algorithms& algorithms);
  void warn_of_libraries(const Choice& choice);
  void warn_of_objection(const std::string& key, const std::string& objection);
  void warn(const std::string& sentence) const;
  const Choice* usable(const Choices& store, const std::string& key, Algorithms& algorithms) const;
  Choice from_store_or_measured(const std::string& key, Algorithms& algorithms);
  Choice measured(const std::string& key, Algorithms& algorithms);
  std::optional<ChoiceFile::Held> hold_store();
  void beat() const;

  std::mutex one_at_a_time_;
  const Pinning pinning_;
  const std::string device_, libraries_;
  bool warned_of_libraries_ = false, warned_of_objection_ = false;
  ChoiceFile run_;
  std::optional<ChoiceFile> store_;
};

// The first one within a few percent of the fastest measured. Empty if none runs.
std::string fastest(const std::vector<std::string>& candidates,
                    const std::function<std::optional<double>(const std::string&, double fastest)>& seconds);

// Puts a checkpoint's choices into the file of the run that resumes from it; they override the file's own. Call
// it before workers start. `text`: Choices::to_text; `source` names the checkpoint. Throws Fault::corrupt,
// Fault::io.
void adopt(const std::string& run_file, std::string_view text, std::string_view source);

// The path of a user's choices: beside the database of profiles. Empty if that has no path.
std::string store_beside(const std::string& profiles_path);

}  // namespace estrain::algorithms
