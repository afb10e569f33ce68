#pragma once
// One mini-batch of a job on this process, looked at before the job starts: which operators it uses, whether each gives
// the same bits on every kind of device, and what the portable kernels cost against LibTorch's.

#include <future>
#include <string>

#include "core/base/json.h"
#include "core/data/dataset.h"
#include "core/spec/job_spec.h"

namespace estrain::train {

struct ProbeSetup {
  spec::JobSpec spec;
  std::future<data::DataPair> data;
  bool measures = false;  // also times mini-batches of both kinds of kernels, for about two seconds
  // {"operators": [{"name", "coverage": "replaced" | "exact" | "not covered", "type", "calls", "layers": […]}…],
  //  "seconds": {"torch": s, "portable": s}}: of a mini-batch's forward and backward pass, where measured and covered
  Json report;
};

// Throws Error.
void probe(ProbeSetup& setup);

}  // namespace estrain::train

// What the program looks up in the library.
extern "C" void estrain_probe(estrain::train::ProbeSetup* setup);
