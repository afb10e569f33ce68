#pragma once
// What no key can be checked for alone: keys that belong to another model, optimizer, format or schedule than the
// chosen one, and values that do not go together.

#include "core/spec/document.h"
#include "core/spec/findings.h"
#include "core/spec/job_spec.h"

namespace estrain::spec {

// Adds to `findings`. A check is left out where something was already found about one of its keys.
void check_belonging(const JobSpec& spec, const Document& document, Findings& findings);
void check_combinations(const JobSpec& spec, const Document& document, Findings& findings);

}  // namespace estrain::spec
