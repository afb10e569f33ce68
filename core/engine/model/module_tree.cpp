#include "core/engine/model/module_tree.h"

#include <algorithm>
#include <memory>

namespace estrain::model {

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

}  // namespace estrain::model
