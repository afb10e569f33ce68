#include "core/engine/operators/watch.h"

#include <ATen/record_function.h>

#include <mutex>
#include <unordered_map>
#include <vector>

namespace estrain::operators {

struct Watch::Observed {
  struct Call {
    std::optional<c10::OperatorName> name;  // if the parts decide about the call
    bool judged = false;                    // as a whole, or a part of a call judged as a whole
    bool has_parts = false;
  };

  ScanOptions options;
  std::unordered_map<c10::OperatorName, std::optional<Coverage>> verdicts;
  std::mutex mutex;  // of verdicts and uncovered
  std::string uncovered;
  at::CallbackHandle handle{};

  void begin(const at::RecordFunction& function);
  void end();
};

namespace {

// Autograd computes a CPU's backward pass on the thread that asks for the pass, a GPU's on a thread of its own.
// LibTorch calls the observer there, too.
Watch::Observed* observed = nullptr;
thread_local std::vector<Watch::Observed::Call> open;

}  // namespace

void Watch::Observed::begin(const at::RecordFunction& function) {
  if (!open.empty()) open.back().has_parts = true;
  const auto name = function.operator_name();
  if (!name || (!open.empty() && open.back().judged)) {
    open.push_back({.name = {}, .judged = !open.empty() && open.back().judged, .has_parts = true});
    return;
  }
  const std::lock_guard lock(mutex);
  auto found = verdicts.find(*name);
  if (found == verdicts.end()) found = verdicts.emplace(*name, judge(*name, options)).first;
  if (found->second == Coverage::uncovered && uncovered.empty()) uncovered = full_name(*name);
  if (found->second) {
    open.push_back({.name = {}, .judged = true});
  } else {
    open.push_back({.name = name});
  }
}

void Watch::Observed::end() {
  if (open.empty()) return;  // began before the watch
  const Call call = std::move(open.back());
  open.pop_back();
  if (call.judged || call.has_parts) return;
  const std::lock_guard lock(mutex);
  if (uncovered.empty()) uncovered = full_name(*call.name);
}

namespace {

std::unique_ptr<at::ObserverContext> watch_begins(const at::RecordFunction& function) {
  if (observed != nullptr) observed->begin(function);
  return nullptr;
}

void watch_ends(const at::RecordFunction&, at::ObserverContext*) {
  if (observed != nullptr) observed->end();
}

}  // namespace

Watch::Watch(const ScanOptions& options) : observed_(std::make_unique<Observed>()) {
  observed_->options = options;
  observed = observed_.get();
  observed_->handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(watch_begins, watch_ends).scopes({at::RecordScope::FUNCTION}));
}

Watch::~Watch() {
  at::removeCallback(observed_->handle);
  observed = nullptr;
}

const std::string& Watch::uncovered() const { return observed_->uncovered; }

}  // namespace estrain::operators
