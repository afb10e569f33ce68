#pragma once
// A checkpoint's weights for other programs: parameters and buffers by their state_dict names, and nothing else.
//
//   safetensors   safetensors.torch.load_file(path) is the state_dict, with a tied weight under each of its names
//   hdf5          /model/<name> and /buffers/<name> as in a checkpoint, without its seal; tied names are links
//
// model.init takes both again. A third way is to put the weights into an exported program's file
// (formats/program/write_program.h): ModelReader gives the weights by name.

#include <map>
#include <span>
#include <string>

#include "core/base/files/disk.h"
#include "core/state/checkpoint/checkpoint_file.h"

namespace estrain::checkpoint {

enum class ModelFormat { safetensors, hdf5 };

// The values of parameters to export.
enum class Weights {
  trained,
  average,  // of [ema]; with the buffers of the step
};

// The model's tensors by each of their names. `from` must outlive the object.
class ModelReader {
 public:
  // Throws Fault::usage if averages are asked for and the checkpoint has no averages.
  ModelReader(const CheckpointFile& from, Weights weights);

  // Returns nullptr for an unknown name.
  const StateTensor* find(const std::string& name) const;
  // Reads and checks the elements of a tensor given by find().
  void read(const StateTensor& tensor, std::byte* out) const;

 private:
  const CheckpointFile& from_;
  std::map<std::string, size_t> by_name_;
};

// Writes to a temporary name beside `path`, synced, renamed. Throws Fault::io; then nothing is left behind.
void write_whole_file(const std::string& path, std::span<const std::byte> bytes, Disk& disk = real_disk());

// Writes to a temporary name beside `path`, syncs and renames the file: a reader of `path` sees a whole file or the
// earlier one. Checks every element against the checkpoint's digests meanwhile. Throws Fault::corrupt naming the
// damaged tensor, Fault::usage as ModelReader, Fault::io; after an error nothing is left behind.
struct ModelExport {
  ModelFormat format = ModelFormat::safetensors;
  Weights weights = Weights::trained;
};
void export_model(const CheckpointFile& from, const std::string& path, const ModelExport& what,
                  Disk& disk = real_disk());

}  // namespace estrain::checkpoint
