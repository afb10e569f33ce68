#include "core/state/algorithms/pinning.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace estrain::algorithms {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

std::string plain(std::string_view word) {
  if (word.empty() || !std::ranges::all_of(word, is_plain))
    throw Error::make(Fault::bug, "\"{}\" cannot be part of an operation's key", word);
  return std::string(word);
}

constexpr double kTie = 1.03;

std::string in_words(const std::string& algorithm) {
  return algorithm.empty() ? "LibTorch's own kernel" : "\"" + algorithm + "\"";
}

}  // namespace

Key::Key(std::string_view operation) : operation_(plain(operation)) {}

Key& Key::set(std::string_view field, std::string_view value) {
  fields_[plain(field)] = plain(value);
  return *this;
}

std::string Key::text() const {
  std::string text = operation_;
  for (const auto& [field, value] : fields_) text += " " + field + "=" + value;
  return text;
}

std::string fastest(const std::vector<std::string>& candidates,
                    const std::function<std::optional<double>(const std::string&, double fastest)>& seconds) {
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<double> times;
  double best = never;
  for (const std::string& candidate : candidates) {
    times.push_back(seconds(candidate, best).value_or(never));
    best = std::min(best, times.back());
  }
  if (best == never) return "";
  const auto first = std::ranges::find_if(times, [&](double time) { return time <= best * kTie; });
  return candidates[static_cast<size_t>(first - times.begin())];
}

PinnedAlgorithms::PinnedAlgorithms(Pinning pinning, std::string device, std::string libraries)
    : pinning_(std::move(pinning)), device_(std::move(device)), libraries_(std::move(libraries)), run_(pinning_.run) {
  if (!pinning_.store.empty()) store_.emplace(pinning_.store);
}

void PinnedAlgorithms::beat() const {
  if (pinning_.beat) pinning_.beat();
}

std::string PinnedAlgorithms::algorithm_for(const Key& key, LibraryAlgorithms& algorithms) {
  const std::lock_guard one(one_at_a_time_);
  const std::string text = key.text();
  if (const Choice* choice = known(run_.look(), text, algorithms)) return require(*choice, algorithms);
  ChoiceFile::Held run = run_.hold([this] { beat(); });
  if (const Choice* choice = known(run.choices(), text, algorithms)) return require(*choice, algorithms);
  const Choice choice = from_store_or_measured(text, algorithms);
  run.add(choice);
  return choice.algorithm;
}

// Returns the run's choice. Null if the run has no choice, or if the choice must be replaced.
const Choice* PinnedAlgorithms::known(const Choices& run, const std::string& key, LibraryAlgorithms& algorithms) const {
  const Choice* choice = run.find_any(key, device_);
  if (choice == nullptr || !pinning_.may_replace || choice->algorithm.empty()) return choice;
  return algorithms.refusal(choice->algorithm) ? nullptr : choice;
}

const std::string& PinnedAlgorithms::require(const Choice& choice, LibraryAlgorithms& algorithms) {
  if (choice.algorithm.empty()) return choice.algorithm;
  const std::optional<std::string> refusal = algorithms.refusal(choice.algorithm);
  if (!refusal) {
    warn_of_libraries(choice);
    return choice.algorithm;
  }
  throw Error::make(Fault::infeasible,
                    "{}: the run computes this with the algorithm {}, measured on \"{}\" with {}; this device, \"{}\" "
                    "with {}, does not have it: {}",
                    choice.key, in_words(choice.algorithm), choice.device, choice.libraries, device_, libraries_,
                    *refusal)
      .advise(
          "use GPUs of the same model with the same libraries, or accept other bits with "
          "--allow-mixed, which chooses again");
}

void PinnedAlgorithms::warn_of_libraries(const Choice& choice) {
  if (warned_of_libraries_ || choice.libraries == libraries_) return;
  warned_of_libraries_ = true;
  warn(fmt::format("the run's algorithms were chosen with {}, and from now on run with {}: bits may change",
                   choice.libraries, libraries_));
}

