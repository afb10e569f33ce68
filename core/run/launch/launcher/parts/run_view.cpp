#include "core/run/launch/launcher/parts/run_view.h"

#include <algorithm>
#include <utility>

#include "core/base/files/files.h"
#include "core/job/spec/defaults.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::launch {

// Leaves correct files alone: a full disk does not prevent a resume.
void Journal::put_on_record(const spec::JobSpec& spec, const std::string& changes) {
  if (std::exchange(on_record_, true)) return;
  const auto put = [](const std::string& path, const std::string& text) {
    if (read_file_if_present(path) != text) write_file_atomically(path, text);
  };
  put(directory.spec(), spec::to_toml(spec));
  put(directory.changes(), changes);
}

void RunMemory::attach() {
  memory_ = std::make_unique<comm::JobMemory>(descriptor_);
  if (!memory_->is_ready()) throw Error(Fault::bug, "workers are ready but the shared memory is not");
  manifest_ = checkpoint::Manifest::from_json(memory_->manifest());
}

void RunMemory::take_changes(const spec::JobSpec& spec) {
  manifest_->batches.changes = spec.elastic.changes;
  manifest_->total_steps = spec::total_steps(spec.train, manifest_->batches);
}

bool RunMemory::is_built() const { return memory_ || comm::JobMemory(descriptor_).is_ready(); }

std::optional<comm::RecordHead> last_step_record(const comm::JobMemory& memory) {
  comm::RecordRing ring = memory.ring();
  const uint32_t published = ring.published();
  for (uint32_t back = 1; back <= std::min(published, 2u); ++back) {
    const comm::RecordHead head = *ring.at(published - back).head;
    if (head.kind == comm::RecordKind::step) return head;
  }
  return std::nullopt;
}

StartRequest request_to_continue(const RunView& run, std::string devices) {
  StartRequest request;
  request.run = run.journal.directory.path();
  request.devices = std::move(devices);
  request.grace_seconds = run.job.grace_seconds;
  request.allow_mixed = run.options.allow_mixed;
  request.oversubscribe = run.options.oversubscribe;
  request.background = run.options.background;
  request.shared_mark = run.options.shared_mark;
  request.listen = run.options.listen;
  return request;
}

}  // namespace estrain::launch
