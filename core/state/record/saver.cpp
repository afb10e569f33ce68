#include "core/state/record/saver.h"

#include <estrain/version.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/files/long_files.h"
#include "core/base/files/run_files.h"
#include "core/base/json/json_fields.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/algorithms/choice_file.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "core/state/checkpoint/state/recorded_digests.h"
#include "core/state/record/scribe_log.h"

namespace estrain::record {
namespace {

std::string device_list(const Json& stage) {
  std::string devices;
  for (const Json& device : list_in(stage, "devices"))
    if (const auto kind = as_text(device)) devices += (devices.empty() ? "" : ",") + *kind;
  std::erase(devices, '\0');  // strings of HDF5 attributes cannot have a zero byte
  return devices;
}

constexpr size_t kAlignment = 4096;
constexpr size_t kPiece = size_t{256} << 20;  // of a state that is copied

constexpr uint64_t kBesideState = 1 << 20;  // a checkpoint's content beside its tensors, rounded up

SaveFailed failure(Step step, const std::string& why, const std::string& advice = "") { return {step, why, advice}; }

// Returns how much room the file system and the limit on a file's size leave for a file in `folder`.
uint64_t room_in(const std::string& folder) {
  uint64_t room = UINT64_MAX;
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) == 0 && space.f_blocks > 0)
    room = uint64_t{::geteuid() == 0 ? space.f_bfree : space.f_bavail} * space.f_frsize;
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    room = std::min<uint64_t>(room, limit.rlim_cur);
  return room;
}

// NaN: the evaluation does not have the metric.
double value_of(const std::string& metric, const EvaluationRecord& evaluation) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  if (metric == "loss") return evaluation.loss;
  if (metric == "accuracy") return evaluation.predictions == 0 ? none : evaluation.accuracy;
  const auto named = std::ranges::find(evaluation.metrics, metric, [](const auto& each) { return each.first; });
  return named == evaluation.metrics.end() ? none : named->second;
}

}  // namespace

bool BestEvaluation::take(const EvaluationRecord& evaluation) {
  const double value = (falls_ ? 1 : -1) * value_of(by_, evaluation);
  if (std::isnan(value) || (step_ && value >= value_)) return false;
  step_ = evaluation.step;
  value_ = value;
  return true;
}

void StageHistory::follow() {
  std::error_code absent;
  const uint64_t size = std::filesystem::file_size(path_, absent);
  if (!absent && size < read_) *this = StageHistory(path_);  // another file
  LineReader lines(path_, read_);
  for (std::string_view line; lines.next(&line);) {
    if (line.find("\"stage\"") == line.npos) continue;
    const Json event = parse_json_if_sound(line);
    if (text_in(event, "event") == "stage") add(event);
  }
  read_ = lines.end();
}

void StageHistory::add(const Json& stage) {
  devices_ = device_list(stage);
  std::string text = stage.dump();
  if (text.size() > kMostBytes) return;
  if (newest_.empty() && first_.size() < kFirst && text.size() <= kMostBytes / kFirst)
    return first_.push_back(std::move(text));
  bytes_ += text.size();
  newest_.push_back(std::move(text));
  steps_.push_back(whole_in(stage, "step").value_or(0));
  while (newest_.size() > kNewest || bytes_ > kMostBytes) leave_out_oldest();
}

void StageHistory::leave_out_oldest() {
  if (left_out_++ == 0) left_out_step_ = steps_.front();
  bytes_ -= newest_.front().size();
  newest_.pop_front();
  steps_.pop_front();
}

std::string StageHistory::to_json() const {
  std::string text;
  const auto put = [&](const std::string& entry) { text += (text.empty() ? "" : ",") + entry; };
  for (const std::string& stage : first_) put(stage);
  if (left_out_ > 0) put(Json{{"event", "stages_left_out"}, {"count", left_out_}, {"step", left_out_step_}}.dump());
  for (const std::string& stage : newest_) put(stage);
  return "[" + text + "]";
}

void copy_in_pieces(std::byte* to, const std::byte* from, size_t bytes, size_t piece,
                    const std::function<void()>& after_each) {
  for (size_t done = 0; done < bytes;) {
    const size_t now = std::min(piece, bytes - done);
    std::memcpy(to + done, from + done, now);
    done += now;
    after_each();
  }
}

Saver::Saver(const spec::JobSpec& spec, const std::string& run, const checkpoint::Manifest& manifest,
             std::function<void()> beat, Disk& disk, std::function<uint64_t()> room)
    : spec_(spec),
      run_(run),
      manifest_(manifest),
      beat_(std::move(beat)),
      disk_(disk),
      room_(std::move(room)),
      directory_(RunFiles(run).checkpoints(), disk),
      stages_(RunFiles(run).events()) {
  directory_.remove_stale_temporaries();
}

