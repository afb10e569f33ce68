#pragma once
// Whether an agent answers under a name at an address that a host file, or somebody, has left.

#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

// Calls back once. Throws Fault::usage where the address is none.
void ask_who_listens(net::Loop& loop, const net::Key& key, const std::string& run, const std::string& name,
                     const std::string& address, std::function<void(bool it_does)> done);

Error name_is_taken(const std::string& name, const std::string& address);

// For an agent that has not begun to serve: runs the loop until it is known. Throws Fault::usage where another agent of
// this run has the name and answers.
void require_free_name(net::Loop& loop, const net::Key& key, const std::string& run, const std::string& name);

}  // namespace estrain::hosts
