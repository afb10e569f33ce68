#pragma once
// A worker process builds the model, takes orders from the launcher, and runs stages
// (state/comm/messages/worker_messages.h). The program loads this library for a worker.
//
// When another worker is lost, the stage is aborted. This worker then keeps its model and waits for the next orders.

#include <atomic>
#include <cstdint>
#include <future>
#include <string>

#include "core/data/formats/dataset.h"
#include "core/job/spec/job_spec.h"
#include "core/state/comm/messages/worker_messages.h"
#include "core/state/comm/messages/worker_options.h"

namespace estrain::model {
class Interpreter;
}

namespace estrain::train {

struct WorkerSetup {
  spec::JobSpec spec;
  std::future<data::DataPair> data;  // being opened while this library was loaded
  int memory = -1;                   // descriptor of the job's shared memory
  int doorbell = -1;
  int courier = -1;  // eventfd to wake the host's courier
  comm::WorkersOwnChannel launcher;
  comm::WorkerOptions options;
  std::string libraries;        // folder of the libraries for devices
  std::string algorithms;       // file of the run's choices (core/state/algorithms/pinning.h)
  std::string algorithm_store;  // file of this user's choices; may be empty
  std::string traces;           // folder for logging.trace
  std::string outputs;          // folder for the outputs of `estrain evaluate`; not there: the run trains
  std::string rows;             // folder for the outputs of evaluations, for train.metrics_file
  // Counts how often this process was refused memory; null: unknown.
  const std::atomic<uint64_t>* refused_memory = nullptr;
  model::Interpreter* interpreter = nullptr;  // loaded this library; for a Python module
};

// Returns when the launcher orders the end or has ended. Throws Error.
void run_worker(WorkerSetup& setup);

}  // namespace estrain::train

// The program looks up this symbol in the library.
extern "C" void estrain_run_worker(estrain::train::WorkerSetup* setup);