// Training takes more memory later than at its first checkpoint, so a copy may take half of the room.
bool Saver::take_snapshot(const std::byte* state) {
  const size_t bytes = (manifest_.layout.bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (!snapshot_ && room_() / 2 >= bytes)
    snapshot_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
  if (snapshot_) copy_in_pieces(snapshot_.get(), state, manifest_.layout.bytes, kPiece, beat_);
  return snapshot_ != nullptr;
}

void Saver::save(const StateToSave& source, const std::function<void()>& copied,
                 const std::function<void(SaveOutcome)>& done) {
  wait();
  StateToSave written = source;
  const bool is_copied = take_snapshot(source.state);
  if (is_copied) {
    written.state = snapshot_.get();
    copied();
  }
  const auto release = [is_copied, copied] {
    if (!is_copied) copied();
  };
  busy_ = true;
  try {
    thread_ = std::thread([this, written, release, done, meta = meta(source)] {
      const SaveOutcome what_became_of_it = write(written, meta);
      release();
      busy_ = false;
      done(what_became_of_it);
    });
  } catch (const std::system_error& error) {
    release();
    busy_ = false;
    done(failure(source.step, error.what()));
  }
}

SaveOutcome Saver::write(const StateToSave& source, checkpoint::CheckpointMeta meta) {
  const int64_t begin = monotonic_ns();
  const Step step = source.step;
  if (const auto tensor = damaged_tensor(source)) {
    SaveFailed failed = failure(step, "found the state damaged in memory: " + *tensor + " is not what was written",
                                "have the memory of the host checked");
    failed.damaged = true;
    return failed;
  }
  try {
    sync_records();
    add_files(meta);
    directory_.publish(manifest_.layout, source.state, meta);
    point_best();
    const Step best = best_;
    directory_.prune(step, spec_.checkpoint.keep, best < Step(0) ? std::nullopt : std::optional(best));
  } catch (const Error& error) {
    SaveFailed failed = failure(step, error.message(), error.advice());
    const uint64_t needed = manifest_.layout.bytes + kBesideState, room = room_in(run_);
    failed.no_room = checkpoint::lacks_room(error);
    if (failed.no_room && room < needed) failed.missing_bytes = needed - room;
    return failed;
  } catch (const std::exception& error) {  // for example, out of memory
    return failure(step, error.what());
  }
  last_saved_ = step;
  return Saved{step, seconds(monotonic_ns() - begin), manifest_.layout.bytes};
}

void Saver::sync_records() const {
  const RunFiles files(run_);
  for (const std::string& path : {files.metrics(), files.fingerprints()})
    if (const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); file) disk_.sync_file(file.get(), path);
  disk_.sync_folder(run_);
}

std::optional<std::string> Saver::damaged_tensor(const StateToSave& source) const {
  const std::vector<uint64_t>& recorded = source.digests;
  if (recorded.empty()) return std::nullopt;
  const auto digests =
      checkpoint::recorded_digests(manifest_.layout, checkpoint::digests_of_tensors(manifest_.layout, source.state));
  for (size_t i = 0; i < recorded.size(); ++i)
    if (digests.at(manifest_.digest_names[i]) != recorded[i]) return manifest_.digest_names[i];
  return std::nullopt;
}

void Saver::point_best() const {
  const Step best = best_;
  if (best >= Step(0)) directory_.point_best_at(best);
}

checkpoint::CheckpointMeta Saver::meta(const StateToSave& source) const {
  spec::JobSpec spec = spec_;
  for (const batches::BatchChange& change : source.changes) batches::add_change(spec.elastic.changes, change);
  batches::BatchSchedule batches = manifest_.batches;
  batches.changes = spec.elastic.changes;
  const batches::Cursor cursor = batches.cursor_at(source.step);
  checkpoint::CheckpointMeta meta;
  meta.estrain_version = ESTRAIN_VERSION;
  meta.step = source.step;
  meta.epoch = cursor.epoch;
  meta.samples = cursor.samples;
  meta.ests = spec_.job.ests;
  meta.lr = source.lr;
  meta.spec = spec::to_toml(spec);
  meta.cpu = manifest_.processor;
  meta.data = manifest_.data;
  return meta;
}

void Saver::add_files(checkpoint::CheckpointMeta& meta) {
  try {
    changes_ = read_file_if_present(RunFiles(run_).changes()).value_or("");
    std::erase(changes_, '\0');  // strings of HDF5 attributes cannot have a zero byte
    stages_.follow();
  } catch (const Error& error) {
    write_log("warning: not in the checkpoint: " + error.message());
  }
  meta.changes = changes_;
  meta.algorithms = algorithms::ChoiceFile(RunFiles(run_).algorithms()).read_sound().to_text();
  meta.stages = stages_.to_json();
  meta.devices = stages_.devices();
}

}  // namespace estrain::record
