#pragma once
// A job's data files on this host, for comparison with the data files of another host: by purpose, size and digest
// (core/data/files/identity.h). Paths and times may differ.

#include <string>

#include "core/base/json/json.h"

namespace estrain::hosts {

// {"data": [{"what", "size", "digest"}, …]}, or {"error", "advice"} if a file cannot be read. `spec`: TOML.
Json data_digests_or_error(const std::string& spec);

}  // namespace estrain::hosts
