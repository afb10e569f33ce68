#include "core/planning/dispatch/ends/job_end.h"

#include <algorithm>
#include <array>

#include "core/base/json/codec.h"

namespace estrain::dispatch {
namespace {

constexpr std::array<std::string_view, 4> kOutcomeNames = {"passed", "killed", "unsuccessful", "retried"};

}  // namespace

std::string_view outcome_name(Outcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

Json to_field(Outcome outcome) { return outcome_name(outcome); }

void from_field(const Json& json, Outcome& outcome) {
  const auto* const at = std::ranges::find(kOutcomeNames, json);
  if (at == kOutcomeNames.end()) codec::refuse_message("not an outcome of a job");
  outcome = static_cast<Outcome>(at - kOutcomeNames.begin());
}

}  // namespace estrain::dispatch
