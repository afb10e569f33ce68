#include "core/engine/train/state/model_places.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::train {
namespace {

using checkpoint::DType;
using checkpoint::Role;

DType dtype_of(const torch::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case torch::kFloat:
      return DType::f32;
    case torch::kDouble:
      return DType::f64;
    case torch::kLong:
      return DType::i64;
    case torch::kInt:
      return DType::i32;
    case torch::kByte:
    case torch::kBool:  // 0 and 1
      return DType::u8;
    default:
      throw Error::make(Fault::spec, "buffer {} has a type that a checkpoint cannot hold", name);
  }
}

}  // namespace

ModelPlaces::ModelPlaces(const model::NamedTensors& tensors, checkpoint::StateLayout& layout) {
  for (const auto& [name, tensor] : tensors.parameters) {
    const uint64_t offset = layout.append(Role::parameter, name, "", DType::f32, tensor.sizes().vec());
    TableRows table;
    if (may_be_table(tensor.sizes())) {
      table = {static_cast<size_t>(tensor.size(0)), row_mark_words_};
      row_mark_words_ += 1 + (table.rows + 63) / 64;
    }
    parameters_.push_back({offset, static_cast<size_t>(tensor.numel()), table});
  }
  parameters_bytes_ = layout.bytes;
  for (const auto& [name, tensor] : tensors.buffers) {
    const uint64_t offset = layout.append(Role::buffer, name, "", dtype_of(tensor, name), tensor.sizes().vec());
    if (buffers_.empty()) buffers_at_ = offset;
    buffers_.push_back({offset - buffers_at_, tensor.nbytes()});
    buffers_bytes_ = layout.bytes - buffers_at_;
  }
  for (const auto& [name, target] : tensors.aliases) {
    const auto is_target = [&target = target](const auto& parameter) { return parameter.first == target; };
    const bool is_parameter = std::ranges::any_of(tensors.parameters, is_target);
    layout.aliases.push_back({is_parameter ? Role::parameter : Role::buffer, name, target});
  }
}

}  // namespace estrain::train
