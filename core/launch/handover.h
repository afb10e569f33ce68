#pragma once
// What a launcher tells itself across a re-exec. The process id stays, so Slurm and the shell see one job; children,
// sockets and shared memory stay open; everything else is written down here.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/control_socket.h"
#include "core/launch/processes.h"

namespace estrain::launch {

// A resize that has been carried out but whose first step has not been seen yet.
struct ResizeUnderWay {
  std::optional<ClientId> client;                           // waits for the answer
  std::string before, after;                                // device lists
  int64_t step = 0;                                         // at which the workers stood still
  int64_t requested_ns = 0, warmed_ns = 0, stopped_ns = 0;  // monotonic
  double step_seconds_before = 0;                           // mean step time before the request
  double step_seconds_warming = 0;                          // and while the new workers warmed up
  std::string why;                                          // what asked for it
  bool gives_back = false;                                  // devices that somebody waits for
  bool keeps_devices = false;                               // only shares move
  std::optional<Json> answer;                               // what the client is told beside the figures
};

// A worker that is gone, and what is known of it.
struct Loss {
  int64_t worker = 0;
  Device device;
  EstRange ests;
  std::string cause;         // the fault table's
  std::string what;          // in words: "killed by SIGKILL"
  int64_t step = 0;          // trained when it was noticed
  int64_t steps_redone = 0;  // of those: their state was lost with a GPU's memory
  int64_t last_beat_ns = 0;  // its last sign of life (monotonic); 0: none yet
  int64_t noticed_ns = 0;
};

// A request that could not be served at once: its client waits.
struct WaitingRequest {
  ClientId client = 0;
  Json request;
  int64_t arrived_ns = 0;  // monotonic
};

struct Handover {
  std::string run;
  std::string fault_rules;  // text of the user's own
  bool allow_mixed = false;
  bool oversubscribe = false;  // several workers on one GPU
  bool cuda_streams = false;   // the state has a place for the ESTs' CUDA generators
  double grace_seconds = 0;
  std::optional<int64_t> ends_ns;  // when the allocation ends (monotonic)
  int64_t cores = 1;               // that the run may use
  SharedDescriptors shared{};
  int64_t workers_started = 0;
  int64_t stage = 0;
  int64_t started_ns = 0;
  int64_t last_saved_step = -1;    // -1: no checkpoint of this run's yet
  std::optional<double> accuracy;  // of the last evaluation
  std::vector<WorkerProcess> workers;
  std::vector<WorkerProcess> leaving;  // told to leave, not reaped yet
  ScribeProcess scribe;
  int listener = -1;
  std::map<ClientId, int> clients;  // descriptors of control clients
  std::optional<ResizeUnderWay> resize;
  std::optional<Loss> recovery;   // from which the first step has not been seen yet
  int64_t fault_step = -1;        // of the last fault
  int64_t faults_at_step = 0;     // there, in a row
  bool less_memory = false;       // workers from here on read ahead less
  Json faults = Json::array();    // all of this launch, for the report at its end
  std::vector<std::string> held;  // kinds of all devices that the job may use, the idle ones included
  std::vector<WaitingRequest> waiting;
  Json elasticity = Json::object();  // elasticity.h
  Json profiles = Json::object();    // core/profile/profiles.h
  double start_seconds = 0;          // from the start of the first workers to the first stage
};

// Replaces this process by a fresh launcher that takes `handover` up. Returns only if exec failed.
void reexec(const Handover& handover);
// In the fresh launcher: reads what reexec wrote behind `fd`.
Handover take_handover(int fd);

}  // namespace estrain::launch
