#include "core/state/checkpoint/state/state_layout.h"

#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "core/base/json/codec.h"

namespace estrain::checkpoint {
namespace {

struct DTypeRow {
  DType dtype;
  size_t size;
  std::string_view name;
};
constexpr std::array<DTypeRow, 5> dtypes = {{
    {DType::f32, 4, "float32"},
    {DType::f64, 8, "float64"},
    {DType::i64, 8, "int64"},
    {DType::u8, 1, "uint8"},
    {DType::i32, 4, "int32"},
}};

struct RoleRow {
  Role role;
  std::string_view name;
  std::string_view folder;
  uint64_t alignment;
};
constexpr std::array<RoleRow, 6> roles = {{
    {Role::parameter, "parameter", "/model/", 256},
    {Role::buffer, "buffer", "/buffers/", 256},
    {Role::optimizer, "optimizer", "/optimizer/", 64},
    {Role::est, "est", "/ests/", 64},
    {Role::schedule, "schedule", "/schedule/", 64},
    {Role::average, "average", "/ema/", 256},
}};

const DTypeRow& row(DType dtype) { return dtypes.at(static_cast<size_t>(dtype)); }
const RoleRow& row(Role role) { return roles.at(static_cast<size_t>(role)); }

template <typename Rows>
const auto& row_named(const Rows& rows, std::string_view name) {
  for (const auto& candidate : rows)
    if (candidate.name == name) return candidate;
  throw Error::make(Fault::corrupt, "state layout: unknown word '{}'", name);
}

std::string word_in(const Json& json) {
  std::string word;
  codec::from_field(json, word);
  return word;
}

}  // namespace

size_t element_size(DType dtype) { return row(dtype).size; }

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

uint64_t StateTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

std::string StateTensor::path() const {
  std::string path = std::string(row(role).folder) + name;
  return slot.empty() ? path : path + "/" + slot;
}

std::string StateAlias::path() const { return std::string(row(role).folder) + name; }

std::string StateAlias::target_path() const { return std::string(row(role).folder) + target; }

uint64_t StateLayout::append(Role role, std::string name, std::string slot, DType dtype, std::vector<int64_t> shape) {
  const uint64_t alignment = row(role).alignment;
  const uint64_t offset = (bytes + alignment - 1) / alignment * alignment;
  tensors.push_back({role, std::move(name), std::move(slot), dtype, std::move(shape), offset});
  bytes = offset + tensors.back().bytes();
  return offset;
}

std::string StateLayout::to_json() const { return codec::fields_of(*this).dump(); }

Json to_field(DType dtype) { return row(dtype).name; }
Json to_field(Role role) { return row(role).name; }
void from_field(const Json& json, DType& dtype) { dtype = row_named(dtypes, word_in(json)).dtype; }
void from_field(const Json& json, Role& role) { role = row_named(roles, word_in(json)).role; }

}  // namespace estrain::checkpoint
