#pragma once
// The messages of couriers: to each other, and to the owners of couriers (the launcher, or an agent).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/base/json/codec.h"
#include "core/hosts/agents/job_facts.h"
#include "core/hosts/agents/look_messages.h"
#include "core/hosts/courier/opening_patience.h"
#include "core/hosts/exchange/host_plan.h"
#include "core/hosts/exchange/state_shares.h"
#include "core/hosts/succession/succession.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::hosts {

// From the coordinator to the other hosts.

struct EnterStage {
  static constexpr std::string_view name = "stage";
  HostPlan plan;
  JobFacts facts;
  int64_t recorded = -1;   // up to this step the run's files have all records
  bool in_shares = false;  // every host with the state sends a share
  int64_t evaluated = -1;  // the last evaluation

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(plan, facts, recorded, in_shares, evaluated)
};
struct TellShares {
  static constexpr std::string_view name = "shares";
  uint64_t stage = 0;
  StateShares shares;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(stage, shares)
};
struct StageAborted {
  static constexpr std::string_view name = "abort";
  uint64_t stage = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(stage)
};
// The coordinator ends the run, or leaves the run to a new launch. To owners, too.
struct RunEnds {
  static constexpr std::string_view name = "end";
  bool goes_on = false;  // the run resumes in a new launch

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(goes_on)
};

// From another host to the coordinator.

struct SaysHasState {
  static constexpr std::string_view name = "state";
  uint64_t stage = 0;
  bool has = false;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(stage, has)
};
struct StageOpened {
  static constexpr std::string_view name = "opened";
  uint64_t stage = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(stage)
};
struct SaysWaits {
  static constexpr std::string_view name = "waits";
  uint64_t stage = 0;
  OpeningWait wait;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(stage, wait)
};
struct LeavesCoordinator : codec::NoFields {  // the host has let go of the coordinator
  static constexpr std::string_view name = "leaves";
};

// From another host to the coordinator, and from a courier to its owner. `host`: the subject's name, "" is the
// coordinator's.

struct LostHost {
  static constexpr std::string_view name = "host_lost";
  std::string host, why;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(host, why)
};
struct CourierFailed : comm::Failed {
  static constexpr std::string_view name = "error";
  std::string host;
  bool gives_up = false;  // the coordinator leaves the run to the other hosts

  CourierFailed() = default;
  CourierFailed(std::string of, const Error& error) : Failed(error), host(std::move(of)) {}

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(host, gives_up, fault, message, advice, cause)
};
struct ExchangePace {  // of a step on the host, once a second
  static constexpr std::string_view name = "pace";
  std::string host;
  double exchange_seconds = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(host, exchange_seconds)
};
struct FactorsChosen {  // once in a stage that may send factors of gradients: FactorExchange::Summary
  static constexpr std::string_view name = "factors";
  uint64_t parameters = 0, gradient_bytes = 0;
  uint64_t bytes = 0;  // of the factors of an EST
  uint64_t without_factors = 0, too_large = 0, too_slow = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(parameters, gradient_bytes, bytes, without_factors, too_large, too_slow)
};
// In JSON an object: {sender: bytes}.
struct BytesBySender {
  std::map<std::string, uint64_t> bytes;
};
Json to_field(const BytesBySender& senders);
void from_field(const Json& json, BytesBySender& senders);
struct ReceivedState {
  static constexpr std::string_view name = "received_state";
  std::string host;
  int64_t step = 0;
  BytesBySender shares = {};

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(host, step, shares)
};

// Between orphans: a LeadClaim (succession.h).
struct OrphanClaims {
  static constexpr std::string_view name = "orphan";
  LeadClaim claim;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(claim)
};

// From a courier to its owner alone.

struct ClaimHeard {
  static constexpr std::string_view name = "orphan";
  std::string host;
  LeadClaim claim;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(host, claim)
};
struct LinkMeasured {  // when the host has connected
  static constexpr std::string_view name = "link";
  std::string host;
  double round_trip_seconds = 0, bytes_per_second = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(host, round_trip_seconds, bytes_per_second)
};

// From the launcher to the coordinator's courier.

struct OwnPlaces {
  std::string interface;  // network.interface
  std::string listen;     // as of StartRequest
  std::string own;        // the name of this host
};
struct LauncherPlan : OwnPlaces {
  static constexpr std::string_view name = "stage";
  HostPlan plan;  // without addresses

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(plan, interface, listen, own)
};
struct ServeAgents : OwnPlaces {  // only commands of other hosts arrive as yet
  static constexpr std::string_view name = "serve";

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(interface, listen, own)
};
struct FinishRun {
  static constexpr std::string_view name = "finish";
  bool goes_on = false;  // the run resumes in a new launch, and agents wait for this launch

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(goes_on)
};

// Between couriers. A courier ignores messages to the other role.
using CourierMessage = std::variant<EnterStage, TellShares, StageAborted, RunEnds, SaysHasState, StageOpened, SaysWaits,
                                    LeavesCoordinator, LostHost, CourierFailed, ExchangePace, ReceivedState,
                                    OrphanClaims, Ping, Pong, BulkSent, BulkReceived>;
// To the owner; to the launcher with the name under "say".
using OwnerMessage = std::variant<LostHost, CourierFailed, RunEnds, ExchangePace, FactorsChosen, ReceivedState,
                                  ClaimHeard, LinkMeasured>;
// From the launcher, with the name under "do".
using LauncherMessage = std::variant<LauncherPlan, ServeAgents, FinishRun>;

}  // namespace estrain::hosts
