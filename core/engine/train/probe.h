#pragma once
// Runs one mini-batch of a job before the job starts. Reports the operators in use, whether each gives the same bits on
// every kind of device, how much slower the portable kernels are than LibTorch's, and how much memory the job takes.
// Or times the blocks of the job's network.

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
  std::string device;       // "cpu", "cuda:0"
  std::string libraries;    // folder of the libraries for devices
  bool measures = false;    // also time mini-batches with both kinds of kernels, for about two seconds
  bool foretells = false;   // also foretell the memory that GPUs need
  bool factors = false;     // also measure factors of gradients, on the CPU
  bool one_sample = false;  // also try a mini-batch of one sample
  model::Interpreter* interpreter = nullptr;  // as in WorkerSetup
  double seconds = 3;                         // of timing blocks, at least
};

// Throws Error.
comm::ProbeReport probe(ProbeSetup& setup);

// Trains the job for a few steps, as a worker alone with at most four ESTs, and times the blocks of the network
// (block_times.h). A module in Python is one block. Throws Error.
comm::BlockTimes time_blocks(ProbeSetup& setup);

}  // namespace estrain::train

// The program looks up these symbols in the library.
extern "C" void estrain_probe(estrain::train::ProbeSetup* setup, estrain::comm::ProbeReport* report);
extern "C" void estrain_time_blocks(estrain::train::ProbeSetup* setup, estrain::comm::BlockTimes* times);
