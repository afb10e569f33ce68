#pragma once
// Finds out whether an agent answers under a name at an address from a host file or a registration.

#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

// Calls back once. Throws Fault::usage if `address` is not an address.
void ask_who_listens(net::Loop& loop, const net::SharedKey& key, const std::string& run, const std::string& name,
                     const std::string& address, std::function<void(bool it_does)> done);

Error name_is_taken(const std::string& name, const std::string& address);

// For an agent that does not serve yet: runs the loop until the answer is known. Throws Fault::usage if another agent
// of this run has the name and answers.
void require_free_name(net::Loop& loop, const net::SharedKey& key, const std::string& run, const std::string& name);

}  // namespace estrain::hosts
