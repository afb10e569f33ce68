#pragma once
// Fault rules as text: TOML -> causes. FAULTS.md says how such a file is written.

#include <string>
#include <string_view>
#include <vector>

#include "core/faults/fault_cause.h"

namespace estrain::faults {

// The causes of a rule file in the order of its text. One with the id of a cause of `known` changes that cause: keys
// that it does not give are as they were there, but `signatures` are only its own. Any other cause must give all that a
// cause needs. Throws Fault::spec with a line "source:line:column: key: what is wrong" for each mistake.
std::vector<FaultCause> read_rules(std::string_view text, const std::string& source,
                                   const std::vector<FaultCause>& known);

// The cause that stands where no signature fits: it alone has none.
inline constexpr std::string_view no_signature = "no_signature";

}  // namespace estrain::faults
