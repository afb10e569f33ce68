#include "core/algorithms/pinning.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace estrain::algorithms {
namespace {

constexpr double kTie = 1.03;
constexpr int64_t kPatienceWithStoreNs = 60'000'000'000;

std::string in_words(const std::string& algorithm) {
  return algorithm.empty() ? "LibTorch's own kernel" : "\"" + algorithm + "\"";
}

}  // namespace

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

std::string PinnedAlgorithms::algorithm_for(const Key& key, Algorithms& algorithms) {
  const std::lock_guard one(one_at_a_time_);
  const std::string text = key.text();
  ChoiceFile::Held run = run_.hold([this] { beat(); });
  if (const Choice* known = run.choices().find_any(text, device_)) {
    if (!pinning_.may_replace || known->algorithm.empty() || !algorithms.refusal(known->algorithm))
      return require(*known, algorithms);
  }
  const Choice choice = from_store_or_measured(text, algorithms);
  run.add(choice);
  return choice.algorithm;
}

const std::string& PinnedAlgorithms::require(const Choice& choice, Algorithms& algorithms) const {
  if (choice.algorithm.empty()) return choice.algorithm;
  const std::optional<std::string> refusal = algorithms.refusal(choice.algorithm);
  if (!refusal) return choice.algorithm;
  throw Error::make(Fault::infeasible,
                    "{}: the run computes this by the algorithm {}, measured on \"{}\" with {}; this device, \"{}\" "
                    "with {}, does not have it: {}",
                    choice.key, in_words(choice.algorithm), choice.device, choice.libraries, device_, libraries_,
                    *refusal)
      .advise(
          "use GPUs of the model that it was chosen on, with the same libraries, or accept other bits with "
          "--allow-mixed, which chooses anew");
}

Choice PinnedAlgorithms::from_store_or_measured(const std::string& key, Algorithms& algorithms) {
  std::optional<ChoiceFile::Held> store = hold_store();
  if (store) {
    const Choice* known = store->choices().find(key, device_);
    if (known != nullptr && !known->algorithm.empty() && !algorithms.refusal(known->algorithm)) return *known;
  }
  Choice choice = measured(key, algorithms);
  // Another version of the libraries may have an algorithm where this one has none.
  if (store && !choice.algorithm.empty()) {
    try {
      store->add(choice);
    } catch (const Error& error) {
      if (pinning_.warn) pinning_.warn("a chosen algorithm is not kept for later runs: " + error.message());
    }
  }
  return choice;
}

Choice PinnedAlgorithms::measured(const std::string& key, Algorithms& algorithms) {
  const std::vector<std::string> candidates = algorithms.candidates();
  const std::string algorithm = fastest(candidates, [&](const std::string& candidate, double best) {
    beat();
    return algorithms.seconds(candidate, best);
  });
  beat();
  Choice choice = {key, device_, algorithm, libraries_};
  if (pinning_.chosen) pinning_.chosen(choice, candidates.size());
  return choice;
}

// A store that cannot be used is no reason not to train; the run has its own file.
std::optional<ChoiceFile::Held> PinnedAlgorithms::hold_store() {
  if (!store_) return std::nullopt;
  const int64_t deadline = monotonic_ns() + kPatienceWithStoreNs;
  try {
    return store_->hold([&] {
      beat();
      if (monotonic_ns() > deadline) throw Error::make(Fault::io, "{}: another process holds it", store_->path());
    });
  } catch (const Error& error) {
    if (pinning_.warn)
      pinning_.warn("algorithms chosen for earlier runs are not used, nor new ones kept: " + error.message());
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
