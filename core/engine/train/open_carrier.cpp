#include <algorithm>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/engine/train/carrier/carrier.h"
#include "core/engine/train/resident/exchanged_update.h"
#include "core/engine/train/resident/resident_update.h"
#include "core/engine/train/resident/sums_over_hosts.h"
#include "core/engine/train/shared/shared_carrier.h"

namespace estrain::train {
namespace {

constexpr int64_t kLongestMeetingNs = INT64_C(60'000'000'000);  // longer: a worker seems lost

// Returns whether the state can lie in the memory of the stage's devices: each worker has a GPU of its own, and GPUs of
// several workers pass data to each other.
bool can_be_resident(const Workplace& place, const StageOrder& order) {
  return !place.device.torch_device().is_cpu() && !order.beyond && (order.workers() == 1 || order.exchanges) &&
         may_be_resident(place.job);
}

// Returns this worker's end of the exchange that the stage's workers have prepared (exchange_ahead.h). Null on abort.
std::unique_ptr<device::DeviceExchange> take_prepared(Workplace& place, const StageOrder& order) {
  std::unique_ptr<device::DeviceExchange> exchange = place.next_exchange->take(order.exchange);
  if (!exchange && !place.memory.gate().aborted())
    throw Error(Fault::device, "the exchange between GPUs that was prepared for this stage has failed");
  return exchange;
}

// The first worker of all makes the id for the workers of all hosts. The first worker of each host passes the id on to
// the workers of its host, and over several hosts gets the id by the couriers. Returns false on abort.
bool set_exchange_id(Workplace& place, const StageOrder& order) {
  comm::MeetingPlaces meetings = place.memory.meetings();
  device::ExchangeId id{};
  if (order.rank() == WorkerRank(0)) id = place.device.new_exchange();
  if (order.beyond) {
    meetings.offer_exchange_id(id);
    if (!place.memory.hosts().ask(comm::HostAsk::exchange, place.memory.commit().committed(), place.courier))
      return false;
    id = meetings.offered_exchange_id();
  }
  meetings.set_exchange_id(id);
  return true;
}

// Opens this worker's end of the exchange between the stage's workers. Null on abort.
std::unique_ptr<device::DeviceExchange> meet_workers(Workplace& place, const StageOrder& order) {
  comm::JobMemory& memory = place.memory;
  const auto worker = static_cast<uint32_t>(order.rank().value), workers = static_cast<uint32_t>(order.all_workers());
  comm::WorkerPulse& pulse = memory.pulse(order.rank());
  const int64_t begun = monotonic_ns();
  const auto beat = [&pulse, begun] {
    const int64_t now = monotonic_ns();
    if (now - begun < kLongestMeetingNs) pulse.beat(comm::Activity::meeting, now);
  };
  std::unique_ptr<device::DeviceExchange> exchange;
  if (order.exchange != 0) {
    exchange = take_prepared(place, order);
  } else {
    device::ExchangeId id;
    if (order.worker == WorkerRank(0) && !set_exchange_id(place, order)) return nullptr;
    if (!memory.meetings().wait_exchange_id(&id)) return nullptr;
    exchange = place.device.open_exchange(id, {worker, workers, memory.gate().abort_word(), beat});
  }
  return exchange && exchange->connect(beat) ? std::move(exchange) : nullptr;
}

// False on abort.
bool open_exchange(Workplace& place, const StageOrder& order) {
  if (order.all_workers() == 1 || place.exchange) return true;
  return waiting(place.memory.pulse(order.rank()), comm::Activity::meeting, [&] {
    place.exchange = meet_workers(place, order);
    return place.exchange != nullptr;
  });
}

}  // namespace

bool may_be_resident(const TrainingJob& job) {
  return !job.places().averages.are_kept() && !job.manifest().weighs && !job.optimizer().updates_some_whole() &&
         std::ranges::all_of(job.network().buffers(),
                             [](const torch::Tensor& buffer) { return buffer.nbytes() % 4 == 0; });
}

std::unique_ptr<Carrier> open_carrier(Workplace& place, const StageOrder& order) {
  place.model.show(nullptr);
  place.resident.reset();
  const bool can = can_be_resident(place, order), resident = can && !place.memory.commit().looks_closely();
  if (resident) {
    if (!open_exchange(place, order)) return nullptr;
    const OwnShares own(place.job.places().model, static_cast<uint32_t>(order.worker.value), order.workers());
    place.resident =
        std::make_unique<ResidentState>(place.job.places(), place.memory, place.device, place.model.parameter_bytes(),
                                        slot_regions(place.job.places(), own), place.job.spec().job.state);
    place.model.show(place.resident.get());
  }
  if (!resident) {
    std::unique_ptr<DeviceSums> on_devices;
    if (order.beyond && order.exchanges) {
      if (!open_exchange(place, order)) return nullptr;
      on_devices = std::make_unique<SumsOverHosts>(place, order);
    }
    return std::make_unique<SharedCarrier>(place, order, can, std::move(on_devices));
  }
  if (order.workers() == 1) return std::make_unique<ResidentUpdate>(place, order);
  return std::make_unique<ExchangedUpdate>(place, order);
}

}  // namespace estrain::train
