#pragma once
// Chooses the algorithm of each operation once, among the deterministic algorithms, by measuring; then keeps the
// choice.
//
// Libraries choose by heuristics, which change with version and driver, or by measuring, which varies; the bits change
// with the choice. So the first worker with an operation chooses, while holding the run's file of choices. All later
// workers find the choice in the file. Checkpoints carry the choice.
//
//   1. the run's own choice, in the run's file: a resume puts the choices of the checkpoint into this file before any
//      worker starts; a lookup does not wait for processes that are choosing
//   2. this user's choice for the type of device (the store): runs on machines of one kind agree
//   3. the fastest candidate, measured now; written to the store, then to the run's file
//
// A device without the algorithm of (1) is refused, since another algorithm gives other bits; without the algorithm of
// (2), the worker chooses again. Another version of the libraries may compute differently under the same name: (1) is
// used with a warning, (2) is chosen again. If a candidate lacked memory, the choice goes only to the run's file.

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/state/algorithms/choice_file.h"

namespace estrain::algorithms {

// A Key is the key of a choice: an operation with everything that determines the possible algorithms and the speed of
// each, as text. The text is the same on every machine and in every version:
//
//   convolution_forward dilation=1x1 element=f32 filter=64x3x7x7 groups=1 input=8x3x224x224 math=exact …
//
// The name of the operation, then its fields, sorted by name.
class Key {
 public:
  // Names, fields and values consist of letters, digits, '_' and '-'. Throws Fault::bug for other characters, which
  // would make the text ambiguous.
  explicit Key(std::string_view operation);
  Key& set(std::string_view field, std::string_view value);

  std::string text() const;

 private:
  std::string operation_;
  std::map<std::string, std::string, std::less<>> fields_;
};

// The algorithms of a library for one operation on the current device. An algorithm's text is a permanent name, from
// which the algorithm can be rebuilt.
class LibraryAlgorithms {
 public:
  virtual ~LibraryAlgorithms() = default;

  // Returns the deterministic algorithms, sorted by name, which decides ties. Calls `between` now and then if the
  // search takes long.
  virtual std::vector<std::string> candidates(const std::function<void()>& between) = 0;
  // Returns why this algorithm is unusable here; nothing if it is usable.
  virtual std::optional<std::string> refusal(const std::string& algorithm) = 0;
  // Returns the seconds of one run; nothing if the run fails, or if two runs give different bits. Need not be precise
  // if much longer than `fastest`, the least so far.
  virtual std::optional<double> seconds(const std::string& algorithm, double fastest) = 0;
  // Returns why a failed candidate may run another time, for example lack of memory; null: no reason.
  virtual std::exception_ptr obstacle() { return nullptr; }
  // Returns why the library has algorithms but no candidate; "" if the library has no algorithm.
  virtual std::string objection() { return ""; }
};

// The settings for pinning in a run.
struct Pinning {
  std::string run{};    // file of the run's choices
  std::string store{};  // file of this user's choices on this machine; empty: no file
  // Whether to replace an algorithm of the run which this type of device lacks, with other bits.
  bool may_replace = false;
  // If another process holds the store for this long without adding to the store, the store counts as unusable.
  int64_t patience_ns = 60'000'000'000;
  std::function<void()> beat{};                         // called during waits and measurements, as a sign of life
  std::function<void(const std::string&)> warn{};       // receives warnings for the user, one sentence each
  std::function<void(const Choice&, size_t)> chosen{};  // called for a measured choice, with the number of candidates
};

class PinnedAlgorithms {
 public:
  // `device`: the type of device, part of a choice's key. `libraries`: the libraries' versions, in words.
  PinnedAlgorithms(Pinning pinning, std::string device, std::string libraries);

  // Returns the algorithm for `key`; empty: the library has no algorithm, for all workers of the run. Thread-safe.
  // Throws Fault::infeasible (this device lacks the run's algorithm), Fault::io, Fault::corrupt, and errors of
  // `algorithms`.
  std::string algorithm_for(const Key& key, LibraryAlgorithms& algorithms);

 private:
  const Choice* known(const Choices& run, const std::string& key, LibraryAlgorithms& algorithms) const;
  const std::string& require(const Choice& choice, LibraryAlgorithms& algorithms);
  void warn_of_libraries(const Choice& choice);
  void warn_of_objection(const std::string& key, const std::string& objection);
  void warn(const std::string& sentence) const;
  const Choice* usable(const Choices& store, const std::string& key, LibraryAlgorithms& algorithms) const;
  Choice from_store_or_measured(const std::string& key, LibraryAlgorithms& algorithms);
  Choice measured(const std::string& key, LibraryAlgorithms& algorithms);
  std::optional<ChoiceFile::Held> hold_store();
  void beat() const;

  std::mutex one_at_a_time_;
  const Pinning pinning_;
  const std::string device_, libraries_;
  bool warned_of_libraries_ = false, warned_of_objection_ = false;
  ChoiceFile run_;
  std::optional<ChoiceFile> store_;
};

// Returns the first candidate within a few percent of the fastest measured one. Empty if no candidate runs.
std::string fastest(const std::vector<std::string>& candidates,
                    const std::function<std::optional<double>(const std::string&, double fastest)>& seconds);

// Puts a checkpoint's choices into the file of the resumed run; these choices override the file's own. Call
// adopt() before workers start. `text`: Choices::to_text; `source` names the checkpoint. Throws Fault::corrupt,
// Fault::io.
void adopt(const std::string& run_file, std::string_view text, std::string_view source);

// Returns the path of a user's choices: beside the database of profiles. Empty if the database has no path.
std::string store_beside(const std::string& profiles_path);

}  // namespace estrain::algorithms
