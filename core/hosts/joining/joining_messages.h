#pragma once
// The messages between an agent that joins by the launcher's address and the registry (joining.h).

#include <string>
#include <string_view>
#include <variant>

#include "core/base/json/fields.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::hosts {

// The agent wants to join. The greeting holds the agent's name.
struct Joins {
  static constexpr std::string_view name = "joins";
  std::string address;  // where the agent listens: "10.0.0.2:7000"

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(address)
};
struct HasJoined : codec::NoFields {
  static constexpr std::string_view name = "joined";
};
struct RunIsOver : codec::NoFields {
  static constexpr std::string_view name = "run_is_over";
};
// Both ways, once a second.
struct StillHere : codec::NoFields {
  static constexpr std::string_view name = "here";
};

using GuestMessage = std::variant<Joins, StillHere>;
using RegistryMessage = std::variant<HasJoined, comm::Failed, RunIsOver, StillHere>;  // Failed: refused

}  // namespace estrain::hosts
