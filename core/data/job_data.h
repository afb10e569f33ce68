#pragma once
// Opens all files of a job: the files of the data, and the files of a user's model (programs or a file of Python code).
// All files are opened together: a changed program is noticed like changed data (identity.h). Modules imported by the
// code from the code's own folder are known once the code has run: module_names().

#include <string>
#include <vector>

#include "core/base/finding.h"
#include "core/data/files/data_files.h"
#include "core/data/files/identity.h"
#include "core/data/formats/dataset.h"

namespace estrain::data {

// FileName::what for a job's programs.
inline constexpr const char* program_file = "program";
inline constexpr const char* evaluation_program_file = "evaluation program";
inline constexpr const char* code_file = "the model's Python code";
inline constexpr const char* metrics_code_file = "the metrics' Python code";

// file_names() of the data, followed by the programs, the weights of samples and the code of metrics.
std::vector<FileName> job_file_names(const spec::JobSpec& spec);

// The modules of `imported` (model::Interpreter), with names relative to the folder of the job's Python code.
std::vector<FileName> module_names(const spec::ModelSection& model, const std::vector<std::string>& imported);
// The still existing modules in `known`, of the model's and the data's code, for a process that has not run the code.
std::vector<FileName> modules_in(const spec::JobSpec& spec, const DataIdentity& known);

// require_same() for the files of a job. The code of metrics may come and go with its key: only other contents of the
// code are a change.
DataIdentity require_same_job(DataIdentity known, const std::vector<DataFile>& files);

// The names of the arrays taken by the job's programs, including the target of the loss. For a model in Python code:
// the names of all arrays of the data. Empty for a built-in model, and if the model takes the data as pictures and
// classes (is_labelled_pictures()). Throws Fault::io, and as program::read_program().
std::vector<std::string> arrays_of_job(const spec::JobSpec& spec);

// The [data] section, with the Python of the model if the section names none.
spec::DataSection data_section(const spec::JobSpec& spec);

// The warning about a job that evaluates (train.eval_every), and whose data have no samples for it.
Finding no_evaluation(const spec::DataSection& section);

// open() (dataset.h) for the job; DataPair::files includes all job_file_names(), DataPair::notes the missing
// evaluation.
DataPair open_job(const spec::JobSpec& spec);

}  // namespace estrain::data
