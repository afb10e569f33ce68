#include "core/state/record/tensorboard/tensorboard.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/input_file.h"
#include "core/base/files/own_file.h"
#include "core/base/wall_time.h"
#include "core/state/record/logs/metrics_reader.h"
#include "core/state/record/tensorboard/tensorboard_event.h"

namespace estrain::record {
namespace {

constexpr std::string_view kBegin = "events.out.tfevents.", kEnd = ".estrain";
constexpr std::string_view kTestPrefix = "test/";

std::string file_name(int64_t number) { return fmt::format("{}{:010}{}", kBegin, number, kEnd); }

std::optional<int64_t> number_of(std::string_view name) {
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() != kBegin.size() + 10 + kEnd.size())
    return std::nullopt;
  int64_t number = 0;
  const char* begin = name.data() + kBegin.size();
  const auto [stop, failure] = std::from_chars(begin, begin + 10, number);
  if (failure != std::errc{} || stop != begin + 10 || number < 0) return std::nullopt;
  return number;
}

std::vector<int64_t> numbers_in(const std::string& folder) {
  std::vector<int64_t> numbers;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure))
    if (const auto number = number_of(at->path().filename().string())) numbers.push_back(*number);
  if (failure) throw system_error("cannot list " + folder, failure.value());
  std::ranges::sort(numbers);
  return numbers;
}

// The current content of a file.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const UniqueFd file = open_input(path);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) throw system_error("cannot read " + path, errno);
    size_ = static_cast<size_t>(info.st_size);
    if (size_ == 0) return;
    base_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (base_ == MAP_FAILED) throw system_error("cannot read " + path, errno);
  }
  ~MappedFile() {
    if (size_ > 0) ::munmap(base_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(base_), size_}; }

 private:
  void* base_ = nullptr;
  size_t size_ = 0;
};

struct Kept {
  uint64_t bytes = 0;
  Step step = Step(-1), evaluated = Step(-1);
  bool ends_early = false;  // there is more after `bytes`: damaged, or of steps after `last`
};

Kept records_until(const std::string& path, Step last, Kept kept) {
  const MappedFile file(path);
  kept.bytes = 0;
  for (std::string_view left = file.bytes(); !left.empty();) {
    const auto frame = find_frame(left);
    kept.ends_early = true;
    if (!frame) return kept;
    if (!frame->tags.empty() && Step(frame->step) > last) return kept;
    kept.ends_early = false;
    if (!frame->tags.empty()) {
      Step& newest = frame->tags.front().starts_with(kTestPrefix) ? kept.evaluated : kept.step;
      newest = std::max(newest, Step(frame->step));
    }
    kept.bytes += frame->bytes;
    left.remove_prefix(frame->bytes);
  }
  return kept;
}

std::string frame_of(const StepRecord& record) {
  std::vector<Scalar> scalars = {{"train/loss", record.loss},
                                 {"train/learning_rate", static_cast<float>(record.lr)},
                                 {"train/epoch", static_cast<float>(record.epoch.value)}};
  if (record.samples_per_second > 0)
    scalars.push_back({"train/samples_per_second", static_cast<float>(record.samples_per_second)});
  return scalar_frame(wall_seconds(), record.step.value, scalars);
}

std::string frame_of(const EvaluationRecord& evaluation) {
  std::vector<Scalar> scalars = {{"test/loss", static_cast<float>(evaluation.loss)}};
  if (evaluation.predictions > 0) scalars.push_back({"test/accuracy", static_cast<float>(evaluation.accuracy)});
  std::vector<std::string> names;
  for (const auto& [name, value] : evaluation.metrics) names.push_back("test/" + name);
  for (size_t i = 0; i < names.size(); ++i)
    scalars.push_back({names[i], static_cast<float>(evaluation.metrics[i].second)});
  return scalar_frame(wall_seconds(), evaluation.step.value, scalars);
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::string& folder, const MetricsWriter& metrics, Step last)
    : folder_(folder) {
  require_own_folder(folder_);
  make_folders(folder_);
  take_up(last);
  if (step_ < metrics.last_step() || evaluated_ < metrics.last_evaluation()) add_missing(metrics.path());
}

// Removes the newest files first, so that an interruption leaves no file after a shortened one.
void TensorboardWriter::take_up(Step last) {
  const std::vector<int64_t> numbers = numbers_in(folder_);
  Kept kept;
  size_t in_use = 0;  // kept files; the last one may be shortened
  while (in_use < numbers.size() && !kept.ends_early)
    kept = records_until(folder_ + "/" + file_name(numbers[in_use++]), last, kept);
  const bool others_go = in_use < numbers.size();
  for (size_t i = numbers.size(); i > in_use; --i) {
    const std::string path = folder_ + "/" + file_name(numbers[i - 1]);
    if (::unlink(path.c_str()) != 0) throw system_error("cannot remove " + path, errno);
  }
  step_ = kept.step;
  evaluated_ = kept.evaluated;
  if (in_use > 0) file_ = std::make_unique<AppendedFile>(folder_ + "/" + file_name(numbers[in_use - 1]), kept.bytes);
  if (numbers.empty() || kept.ends_early || others_go || kept.bytes == 0)
    begin_file(numbers.empty() ? 0 : numbers.back() + 1, std::max(step_, evaluated_).next());
}

void TensorboardWriter::begin_file(int64_t number, Step from) {
  auto file = std::make_unique<AppendedFile>(folder_ + "/" + file_name(number), 0);
  file->append(version_frame(wall_seconds()) + (number == 0 ? "" : start_frame(wall_seconds(), from.value)));
  file_ = std::move(file);
}

void TensorboardWriter::add_missing(const std::string& metrics) {
  std::vector<StepRecord> steps;
  MetricsReader lines(metrics);
  while (const auto line = lines.next()) {
    if (const auto* step = std::get_if<StepRecord>(&*line)) {
      if (step->step <= step_) continue;
      steps.push_back(*step);
      if (steps.size() < 1000) continue;
    }
    append(steps);
    steps.clear();
    if (const auto* evaluation = std::get_if<EvaluationRecord>(&*line)) append(*evaluation);
  }
  append(steps);
}

void TensorboardWriter::append(std::span<const StepRecord> records) {
  std::string frames;
  Step last = step_;
  for (const StepRecord& record : records) {
    if (record.step <= last) continue;
    frames += frame_of(record);
    last = record.step;
  }
  file_->append(frames);
  step_ = last;
}

void TensorboardWriter::append(const EvaluationRecord& evaluation) {
  if (evaluation.step <= evaluated_) return;
  file_->append(frame_of(evaluation));
  evaluated_ = evaluation.step;
}

}  // namespace estrain::record
