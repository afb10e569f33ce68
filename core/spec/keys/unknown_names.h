#pragma once
// Messages for unknown names.

#include <string>

namespace estrain::spec {

std::string unknown_table(const std::string& name);

// `name` is dotted with a known table, or a single name outside all tables.
std::string unknown_key(const std::string& name);

std::string unknown_group_key(const std::string& leaf);

}  // namespace estrain::spec
