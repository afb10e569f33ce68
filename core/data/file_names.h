#pragma once
// The files that a [data] section names.

#include <vector>

#include "core/data/files/data_files.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// The files in an order that the format fixes, training before test; empty for synthetic data. Throws Fault::spec where
// a needed key is empty, Fault::io where an idx folder lacks a standard name.
std::vector<FileName> file_names(const spec::DataSection& section);

}  // namespace estrain::data
