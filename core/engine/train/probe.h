#pragma once
// Runs one mini-batch of a job before the job starts. Reports the operators in use, whether each gives the same bits on
// every kind of device, how much slower the portable kernels are than LibTorch's, and how much memory the job takes.

#include <future>
#include <string>

#include "core/data/formats/dataset.h"
#include "core/job/spec/job_spec.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::model {
class Interpreter;
}

namespace estrain::train {

struct ProbeSetup {
  spec::JobSpec spec;
  std::future<data::DataPair> data;
  std::string device;      // "cpu", "cuda:0"
  std::string libraries;   // folder of the libraries for devices
  bool measures = false;   // also time mini-batches with both kinds of kernels, for about two seconds
  bool foretells = false;  // also foretell the memory that GPUs need
  model::Interpreter* interpreter = nullptr;  // as in WorkerSetup
};

// Throws Error.
comm::ProbeReport probe(ProbeSetup& setup);

}  // namespace estrain::train

// The program looks up this symbol in the library.
extern "C" void estrain_probe(estrain::train::ProbeSetup* setup, estrain::comm::ProbeReport* report);
