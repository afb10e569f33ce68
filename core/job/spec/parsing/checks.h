#pragma once
// Checks over several keys: keys of another model, optimizer, format or schedule than the chosen one, and incompatible
// values.

#include "core/job/spec/job_spec.h"
#include "core/job/spec/parsing/document.h"
#include "core/job/spec/parsing/mistakes.h"

namespace estrain::spec {

// Adds to `mistakes`. Skips a check if a key of the check already has a mistake.
void check_belonging(const JobSpec& spec, const Document& document, Mistakes& mistakes);
void check_combinations(const JobSpec& spec, const Document& document, Mistakes& mistakes);

}  // namespace estrain::spec
