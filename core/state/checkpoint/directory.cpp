#include "core/state/checkpoint/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"

namespace estrain::checkpoint {
namespace {

constexpr std::string_view prefix = "step-", suffix = ".h5";

std::string file_name(Step step) { return fmt::format("step-{:09}.h5", step.value); }

std::optional<Step> step_of(const std::string& name) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  const Step step(std::atoll(name.c_str() + prefix.size()));
  return file_name(step) == name ? std::optional(step) : std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure))
    names.push_back(entry.path().filename().string());
  if (failure && failure != std::errc::no_such_file_or_directory)
    throw system_error("cannot list " + folder, failure.value());
  return names;
}

// Checks seal, structure and metadata, but not the elements.
bool opens(const std::string& path) {
  try {
    (void)CheckpointFile::open(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

CheckpointFile open_verified(const std::string& path, Step step) {
  CheckpointFile file = CheckpointFile::open(path);
  if (file.meta().step != step)
    throw Error::make(Fault::corrupt, "{}: is the checkpoint of step {}", path, file.meta().step);
  file.verify();
  return file;
}

}  // namespace

std::string CheckpointDirectory::path_of(Step step) const { return path_ + "/" + file_name(step); }

std::vector<Step> CheckpointDirectory::steps() const {
  std::vector<Step> found;
  for (const std::string& name : names_in(path_))
    if (const std::optional<Step> step = step_of(name)) found.push_back(*step);
  std::sort(found.begin(), found.end());
  return found;
}

void CheckpointDirectory::publish(const StateLayout& layout, const std::byte* state, const CheckpointMeta& meta) {
  require_own_folder(path_);
  make_folders(path_);
  write_checkpoint(path_of(meta.step), layout, state, meta, *disk_);
  whole_.insert(meta.step);
  point("latest", meta.step);
}

void CheckpointDirectory::point_best_at(Step step) const {
  const std::vector<Step> there = steps();
  if (std::ranges::find(there, step) != there.end()) point("best", step);
}

void CheckpointDirectory::point(const char* name, Step step) const {
  const std::string link = path_ + "/" + name, temporary = link + temporary_suffix;
  disk_->remove(temporary);
  disk_->make_link(file_name(step), temporary);
  disk_->rename(temporary, link);
  disk_->sync_folder(path_);
}

std::vector<Step> CheckpointDirectory::set_aside_later_than(Step step) {
  std::vector<Step> aside, left;
  for (const Step saved : steps()) (saved > step ? aside : left).push_back(saved);
  if (left.empty()) return {};
  for (const Step saved : aside) disk_->rename(path_of(saved), path_of(saved) + ".unvouched");
  point("latest", left.back());
  if (!std::filesystem::exists(path_ + "/best")) disk_->remove(path_ + "/best");  // `best` is dangling
  return aside;
}

NewestCheckpoint CheckpointDirectory::newest_valid() const {
  NewestCheckpoint newest;
  std::vector<Step> candidates = steps();
  std::reverse(candidates.begin(), candidates.end());
  for (const Step step : candidates) {
    try {
      newest.file = open_verified(path_of(step), step);
      return newest;
    } catch (const Error& error) {
      newest.skipped.push_back({step, path_of(step), error.message()});
    }
  }
  return newest;
}

bool CheckpointDirectory::is_whole(Step step) {
  if (whole_.contains(step)) return true;
  if (!opens(path_of(step))) return false;
  whole_.insert(step);
  return true;
}

std::vector<Step> CheckpointDirectory::prune(Step newest, int64_t keep, std::optional<Step> best) {
  std::vector<Step> candidates = steps(), removed;
  std::erase_if(candidates, [&](Step step) { return step > newest; });
  if (std::ssize(candidates) <= keep) return removed;
  std::reverse(candidates.begin(), candidates.end());
  int64_t kept = 0;
  for (const Step step : candidates) {
    if (kept < keep) {
      kept += is_whole(step) ? 1 : 0;
    } else if (step != Step(0) && step != best) {
      disk_->remove(path_of(step));
      whole_.erase(step);
      removed.push_back(step);
    }
  }
  return removed;
}

int64_t CheckpointDirectory::remove_stale_temporaries() const {
  int64_t removed = 0;
  for (const std::string& name : names_in(path_)) {
    if (!name.ends_with(temporary_suffix)) continue;
    try {
      disk_->remove(path_ + "/" + name);
      ++removed;
    } catch (const Error&) {  // the file stays; writing a checkpoint of its step will report the reason
    }
  }
  return removed;
}

}  // namespace estrain::checkpoint
