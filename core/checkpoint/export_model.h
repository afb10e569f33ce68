#pragma once
// A checkpoint's weights for other programs: parameters and buffers by their state_dict names, and nothing else.
//
//   safetensors   safetensors.torch.load_file(path) is the state_dict; a tied weight stands there under each name
//   hdf5          /model/<name> and /buffers/<name> as in a checkpoint, without its seal; tied names are links
//
// model.init accepts both.

#include <string>

#include "core/base/disk.h"
#include "core/checkpoint/checkpoint_file.h"

namespace estrain::checkpoint {

enum class ModelFormat { safetensors, hdf5 };

// Writes under a temporary name beside `path`, syncs and renames it: a reader of `path` sees the whole new file or the
// old one. Checks every element against the checkpoint's digests. Throws Fault::corrupt naming the damaged tensor,
// Fault::io; then nothing is left behind.
void export_model(const CheckpointFile& from, const std::string& path, ModelFormat format, Disk& disk = real_disk());

}  // namespace estrain::checkpoint
