#pragma once
// What to say about names that no key has.

#include <string>

namespace estrain::spec {

std::string unknown_table(const std::string& name);

// `name` is dotted, its table known; or a lone name that stands outside all tables.
std::string unknown_key(const std::string& name);

std::string unknown_group_key(const std::string& leaf);

}  // namespace estrain::spec
