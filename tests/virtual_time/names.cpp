// Names of events, deeds and phases, and how often each occurred.

#include <fmt/format.h>

#include <string>
#include <variant>

#include "tests/virtual_time/world.h"

namespace estrain::virtual_time {

void Coverage::add(const Coverage& other) {
  const auto add_to = [](auto& sum, const auto& more) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  };
  add_to(events, other.events);
  add_to(deeds, other.deeds);
  add_to(faults, other.faults);
  add_to(requests, other.requests);
}

std::string event_name(size_t kind) {
  static constexpr const char* names[] = {
      "Tick",        "WorkerReady", "WorkerLeft",   "ExchangePrepared", "WorkerLost", "WorkerEnded",
      "WorkerHangs", "AllWait",     "CannotStart",  "StageClosed",      "Saved",      "NotSaved",
      "NotWritten",  "SaveBegun",   "ScribeDone",   "ScribeFailed",     "ScribeLost", "CannotStartScribe",
      "ChangeAsked", "OfferAsked",  "ReclaimAsked", "StopAsked",        "CannotGoOn", "EndBegan"};
  static_assert(std::size(names) == std::variant_size_v<decisions::Event>);
  return names[kind];
}

std::string deed_name(size_t kind) {
  static constexpr const char* names[] = {
      "Say",           "Log",          "NoteDecision",   "Answer",      "Refuse",          "StartWorkers",
      "EndHungWorker", "KillWorker",   "TellLeave",      "KillAll",     "DismissAll",      "BeginTraining",
      "PauseStage",    "AbortStage",   "CloseStage",     "OpenStage",   "PrepareExchange", "GiveUpExchange",
      "SaveState",     "ReleaseSlots", "HandOver",       "AdoptPlan",   "RepairState",     "TakeUp",
      "WeighOffer",    "ReportResize", "ReportRecovery", "StartScribe", "SaveLastState",   "FinishFiles"};
  static_assert(std::size(names) == std::variant_size_v<decisions::Deed>);
  return names[kind];
}

std::string phase_name(size_t phase) {
  static constexpr const char* names[] = {"starting", "training", "warming", "pausing", "recovering", "over"};
  return names[phase];
}

std::string name_of(const decisions::Event& event) {
  std::string name = event_name(event.index());
  std::visit(
      [&](const auto& it) {
        if constexpr (requires { it.worker; }) name += fmt::format(" {}", it.worker);
        if constexpr (requires { it.finished; }) name += it.finished ? " (finished)" : "";
        if constexpr (requires { it.verdict; }) name += it.verdict.retry ? "" : " (not to be tried again)";
      },
      event);
  return name;
}

std::string name_of(const decisions::Deed& deed) {
  std::string name = deed_name(deed.index());
  std::visit(
      [&](const auto& it) {
        if constexpr (requires { it.line; }) name += " \"" + it.line + "\"";
        if constexpr (requires { it.worker; }) name += fmt::format(" {}", it.worker);
        if constexpr (requires { it.client; }) name += fmt::format(" client {}", it.client);
        if constexpr (requires { it.step; }) name += fmt::format(" step {}", it.step);
      },
      deed);
  return name;
}

}  // namespace estrain::virtual_time
