#pragma once
// A checkpoint's weights for other programs: parameters and buffers by their state_dict names, and nothing else.
//
//   safetensors   safetensors.torch.load_file(path) is the state_dict; a tied weight stands there under each name
//   hdf5          /model/<name> and /buffers/<name> as in a checkpoint, without its seal; tied names are links
//
// model.init takes both again.

#include <string>

#include "core/base/disk.h"
#include "core/checkpoint/checkpoint_file.h"

namespace estrain::checkpoint {

enum class ModelFormat { safetensors, hdf5 };

// Writes to a temporary name beside `path`, synced, renamed: who reads `path` sees a whole file or what was there
// before. Every element is checked against the checkpoint's digests on the way. Throws Fault::corrupt naming the tensor
// that is damaged, Fault::io; then nothing is left behind.
void export_model(const CheckpointFile& from, const std::string& path, ModelFormat format, Disk& disk = real_disk());

}  // namespace estrain::checkpoint
