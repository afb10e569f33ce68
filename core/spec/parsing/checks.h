#pragma once
// Checks over several keys: keys of another model, optimizer, format or schedule than the chosen one, and incompatible
// values.

#include "core/spec/job_spec.h"
#include "core/spec/parsing/document.h"
#include "core/spec/parsing/findings.h"

namespace estrain::spec {

// Adds to `findings`. Skips a check if one of its keys already has a finding.
void check_belonging(const JobSpec& spec, const Document& document, Findings& findings);
void check_combinations(const JobSpec& spec, const Document& document, Findings& findings);

}  // namespace estrain::spec
