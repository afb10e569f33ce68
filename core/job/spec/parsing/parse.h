#pragma once
// Text -> JobSpec, and back. Checks every key: type, range, unknown key ("did you mean"), invalid
// combinations.

#include <string>
#include <string_view>
#include <vector>

#include "core/job/spec/job_spec.h"

namespace estrain::spec {

// Reads a TOML job spec. `overrides` are the command line's --set arguments, "data.batch=16": the value is TOML, or a
// bare word read as a string. The last override of a key counts; train.steps replaces the file's train.epochs and vice
// versa. Relative paths in the spec are relative to the spec's folder, paths in overrides to the current folder; the
// JobSpec has absolute paths. Throws Fault::spec with advice and a line "file:line:column: key: what is wrong" for each
// mistake, in the order of the file (for text other than TOML: only the first mistake); in an override the place is
// "--set ...". Throws Fault::usage for an override other than key=value, Fault::spec if the file is unreadable. `path`
// may be a pipe (base/files/input_file.h); a pipe's relative paths are relative to the current folder.
JobSpec parse_file(const std::string& path, const std::vector<std::string>& overrides = {});

// Reads a run's own spec, which must be a regular file: no launcher should wait for a pipe.
JobSpec parse_regular_file(const std::string& path);

// Reads a spec from a text; messages call the text `source_name`.
JobSpec parse_text(std::string_view toml, const std::string& source_name,
                   const std::vector<std::string>& overrides = {});

// Returns the resolved spec, as a run directory keeps it: every key with its value, so that parse_text(to_toml(spec))
// == spec for every spec from parse_text. Keys of another model, optimizer, format or schedule are left out; unset keys
// are comments.
std::string to_toml(const JobSpec& spec);

// Returns the dotted names of the keys whose values differ and affect the bits or the checkpoint's meaning (not
// job.name, resources.*, logging.*, checkpoint.*, data.readers, data.prefetch, train.steps/epochs/eval_*, and not
// paths; but train.eval_* with schedule.name = "plateau"). An unset key equals its default.
std::vector<std::string> changed_keys(const JobSpec& before, const JobSpec& after);

// Returns the reference of all keys as a Markdown table (key, type, default, range, meaning), for configs/REFERENCE.md
// and `estrain train --keys`.
std::string key_reference();

}  // namespace estrain::spec
