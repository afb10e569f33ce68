#pragma once
// Text -> JobSpec, every key checked: type, range, unknown key ("did you mean"), combinations that make no sense; and
// back.

#include <string>
#include <string_view>
#include <vector>

#include "core/spec/job_spec.h"

namespace estrain::spec {

// Reads a TOML job spec. `overrides` are the command line's --set arguments, "data.batch=16": the value is TOML, or a
// bare word taken as a string. The last of several for one key counts; train.steps replaces the file's train.epochs and
// the other way round. Relative paths in the spec are taken from its folder, those of overrides from the current
// folder; the JobSpec has absolute ones. Throws Fault::spec with advice and one line "file:line:column: key: what is
// wrong" for everything that is wrong, in the order of the file (text that is no TOML: the first mistake); "--set ..."
// stands for the place in an override. Fault::usage for an override that is not key=value, Fault::spec where the file
// cannot be read. `path` may be a pipe (base/input_file.h); relative paths in it are taken from the current folder.
JobSpec parse_file(const std::string& path, const std::vector<std::string>& overrides = {});

// A run's own spec: a regular file, for nobody waits for a pipe there.
JobSpec parse_regular_file(const std::string& path);

// The same for text that would stand in the file `source_name`.
JobSpec parse_text(std::string_view toml, const std::string& source_name,
                   const std::vector<std::string>& overrides = {});

// The resolved spec: every key with its value, such that parse_text(to_toml(spec)) == spec for every spec that
// parse_text gave. Keys that belong to another model, optimizer, format or schedule do not appear; keys that are not
// set stand in comments. What a run directory keeps.
std::string to_toml(const JobSpec& spec);

// Dotted names of keys whose values differ and whose change would change the bits or the checkpoint's meaning
// (not job.name, resources.*, logging.*, checkpoint.*, data.readers, data.prefetch, train.steps/epochs/eval_*, and not
// paths; train.eval_* do where schedule.name = "plateau"). A key that is not set equals its default.
std::vector<std::string> changed_keys(const JobSpec& before, const JobSpec& after);

// The reference of all keys as a Markdown table (key, type, default, range, meaning): configs/REFERENCE.md's, and
// `estrain train --keys`.
std::string key_reference();

}  // namespace estrain::spec
