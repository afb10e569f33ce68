#pragma once
// The place and name of every tensor of a job's state in one contiguous copy.
//
// The state at step t is everything that defines the rest of the run: parameters, buffers, optimizer slots and the
// contexts of all ESTs. A worker lays the state out once from the model; launcher, scribe and verify know the state
// only through this description, so they do not need torch. All integers are little-endian. Parameters, buffers and
// averages start at a multiple of 256 bytes, as a GPU wants for tensors, the rest at a multiple of 64.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/json/json.h"

namespace estrain::checkpoint {

enum class DType : uint8_t { f32, f64, i64, u8, i32 };
size_t element_size(DType dtype);
std::string_view dtype_name(DType dtype);  // "float32", "float64", "int64", "uint8", "int32"

enum class Role : uint8_t {
  parameter,  // /model/<name>
  buffer,     // /buffers/<name>
  optimizer,  // /optimizer/<name>/<slot>: "momentum_buffer", "exp_avg", "exp_avg_sq", "step" (int64: updates applied so
              // far)
  est,        // /ests/<name>/<slot>: name is the virtual rank; "generator" (uint8: torch's CPU generator state), "loss"
              // (last), "cuda_generator" (uint8: torch's CUDA generator state; where the job has run on a GPU)
  schedule,   // /schedule/<name>: "plateau" (float64: best metric, evaluations without improvement, cooldown, and the
              // learning rate of each parameter group), "early_stop" (float64: best metric, evaluations without
              // improvement)
  average,    // /ema/<name>: float32, the average of parameter <name>
};

inline constexpr std::string_view early_stop_name = "early_stop";  // in /schedule

struct StateTensor {
  Role role = Role::parameter;
  std::string name;  // PyTorch's state_dict name (dots kept), or the virtual rank
  std::string slot;  // for optimizer and est; otherwise empty
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // empty: a scalar
  uint64_t offset = 0;         // in bytes from the start of the copy

  uint64_t elements() const;
  uint64_t bytes() const { return elements() * element_size(dtype); }
  std::string path() const;  // of the tensor's HDF5 dataset

  ESTRAIN_FIELDS(role, name, slot, dtype, shape, offset)
};

// A second state_dict name of a tied parameter or buffer: a hard link in the file.
struct StateAlias {
  Role role = Role::parameter;
  std::string name;
  std::string target;

  std::string path() const;         // of the link
  std::string target_path() const;  // of the dataset

  ESTRAIN_FIELDS(role, name, target)
};

struct StateLayout {
  std::vector<StateTensor> tensors;  // model's parameter order, then buffers, optimizer, ESTs, schedule,
                                     // averages
  std::vector<StateAlias> aliases;
  uint64_t bytes = 0;  // of one copy

  // Appends a tensor at the next free place and returns the tensor's offset.
  uint64_t append(Role role, std::string name, std::string slot, DType dtype, std::vector<int64_t> shape);

  std::string to_json() const;
  ESTRAIN_FIELDS(tensors, aliases, bytes)
};

// Fields of messages (core/base/json/codec.h): the words of the formats. The readers throw Fault::corrupt.
Json to_field(DType dtype);
Json to_field(Role role);
void from_field(const Json& json, DType& dtype);
void from_field(const Json& json, Role& role);

}  // namespace estrain::checkpoint
