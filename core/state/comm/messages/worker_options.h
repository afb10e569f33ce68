#pragma once
// The options of a worker at its start, beside descriptors and the spec: `estrain worker --options JSON`. The
// checkpoint is a separate argument: JSON cannot hold all bytes of a path.

#include <string>

#include "core/base/json/codec.h"
#include "core/base/json/fields.h"

namespace estrain::comm {

struct WorkerOptions {
  std::string device = "cpu";  // "cpu:avx2", "cuda:0"
  bool builds = false;         // lays out the shared memory and fills in the state
  std::string checkpoint;      // the builder starts from it; empty: from the job's seed
  bool accepts_data = false;   // the builder: data files which differ from the checkpoint's
  bool less_memory = false;    // one reader thread, one mini-batch ahead, whatever the spec says
  bool allow_mixed = false;    // a GPU may differ in model from the GPU that laid out the state
  bool cuda_streams = false;   // the state has a place for the ESTs' CUDA generators

  ESTRAIN_FIELDS(device, builds, accepts_data, less_memory, allow_mixed, cuda_streams)
};

}  // namespace estrain::comm
