#include "core/inspect/verify/subject.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/long_files.h"
#include "core/base/files/run_files.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/checkpoint/directory.h"

namespace estrain::verify {
namespace {

// The spec only shows differing keys, so an unreadable spec from an older or newer estrain must not prevent comparing
// bits.
std::optional<spec::JobSpec> parse_if_possible(const std::string& text, const std::string& source) {
  try {
    return spec::parse_text(text, source);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Nothing if the file is gone.
std::optional<checkpoint::CheckpointFile> open_if_there(const std::string& path) {
  try {
    return checkpoint::CheckpointFile::open(path);
  } catch (const Error& error) {
    if (error.fault() == Fault::io && !std::filesystem::exists(path)) return std::nullopt;
    throw;
  }
}

std::string stage_lines(const std::string& events) {
  std::string found;
  LineReader lines(events);
  for (std::string_view line; lines.next(&line);)
    if (line.find("\"stage\"") != line.npos) found.append(line).append("\n");
  return found;
}

void find_checkpoints(const std::string& folder, Subject& subject) {
  const checkpoint::CheckpointDirectory directory(folder);
  for (const Step step : directory.steps()) {
    const std::string path = directory.path_of(step);
    try {
      const auto file = open_if_there(path);
      if (!file) continue;
      subject.checkpoints.emplace(step, path);
      subject.processor = file->meta().cpu;
    } catch (const Error& error) {
      if (error.fault() == Fault::io) throw;
      subject.unreadable.push_back({step, path, error.message()});
    }
  }
}

Subject open_run(const std::string& path) {
  const RunFiles files(path);
  Subject run;
  run.path = path;
  run.is_run = true;
  run.spec = parse_if_possible(read_file_if_present(files.spec()).value_or(""), files.spec());
  run.changes = read_file_if_present(files.changes()).value_or("");
  run.stages = stages_from_events(stage_lines(files.events()));
  if (std::filesystem::exists(files.metrics())) run.metrics = record::read_metrics(files.metrics());
  if (std::filesystem::exists(files.fingerprints()))
    run.fingerprints = std::make_unique<record::FingerprintReader>(files.fingerprints());
  find_checkpoints(files.checkpoints(), run);
  return run;
}

Subject open_alone(const std::string& path) {
  Subject alone;
  alone.path = path;
  const auto file = checkpoint::CheckpointFile::open(path);
  alone.spec = parse_if_possible(file.meta().spec, path);
  alone.changes = file.meta().changes;
  alone.stages = stages_from_list(file.meta().stages);
  alone.checkpoints.emplace(file.meta().step, path);
  alone.processor = file.meta().cpu;
  return alone;
}

}  // namespace

Subject open_subject(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::is_regular_file(path, failure)) return open_alone(path);
  for (const std::string& sign : {RunFiles(path).spec(), RunFiles(path).checkpoints()}) {
    if (std::filesystem::exists(sign, failure)) return open_run(path);
  }
  const bool found = std::filesystem::exists(path, failure);
  throw Error::make(Fault::usage, "{}: {}", path,
                    failure ? failure.message()
                    : found ? "neither a run directory nor a checkpoint"
                            : "does not exist")
      .advise("give a run directory (it holds job.toml) or one of its checkpoints/step-*.h5");
}

std::optional<checkpoint::CheckpointFile> open_checkpoint(const Subject& subject, Step step) {
  const auto found = subject.checkpoints.find(step);
  if (found == subject.checkpoints.end()) return std::nullopt;
  return open_if_there(found->second);
}

}  // namespace estrain::verify