void PinnedAlgorithms::warn_of_objection(const std::string& key, const std::string& objection) {
  if (warned_of_objection_ || objection.empty()) return;
  warned_of_objection_ = true;
  warn(fmt::format("{}: none of the library's algorithms is usable, so LibTorch's own kernel runs; reported once: {}",
                   key, objection));
}

void PinnedAlgorithms::warn(const std::string& sentence) const {
  if (pinning_.warn) pinning_.warn(sentence);
}

// Returns the choice of this user's earlier runs with these libraries, if the device supports the choice.
const Choice* PinnedAlgorithms::usable(const Choices& store, const std::string& key,
                                       LibraryAlgorithms& algorithms) const {
  const Choice* choice = store.find(key, device_);
  if (choice == nullptr || choice->algorithm.empty() || choice->libraries != libraries_) return nullptr;
  if (algorithms.refusal(choice->algorithm)) return nullptr;
  return choice;
}

Choice PinnedAlgorithms::from_store_or_measured(const std::string& key, LibraryAlgorithms& algorithms) {
  if (store_) {
    if (const Choice* choice = usable(store_->look(), key, algorithms)) return *choice;
  }
  std::optional<ChoiceFile::Held> store = hold_store();
  if (store) {
    if (const Choice* choice = usable(store->choices(), key, algorithms)) return *choice;
  }
  Choice choice = measured(key, algorithms);
  if (algorithms.obstacle()) {
    warn(key + ": not every algorithm could be tried for lack of memory; the choice is kept only for this run");
    return choice;
  }
  // An empty choice is not stored, since another version of the libraries may have an algorithm.
  if (store && !choice.algorithm.empty()) {
    try {
      store->add(choice);
    } catch (const Error& error) {
      warn("a chosen algorithm is not kept for later runs: " + error.message());
    }
  }
  return choice;
}

Choice PinnedAlgorithms::measured(const std::string& key, LibraryAlgorithms& algorithms) {
  const std::vector<std::string> candidates = algorithms.candidates([this] { beat(); });
  const std::string algorithm = fastest(candidates, [&](const std::string& candidate, double best) {
    beat();
    return algorithms.seconds(candidate, best);
  });
  beat();
  warn_of_objection(key, candidates.empty() ? algorithms.objection() : "");
  if (const std::exception_ptr obstacle = algorithms.obstacle(); obstacle && algorithm.empty())
    std::rethrow_exception(obstacle);
  Choice choice = {key, device_, algorithm, libraries_};
  if (pinning_.chosen) pinning_.chosen(choice, candidates.size());
  return choice;
}

// Holds the store. An unusable store does not prevent training, since the run has its own file. A store counts as
// usable while other processes add to it.
std::optional<ChoiceFile::Held> PinnedAlgorithms::hold_store() {
  if (!store_) return std::nullopt;
  int64_t since = monotonic_ns();
  const auto size = [this] {
    std::error_code unknown;
    return std::filesystem::file_size(store_->path(), unknown);
  };
  auto last_size = size();
  try {
    return store_->hold([&] {
      beat();
      if (const auto now = size(); now != last_size) {
        last_size = now;
        since = monotonic_ns();
      }
      if (monotonic_ns() - since > pinning_.patience_ns)
        throw Error::make(Fault::io, "{}: another process holds it", store_->path());
    });
  } catch (const Error& error) {
    warn("algorithms chosen by earlier runs are not used, and new ones are not kept: " + error.message());
    store_.reset();
    return std::nullopt;
  }
}

void adopt(const std::string& run_file, std::string_view text, std::string_view source) {
  if (text.empty()) return;
  const Choices choices = Choices::from_text(text, source);
  ChoiceFile file(run_file);
  ChoiceFile::Held held = file.hold({});
  choices.for_each([&](const Choice& choice) {
    const Choice* own = held.choices().find(choice.key, choice.device);
    if (own == nullptr || *own != choice) held.add(choice);
  });
}

std::string store_beside(const std::string& profiles_path) {
  if (profiles_path.empty()) return "";
  std::filesystem::path path(profiles_path);
  path.replace_extension();
  return path.string() + "-algorithms.jsonl";
}

}  // namespace estrain::algorithms
