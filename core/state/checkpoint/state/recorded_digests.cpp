#include "core/state/checkpoint/state/recorded_digests.h"

#include <array>
#include <utility>

#include "core/state/checkpoint/state/est_streams.h"
#include "kernels/average.h"
#include "kernels/digest.h"
#include "kernels/optimizer.h"

namespace estrain::checkpoint {
namespace {

constexpr const char* update_count = "step";  // this slot is not part of the optimizer's arithmetic

struct Parts {
  kernels::OptimizerDigest digest;
  size_t slots = 0;
  uint64_t average = 0;
};

}  // namespace

std::map<std::string, uint64_t> recorded_digests(const StateLayout& layout, const std::vector<uint64_t>& digests) {
  std::map<std::string, Parts> parameters;
  struct Streams {
    uint64_t cpu = 0, cuda = 0, python = 0;
  };
  std::map<std::string, Streams> streams;  // of each EST
  std::map<std::string, uint64_t> found;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const StateTensor& tensor = layout.tensors[i];
    if (tensor.role == Role::parameter) parameters[tensor.name].digest.parameter = digests[i];
    if (tensor.role == Role::average) parameters[tensor.name].average = digests[i];
    if (tensor.role == Role::buffer) found[tensor.name] = digests[i];
    if (tensor.role == Role::est && tensor.slot == generator_slot) streams[tensor.name].cpu = digests[i];
    if (tensor.role == Role::est && tensor.slot == cuda_generator_slot) streams[tensor.name].cuda = digests[i];
    if (tensor.role == Role::est && tensor.slot == python_slot) streams[tensor.name].python = digests[i];
    if (tensor.role != Role::optimizer || tensor.slot == update_count) continue;
    Parts& parts = parameters[tensor.name];
    if (parts.slots < std::size(parts.digest.slots)) parts.digest.slots[parts.slots++] = digests[i];
  }
  for (const auto& [rank, digest] : streams)
    found["est/" + rank + "/generator"] = streams_digest(digest.cpu, digest.cuda, digest.python);
  for (const auto& [name, parts] : parameters)
    found[name] = kernels::with_average(parts.digest.combined(), parts.average);
  return found;
}

std::vector<uint64_t> digests_of_tensors(const StateLayout& layout, const std::byte* state) {
  std::vector<uint64_t> digests;
  for (const StateTensor& tensor : layout.tensors)
    digests.push_back(kernels::digest(state + tensor.offset, tensor.bytes()));
  return digests;
}

}  // namespace estrain::checkpoint
