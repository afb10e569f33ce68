#pragma once
// Which algorithm computes an operation: chosen once among the deterministic ones, by measuring, and then kept.
//
// Libraries choose by heuristics, which change with their version and the driver, or by measuring, which comes out
// otherwise each time; either way the bits of a result change with the choice. So the choice is made in one place and
// written down: by a worker that meets an operation for the first time, while it holds the run's file of choices. All
// other workers, and the same one after a restart, find it there. A checkpoint carries the choices of its run.
//
//   1. the run's own choice: its file, into which a resume puts the choices of its checkpoint before workers start; to
//      find it there nobody waits for who chooses meanwhile
//   2. this user's choice for the type of device (the store): two runs on machines of one kind agree
//   3. the fastest candidate, measured now; written to the store, then to the run's file
//
// What (1) names and this device does not have is refused, since another algorithm gives other bits; what (2) names is
// chosen anew. Another version of the libraries may compute otherwise under the same name: (1) is used with a warning,
// (2) chosen anew. Where want of memory kept a candidate from being tried, what is chosen goes to the run's file alone.

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/algorithms/choice_file.h"
#include "core/algorithms/key.h"

namespace estrain::algorithms {

// The algorithms that a library has for one operation on the device at hand. Texts name them for good: they are built
// from the text alone.
class Algorithms {
 public:
  virtual ~Algorithms() = default;

  // Deterministic ones, in ascending order of what they are called, which decides ties. Calls `between` now and then
  // where it takes long.
  virtual std::vector<std::string> candidates(const std::function<void()>& between) = 0;
  // Why this algorithm cannot be used here; nothing where it can.
  virtual std::optional<std::string> refusal(const std::string& algorithm) = 0;
  // Of one run; nothing where it does not run, or not twice with the same bits. What takes much longer than `fastest`,
  // the least so far, need not be known well.
  virtual std::optional<double> seconds(const std::string& algorithm, double fastest) = 0;
  // Why a candidate that did not run may run another time, such as want of memory; null: there is none of that kind.
  virtual std::exception_ptr obstacle() { return nullptr; }
  // Why none of those that the library has is a candidate, in words; "" where it has none.
  virtual std::string objection() { return ""; }
};

// How a run pins.
struct Pinning {
  std::string run{};    // file of the run's choices
  std::string store{};  // file of this user's, on this machine; empty: there is none
  // An algorithm of the run's that this device lacks is replaced for this type of device: other bits.
  bool may_replace = false;
  // Another process that holds the store, and adds nothing to it for so long, makes it one that cannot be used.
  int64_t patience_ns = 60'000'000'000;
  std::function<void()> beat{};                         // called while it waits or measures: the worker is at work
  std::function<void(const std::string&)> warn{};       // told, in a sentence, of what a user should know
  std::function<void(const Choice&, size_t)> chosen{};  // told of a choice that was measured, and among how many
};

class PinnedAlgorithms {
 public:
  // `device`: its type, which choices are kept by. `libraries`: their versions, in words.
  PinnedAlgorithms(Pinning pinning, std::string device, std::string libraries);

  // The algorithm for `key`; empty: the library has none, on any worker of the run. Thread-safe. Throws
  // Fault::infeasible (the run's is not among those that this device has), Fault::io, Fault::corrupt, and what
  // `algorithms` throws.
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

// The fastest of them, as measured; of those within a few percent of it the first. Empty where none runs.
std::string fastest(const std::vector<std::string>& candidates,
                    const std::function<std::optional<double>(const std::string&, double fastest)>& seconds);

// Puts a checkpoint's choices into the file of the run that goes on from it: they win over the file's own.
// Called before workers start. `text`: Choices::to_text; `source` names the checkpoint. Throws Fault::corrupt,
// Fault::io.
void adopt(const std::string& run_file, std::string_view text, std::string_view source);

// Where a user's choices are kept: beside the database of profiles. Empty where that has no place.
std::string store_beside(const std::string& profiles_path);

}  // namespace estrain::algorithms
