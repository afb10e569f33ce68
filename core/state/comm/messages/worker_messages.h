#pragma once
// The messages between the launcher and a worker.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json/fields.h"
#include "core/job/batches/batch_change.h"
#include "core/state/comm/messages/channel.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::comm {

// Further hosts in a stage.
struct BeyondHost {
  uint64_t stage = 0;                      // counts the stages, for the couriers
  int64_t first_worker = 0;                // the rank of this host's first worker among all hosts' workers
  int64_t workers = 0;                     // of all hosts
  bool records = false;                    // a scribe reads the records and holds of this host, the coordinator's
  std::vector<EstRange> ranges = {};       // of the workers of all hosts, in rank order
  std::vector<int64_t> host_workers = {};  // number of workers on each host, in rank order
  bool factors = false;                    // hosts may send factors of gradients (gradient_factors.h)

  ESTRAIN_FIELDS(stage, first_worker, workers, records, ranges, host_workers, factors)
};

// Train a stage.
struct RunStage {
  static constexpr std::string_view name = "run";
  WorkerRank worker;                                // this worker's rank in `ranges`
  std::vector<EstRange> ranges;                     // of all workers of the host
  std::optional<BeyondHost> beyond = std::nullopt;  // nothing: the stage is on this host alone
  bool restarted = false;                           // not the first stage of a fresh run: D0 seeds its generators anew
  bool exchanges = false;  // each worker of all hosts has a GPU of its own, and GPUs pass data to each other
  std::vector<std::string> kinds = {};             // of the workers' devices: "cpu", "cpu:avx2", "cuda"
  int64_t exchange = 0;                            // the ticket of an exchange that all workers have prepared; 0: none
  std::vector<batches::BatchChange> changes = {};  // of the batch, recorded since the launch

  ESTRAIN_FIELDS(worker, ranges, beyond, restarted, exchanges, kinds, exchange, changes)
};

// Prepare the exchange of the next stage, beside the stage under way. The answer is ExchangeReport. A worker in a
// stage looks for this message when its ticket is asked for in shared memory (MeetingPlaces::exchange_asked).
struct ExchangeOrder {
  static constexpr std::string_view name = "prepare_exchange";
  int64_t ticket = 0;
  int64_t worker = 0, workers = 0;  // of the next stage

  ESTRAIN_FIELDS(ticket, worker, workers)
};

// End.
struct Leave {
  static constexpr std::string_view name = "leave";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

// To the relay alone (relay_messages.h): the worker's host is lost.
struct HostLost {
  static constexpr std::string_view name = "host_lost";
  std::string why;
  ESTRAIN_FIELDS(why)
};

// The worker has a model and data, and waits for its first stage.
struct Ready {
  static constexpr std::string_view name = "ready";
  std::vector<std::string> notes;  // from the builder of the state: the run's notes, such as "data: ..."
  ESTRAIN_FIELDS(notes)
};

// The worker has left the loop.
struct LeftStage {
  static constexpr std::string_view name = "left";
  bool finished = false;  // the job is done
  ESTRAIN_FIELDS(finished)
};

struct ExchangeReport {
  static constexpr std::string_view name = "exchange_prepared";
  int64_t ticket = 0;
  bool made = false;  // false: the workers can meet in the next stage only

  ESTRAIN_FIELDS(ticket, made)
};

// An audit found something wrong (core/state/audit/audit.h). Failed follows.
struct AuditFound {
  static constexpr std::string_view name = "audit_found";
  Step vouched;  // audits found everything correct up to this step
  ESTRAIN_FIELDS(vouched)
};

// The worker leaves out a sample that cannot be read (data.skip_bad). Sent once by each process.
struct LeftOutSample {
  static constexpr std::string_view name = "left_out";
  std::string set;     // "training", "evaluation"
  int64_t sample = 0;  // its number in the data
  std::string why;     // names the file
  ESTRAIN_FIELDS(set, sample, why)
};

using WorkerOrder = std::variant<RunStage, Leave, HostLost, ExchangeOrder>;
using WorkerReport = std::variant<Ready, LeftStage, AuditFound, LeftOutSample, Failed, ExchangeReport>;
using WorkerChannel = Channel<WorkerOrder, WorkerReport>;      // the launcher's end
using WorkersOwnChannel = Channel<WorkerReport, WorkerOrder>;  // the worker's

}  // namespace estrain::comm
