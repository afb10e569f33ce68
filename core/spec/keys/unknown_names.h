#pragma once
// Messages for unknown names.

#include <string>
#include <string_view>
#include <vector>

namespace estrain::spec {

std::string unknown_table(const std::string& name);

// `name` is dotted with a known table, or a single name outside all tables.
std::string unknown_key(const std::string& name);

// Of a table in an array; `owner` is what the table is: "a group".
std::string unknown_member(const std::string& name, const std::vector<std::string>& known, std::string_view owner);

}  // namespace estrain::spec
