#pragma once
// A job's data files on this host, to be compared with those of another: by what they are for, size and digest
// (core/data/identity.h). Paths and times may differ.

#include <string>

#include "core/base/json/json.h"

namespace estrain::hosts {

// {"data": [{"what", "size", "digest"}, …]}, or {"error", "advice"} where a file cannot be read. `spec`: TOML.
Json data_digests_or_error(const std::string& spec);

}  // namespace estrain::hosts
