#include "core/engine/model/state_dict.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "core/base/error.h"

namespace estrain::model {
namespace {

// Python's: "bfloat16".
std::string name_of(c10::ScalarType type) {
  switch (type) {
    case c10::kDouble:
      return "float64";
    case c10::kHalf:
      return "float16";
    case c10::kLong:
      return "int64";
    case c10::kInt:
      return "int32";
    case c10::kShort:
      return "int16";
    case c10::kChar:
      return "int8";
    default:
      std::string name = c10::toString(type);
      std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
      return name;
  }
}

}  // namespace

std::pair<std::string, std::string> split_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool is_sound_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == std::string::npos &&
         name.size() <= 1024 && std::ranges::count(name, '.') < 100 && name.find('/') == std::string::npos &&
         std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

torch::nn::Module& module_at(torch::nn::Module& root, const std::string& path) {
  torch::nn::Module* at = &root;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const auto children = at->named_children();
    const auto* child = children.find(name);
    at = child != nullptr ? child->get() : at->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
    begin = end + 1;
  }
  return *at;
}

void require_parameter_type(const std::string& what, c10::ScalarType type) {
  if (type == c10::kFloat) return;
  throw Error::make(Fault::mismatch, "{} is {}, but must be float32", what, name_of(type))
      .advise("build the module in float32; job.precision = \"bf16\" computes as torch.autocast does");
}

bool is_buffer_type(c10::ScalarType type) {
  constexpr c10::ScalarType kept[] = {c10::kFloat, c10::kDouble, c10::kLong, c10::kInt, c10::kByte, c10::kBool};
  return std::ranges::find(kept, type) != std::end(kept);
}

void require_buffer_type(const std::string& what, c10::ScalarType type) {
  if (is_buffer_type(type)) return;
  throw Error::make(Fault::mismatch,
                    "{} is {}, but a checkpoint can hold only float32, float64, int64, int32, uint8 and bool", what,
                    name_of(type))
      .advise("register it with persistent=False if it is constant, or use another type");
}

}  // namespace estrain::model
