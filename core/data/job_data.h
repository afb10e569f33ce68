#pragma once
// All the files that a job reads: its data, and with model.name = "program" the program that is its model. They are
// opened together, so that a program which changed is noticed as changed data are (identity.h).

#include <string>
#include <vector>

#include "core/data/data_files.h"
#include "core/data/dataset.h"

namespace estrain::data {

// FileName::what of a job's programs.
inline constexpr const char* program_file = "program";
inline constexpr const char* evaluation_program_file = "evaluation program";

// file_names() of the data, then the programs.
std::vector<FileName> job_file_names(const spec::JobSpec& spec);

// Names of the arrays that the job's programs take, the target of the loss among them; none for a built-in model.
// Throws Fault::io, and what program::read_program() does.
std::vector<std::string> arrays_of_job(const spec::JobSpec& spec);

// open() (dataset.h) for the job; DataPair::files has the programs, too.
DataPair open_job(const spec::JobSpec& spec);

}  // namespace estrain::data
