#pragma once
// The requests of users to a running job. How a request travels: core/run/launch/control/control_socket.h.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/json/fields.h"

namespace estrain::decisions {

struct StatusRequest {
  static constexpr std::string_view name = "status";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

// An audit of the next step (core/state/audit/audit.h).
struct AuditRequest {
  static constexpr std::string_view name = "audit";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

struct StopRequest {
  static constexpr std::string_view name = "stop";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

// Device lists are written as by users (core/run/launch/preflight/devices.h).
struct ResizeRequest {
  static constexpr std::string_view name = "resize";
  std::string devices;
  bool oversubscribe = false;  // several workers on one GPU
  bool allow_mixed = false;    // allows devices of kinds new to the job, where its bits differ below D2
  bool adds = false;           // to the job's devices
  ESTRAIN_FIELDS(devices, oversubscribe, allow_mixed, adds)
};

// Asks for another batch size or for new learning rates; an absent field changes nothing.
struct ChangeRequest {
  static constexpr std::string_view name = "change";
  std::optional<int64_t> batch;       // samples per EST and step
  std::optional<double> lr_factor;    // of the rates given by the schedule
  std::string one_sample_error = "";  // why the model refuses a mini-batch of one sample; empty: it does not
  ESTRAIN_FIELDS(batch, lr_factor, one_sample_error)
};

struct OfferRequest {
  static constexpr std::string_view name = "offer";
  std::string devices;
  ESTRAIN_FIELDS(devices)
};

struct ReclaimRequest {
  static constexpr std::string_view name = "reclaim";
  std::string devices;
  double within = 0;  // seconds until the devices must be free
  ESTRAIN_FIELDS(devices, within)
};

using Request =
    std::variant<AuditRequest, StatusRequest, StopRequest, ResizeRequest, ChangeRequest, OfferRequest, ReclaimRequest>;

}  // namespace estrain::decisions
