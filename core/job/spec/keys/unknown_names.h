#pragma once
// Messages for unknown names.

#include <string>
#include <string_view>
#include <vector>

namespace estrain::spec {

std::string unknown_table(const std::string& name);

// `name` is dotted with a known table, or a single name outside all tables.
std::string unknown_key(const std::string& name);

// For a table in an array; `owner` names the table: "a group".
std::string unknown_member(const std::string& name, const std::vector<std::string>& known, std::string_view owner);

}  // namespace estrain::spec
