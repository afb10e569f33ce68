#pragma once
// One mini-batch of a job on this process, looked at before the job starts: which operators it uses, whether each gives
// the same bits on every kind of device, what the portable kernels cost against LibTorch's, and how much memory the job
// takes.

#include <future>
#include <string>

#include "core/base/json/json.h"
#include "core/data/formats/dataset.h"
#include "core/spec/job_spec.h"

namespace estrain::model {
class Interpreter;
}

namespace estrain::train {

struct ProbeSetup {
  spec::JobSpec spec;
  std::future<data::DataPair> data;
  std::string device;                         // "cpu", "cuda:0"
  std::string libraries;                      // folder of the libraries that devices need
  bool measures = false;                      // also times mini-batches of both kinds of kernels, for about two seconds
  model::Interpreter* interpreter = nullptr;  // as in WorkerSetup
  // {"operators": [{"name", "coverage": "replaced" | "exact" | "not covered", "type", "calls", "layers": […]}…],
  //  "seconds": {"torch": s, "portable": s}: of a mini-batch's forward and backward pass, where measured; "portable"
  //  where the device has such kernels, and they the job's precision
  //  "memory": {"peak", "files", "address_space"}: bytes of this process (core/base/process/memory_use.h)
  //  "size": {"state_bytes", "gradient_bytes", "batch_bytes", "tensors", "parameters", "digests", "evaluation_samples",
  //           "steps"}: of the job; the first three are of one copy of the state, one slot of gradients, one mini-batch
  //  "short_batch_error": {"message", "advice"}: where a step has mini-batches of one sample, which the model refuses
  //  "init_error": {"message", "advice"}: where model.init is given and cannot be taken}
  Json report;
};

// Throws Error.
void probe(ProbeSetup& setup);

}  // namespace estrain::train

// What the program looks up in the library.
extern "C" void estrain_probe(estrain::train::ProbeSetup* setup);
