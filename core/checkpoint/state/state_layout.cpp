#include "core/checkpoint/state/state_layout.h"

#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "core/base/json/json.h"

namespace estrain::checkpoint {
namespace {

struct DTypeRow {
  DType dtype;
  size_t size;
  std::string_view name;
};
constexpr std::array<DTypeRow, 4> dtypes = {{
    {DType::f32, 4, "float32"},
    {DType::f64, 8, "float64"},
    {DType::i64, 8, "int64"},
    {DType::u8, 1, "uint8"},
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

Json to_json(const StateTensor& tensor) {
  return {{"role", row(tensor.role).name},   {"name", tensor.name},   {"slot", tensor.slot},
          {"dtype", row(tensor.dtype).name}, {"shape", tensor.shape}, {"offset", tensor.offset}};
}

StateTensor tensor_from(const Json& json) {
  return {row_named(roles, json.at("role").get<std::string>()).role,    json.at("name"),  json.at("slot"),
          row_named(dtypes, json.at("dtype").get<std::string>()).dtype, json.at("shape"), json.at("offset")};
}

StateAlias alias_from(const Json& json) {
  return {row_named(roles, json.at("role").get<std::string>()).role, json.at("name"), json.at("target")};
}

StateLayout layout_from(const Json& json) {
  StateLayout layout;
  for (const Json& tensor : json.at("tensors")) layout.tensors.push_back(tensor_from(tensor));
  for (const Json& alias : json.at("aliases")) layout.aliases.push_back(alias_from(alias));
  layout.bytes = json.at("bytes");
  return layout;
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

std::string StateLayout::to_json() const {
  Json json = {{"tensors", Json::array()}, {"aliases", Json::array()}, {"bytes", bytes}};
  for (const StateTensor& tensor : tensors) json["tensors"].push_back(checkpoint::to_json(tensor));
  for (const StateAlias& alias : aliases)
    json["aliases"].push_back({{"role", row(alias.role).name}, {"name", alias.name}, {"target", alias.target}});
  return json.dump();
}

StateLayout StateLayout::from_json(std::string_view text) {
  const Json json = parse_json(text, "state layout");
  try {
    return layout_from(json);
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "state layout: {}", error.what());
  }
}

}  // namespace estrain::checkpoint
