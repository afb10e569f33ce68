#pragma once
// A worker process, after its program has loaded this library: builds the model, takes orders from the launcher, runs
// stages.
//
//   launcher -> worker  {"do": "run", "index": i, "ranges": [[lo, hi], …], "restarted": bool, "exchanges": bool,
//                        "beyond": {"first_worker": i, "workers": n, "records": bool}}, the last where there are other
//                        hosts
//                       | {"do": "leave"}
//   worker -> launcher  {"say": "ready"} | {"say": "left", "finished": bool, "aborted": bool}
//                       | {"say": "error", "fault": …, "message": …}
//
// A worker whose stage was aborted, since another one died, stays warm and waits for its next orders.

#include <atomic>
#include <cstdint>
#include <future>
#include <string>

#include "core/comm/message_socket.h"
#include "core/data/dataset.h"
#include "core/spec/job_spec.h"

namespace estrain::train {

struct WorkerSetup {
  spec::JobSpec spec;
  std::future<data::DataPair> data;  // being opened while this library was loaded
  int memory = -1;                   // descriptor of the job's shared memory
  int doorbell = -1;
  int courier = -1;
  comm::MessageSocket launcher;
  bool builds = false;          // lays out the shared memory and fills in the state
  std::string checkpoint;       // the builder starts from it; empty: from the seed
  bool accepts_data = false;    // the builder: data files that are others than the checkpoint's
  std::string device;           // "cpu", "cpu:avx2", "cuda:0"
  std::string libraries;        // folder of the libraries that devices need
  bool allow_mixed = false;     // a GPU may be of another model than the one that the state was laid out on
  bool cuda_streams = false;    // the state has a place for the ESTs' CUDA generators
  std::string algorithms;       // file of the run's choices (core/algorithms/pinning.h)
  std::string algorithm_store;  // and of this user's; may be empty
  std::string traces;           // folder for logging.trace
  // How often memory was refused to this process; null: not known.
  const std::atomic<uint64_t>* refused_memory = nullptr;
};

// Runs until it is told to leave, or the launcher is gone. Throws Error.
void run_worker(WorkerSetup& setup);

}  // namespace estrain::train

// What the program looks up in the library.
extern "C" void estrain_run_worker(estrain::train::WorkerSetup* setup);
