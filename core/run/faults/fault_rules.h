#pragma once
// Fault rules as text: TOML -> causes. FAULTS.md explains the format.

#include <string>
#include <string_view>
#include <vector>

#include "core/run/faults/fault_cause.h"

namespace estrain::faults {

// Returns the causes of a rule file, in the order of its text. A cause with an id in `known` modifies the known cause:
// absent keys keep their values, but `signatures` holds only the new signatures. Other causes must give all required
// keys. Throws Fault::spec with a line "source:line:column: key: what is wrong" for each mistake.
std::vector<FaultCause> read_rules(std::string_view text, const std::string& source,
                                   const std::vector<FaultCause>& known);

// The cause if no signature matches. Only this cause has no signatures.
inline constexpr std::string_view no_signature = "no_signature";

}  // namespace estrain::faults
