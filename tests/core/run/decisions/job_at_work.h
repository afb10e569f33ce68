#pragma once
// A training job of four ESTs on two workers, 0 and 1, and decide()'s actions on it.

#include <algorithm>
#include <vector>

#include "core/run/decisions/decide.h"

namespace estrain::decisions {

inline FaultVerdict may_be_retried() {
  FaultVerdict verdict;
  verdict.cause = "killed";
  verdict.retry = true;
  return verdict;
}

inline Devices devices(const std::vector<std::string>& texts) { return placement::devices_from(texts); }

struct JobAtWork {
  RunState state;
  Moment now;
  std::vector<Action> actions;  // for the last event

  explicit JobAtWork(int64_t retries = 2) {
    state.ests = 4;
    state.retries = retries;
    state.grace_seconds = 10;
    state.phase = RunPhase::training;
    state.held = devices({"cpu", "cpu"});
    for (int64_t i = 0; i < 2; ++i) {
      state.workers.push_back({.id = WorkerId(i),
                               .device = {"cpu"},
                               .ests = {VirtualRank(2 * i), VirtualRank(2 * i + 2)},
                               .ready = true,
                               .rank = i});
    }
    state.workers_started = 2;
    now.time = MonotonicTime(1s);
    now.attached = true;
    now.trained = Step(7);
  }

  void operator()(const Event& event) { actions = decide(state, event, now); }
  void later(double seconds) { now.time += nanoseconds(Seconds(seconds)); }

  void lose(int64_t id, FaultVerdict verdict = may_be_retried(), bool lingers = false) {
    (*this)(WorkerLost{.worker = WorkerId(id),
                       .verdict = std::move(verdict),
                       .what = "ended with SIGKILL",
                       .error = Error(Fault::peer, "it ended"),
                       .log = "its log",
                       .lingers = lingers});
  }
  void ask(const std::vector<std::string>& kinds, std::optional<ClientId> client = 1) {
    PendingChange change;
    change.client = client;
    change.held = devices(kinds);
    change.devices = placement::evenly(change.held);
    (*this)(ChangeAsked{change, {}});
  }
  void leave(std::initializer_list<int64_t> ids) {
    for (const int64_t id : ids) (*this)(WorkerLeft{WorkerId(id)});
  }

  // The first action of a kind; null: there is none.
  template <typename Deed>
  const Deed* find() const {
    for (const Action& action : actions) {
      if (const Deed* deed = std::get_if<Deed>(&action.deed)) return deed;
    }
    return nullptr;
  }
  template <typename Deed>
  int64_t count() const {
    return std::ranges::count_if(actions, [](const Action& a) { return std::holds_alternative<Deed>(a.deed); });
  }
};

}  // namespace estrain::decisions
