#include "core/verify/subject.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/checkpoint/directory.h"
#include "core/spec/parse.h"

namespace estrain::verify {
namespace {

// Only tells which keys differ: a spec that an older or newer estrain wrote must not keep anybody from comparing bits.
std::optional<spec::JobSpec> parse_if_possible(const std::string& text, const std::string& source) {
  try {
    return spec::parse_text(text, source);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void open_checkpoints(const std::string& folder, Subject& subject) {
  const checkpoint::CheckpointDirectory directory(folder);
  for (const Step step : directory.steps()) {
    try {
      subject.checkpoints.emplace(step, checkpoint::CheckpointFile::open(directory.path_of(step)));
    } catch (const Error& error) {
      subject.unreadable.push_back({step, directory.path_of(step), error.message()});
    }
  }
}

Subject open_run(const std::string& path) {
  Subject run;
  run.path = path;
  run.is_run = true;
  run.spec = parse_if_possible(read_file_if_present(path + "/job.toml").value_or(""), path + "/job.toml");
  run.changes = read_file_if_present(path + "/changes.jsonl").value_or("");
  run.stages = stages_from_events(read_file_if_present(path + "/events.jsonl").value_or(""));
  if (std::filesystem::exists(path + "/metrics.jsonl")) run.metrics = record::read_metrics(path + "/metrics.jsonl");
  if (std::filesystem::exists(path + "/fingerprints"))
    run.fingerprints = std::make_unique<record::FingerprintReader>(path + "/fingerprints");
  open_checkpoints(path + "/checkpoints", run);
  return run;
}

Subject open_checkpoint(const std::string& path) {
  Subject alone;
  alone.path = path;
  checkpoint::CheckpointFile file = checkpoint::CheckpointFile::open(path);
  alone.spec = parse_if_possible(file.meta().spec, path);
  alone.changes = file.meta().changes;
  alone.stages = stages_from_list(file.meta().stages);
  alone.checkpoints.emplace(file.meta().step, std::move(file));
  return alone;
}

}  // namespace

Subject open_subject(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return open_checkpoint(path);
  if (std::filesystem::exists(path + "/job.toml")) return open_run(path);
  throw Error::make(Fault::usage, "{}: {}", path,
                    std::filesystem::exists(path) ? "neither a run directory nor a checkpoint" : "does not exist")
      .advise("give a run directory (it holds job.toml) or one of its checkpoints/step-*.h5");
}

}  // namespace estrain::verify
