// A foreign file in tensorboard/: frames lie within it, and for any content, a writer that continues leaves files in
// which a reader finds every step of metrics.jsonl exactly once.
#include <filesystem>
#include <set>

#include "core/state/record/logs/metrics.h"
#include "core/state/record/tensorboard/tensorboard.h"
#include "core/state/record/tensorboard/tensorboard_event.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

constexpr const char* kName = "/events.out.tfevents.0000000000.estrain";

std::string text_in_file(const std::string& path) {
  std::string text(std::filesystem::file_size(path), '\0');
  const int fd = ::open(path.c_str(), O_RDONLY);
  require(::read(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "a file can be read");
  ::close(fd);
  return text;
}

void write_file(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  require(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a file can be written");
  ::close(fd);
}

std::multiset<int64_t> steps_in(const std::string& folder) {
  std::multiset<int64_t> steps;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = text_in_file(entry.path().string());
    for (std::string_view left = bytes; !left.empty();) {
      const auto frame = record::find_frame(left);
      require(frame.has_value(), "all that is left can be read");
      if (!frame->tags.empty() && frame->tags.front().starts_with("train/")) steps.insert(frame->step);
      left.remove_prefix(frame->bytes);
    }
  }
  return steps;
}

void read(std::string_view bytes) {
  if (const auto frame = record::find_frame(bytes)) require(frame->bytes <= bytes.size(), "a frame lies within");
  const Folder folder;
  const std::string path = folder / "tensorboard", metrics_path = folder / "metrics.jsonl";
  std::filesystem::create_directory(path);
  // After valid frames, so that damage can be anywhere.
  std::string file = record::version_frame(1);
  for (int64_t step = 1; step <= 3; ++step) file += record::scalar_frame(1, step, {{"train/loss", 1}});
  const size_t cut = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]) % file.size();
  write_file(path + kName, file.substr(0, cut) + std::string(bytes));
  record::MetricsWriter metrics(metrics_path, Step(0));
  for (int64_t step = 1; step <= 5; ++step) {
    record::StepRecord record;
    record.step = Step(step);
    metrics.append({&record, 1});
  }
  if (!accepts([&] { record::TensorboardWriter(path, metrics, Step(5)); })) return;
  const std::multiset<int64_t> steps = steps_in(path);
  for (int64_t step = 1; step <= 5; ++step) require(steps.count(step) == 1, "every step once");
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::read(estrain::fuzz::text_of(data, size));
  return 0;
}
