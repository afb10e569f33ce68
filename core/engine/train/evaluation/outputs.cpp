#include "core/engine/train/evaluation/outputs.h"

#include <torch/types.h>

#include "core/base/error.h"

namespace estrain::train {
namespace {

// The type that is written, and numpy's name of it.
std::pair<at::ScalarType, const char*> written_type(const std::string& name, at::ScalarType type) {
  switch (type) {
    case torch::kFloat:
    case torch::kHalf:
    case torch::kBFloat16:
      return {torch::kFloat, "float32"};
    case torch::kDouble:
      return {torch::kDouble, "float64"};
    case torch::kLong:
      return {torch::kLong, "int64"};
    case torch::kInt:
      return {torch::kInt, "int32"};
    case torch::kShort:
      return {torch::kShort, "int16"};
    case torch::kChar:
      return {torch::kChar, "int8"};
    case torch::kByte:
    case torch::kBool:
      return {torch::kByte, "uint8"};
    default:
      throw Error::make(Fault::spec, "output {} of the model is of type {}, which no file of outputs holds", name,
                        c10::toString(type))
          .advise("convert it in the module");
  }
}

void write_rows(const std::string& name, const torch::Tensor& rows, int64_t first, checkpoint::OutputParts& parts) {
  const auto [type, type_name] = written_type(name, rows.scalar_type());
  const torch::Tensor there = rows.to(type).cpu().contiguous();
  parts.put({name, type_name, there.sizes().slice(1).vec()}, first, there.size(0),
            static_cast<const std::byte*>(there.const_data_ptr()));
}

}  // namespace

void write_outputs(const model::EvaluatedBatch& batch, int64_t first, checkpoint::OutputParts& parts) {
  for (const auto& [name, rows] : batch.outputs) write_rows(name, rows, first, parts);
  write_rows("losses", batch.losses, first, parts);
}

}  // namespace estrain::train
