#include "run_files.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "core/base/files/files.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"

namespace estrain::testing {
namespace {

void note(Difference& difference, int64_t step, const std::string& what) {
  if (step < difference.first_step) difference.first_step = step;
  if (difference.text.empty()) difference.text = fmt::format("step {}: {}", step, what);
}

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

void compare_metrics(const record::Metrics& one, const record::Metrics& two, Difference& difference) {
  for (size_t i = 0; i < std::min(one.steps.size(), two.steps.size()); ++i) {
    const record::StepRecord &a = one.steps[i], &b = two.steps[i];
    const int64_t step = std::max(a.step, b.step).value;
    if (a.step != b.step) return note(difference, step, "metrics skip or repeat a step");
    if (a.epoch != b.epoch || a.lr != b.lr) note(difference, step, "epoch or learning rate");
    if (bits(a.loss) != bits(b.loss)) note(difference, step, "mean loss");
    for (size_t rank = 0; rank < a.est_losses.size(); ++rank)
      if (bits(a.est_losses[rank]) != bits(b.est_losses[rank]))
        note(difference, step, fmt::format("loss of EST {}", rank));
  }
  if (one.steps.size() != two.steps.size())
    note(difference, kNever - 1, fmt::format("{} and {} steps", one.steps.size(), two.steps.size()));
  for (size_t i = 0; i < std::min(one.evaluations.size(), two.evaluations.size()); ++i) {
    const record::EvaluationRecord &a = one.evaluations[i], &b = two.evaluations[i];
    if (a.step != b.step || a.loss != b.loss || a.accuracy != b.accuracy) note(difference, a.step.value, "evaluation");
  }
  if (one.evaluations.size() != two.evaluations.size()) note(difference, kNever - 1, "number of evaluations");
}

void compare_fingerprints(const std::string& one, const std::string& two, Difference& difference) {
  if (read_file(one) == read_file(two)) return;
  const record::FingerprintReader a(one), b(two);
  if (a.names() != b.names()) return note(difference, 0, "fingerprints are of other tensors");
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    for (size_t name = 0; name < a.names().size(); ++name)
      if (a.digests(i)[name] != b.digests(i)[name]) note(difference, a.step(i).value, "digest of " + a.names()[name]);
  }
  if (difference.none()) note(difference, kNever - 1, "the fingerprints files differ in length or steps");
}

std::vector<std::byte> elements(const checkpoint::CheckpointFile& file, size_t tensor) {
  std::vector<std::byte> bytes(file.layout().tensors[tensor].bytes());
  file.read(tensor, bytes.data());
  return bytes;
}

}  // namespace

Difference difference(const std::string& run, const std::string& other) {
  Difference found;
  compare_metrics(record::read_metrics(run + "/metrics.jsonl"), record::read_metrics(other + "/metrics.jsonl"), found);
  compare_fingerprints(run + "/fingerprints", other + "/fingerprints", found);
  const std::string last = checkpoint_difference(latest_checkpoint(run), latest_checkpoint(other));
  if (!last.empty()) note(found, kNever - 1, last);
  return found;
}

std::string checkpoint_difference(const std::string& path, const std::string& other) {
  const auto a = checkpoint::CheckpointFile::open(path), b = checkpoint::CheckpointFile::open(other);
  if (a.meta().step != b.meta().step) return "checkpoints of other steps";
  if (a.meta().epoch != b.meta().epoch || a.meta().samples != b.meta().samples) return "data cursor";
  if (a.layout().tensors.size() != b.layout().tensors.size()) return "other tensors";
  for (size_t i = 0; i < a.layout().tensors.size(); ++i) {
    const std::string name = a.layout().tensors[i].path();
    if (name != b.layout().tensors[i].path() || elements(a, i) != elements(b, i)) return name;
  }
  return "";
}

std::vector<int64_t> metric_steps(const std::string& run) {
  std::vector<int64_t> steps;
  for (const record::StepRecord& record : record::read_metrics(run + "/metrics.jsonl").steps)
    steps.push_back(record.step.value);
  return steps;
}

int64_t last_step(const std::string& run) {
  constexpr std::streamoff kTail = 64 << 10;  // bytes, several lines
  std::ifstream file(run + "/metrics.jsonl", std::ios::binary | std::ios::ate);
  if (!file) return 0;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string tail{std::istreambuf_iterator<char>(file), {}};
  tail.resize(tail.rfind('\n') + 1);  // a line that is being written does not count
  const std::string begin = "{\"step\":";
  const size_t line = tail.rfind(begin);
  return line == std::string::npos ? 0 : std::stoll(tail.substr(line + begin.size()));
}

std::vector<int64_t> fingerprint_steps(const std::string& run) {
  const record::FingerprintReader reader(run + "/fingerprints");
  std::vector<int64_t> steps;
  for (size_t i = 0; i < reader.size(); ++i) steps.push_back(reader.step(i).value);
  return steps;
}

std::vector<int64_t> first_steps(int64_t last) {
  std::vector<int64_t> steps(static_cast<size_t>(last));
  std::iota(steps.begin(), steps.end(), 1);
  return steps;
}

std::vector<Json> changes_of(const std::string& run) {
  std::vector<Json> changes;
  std::string text = read_file(run + "/changes.jsonl");
  for (size_t end; (end = text.find('\n')) != text.npos; text.erase(0, end + 1))
    changes.push_back(parse_json(text.substr(0, end), "changes.jsonl"));
  return changes;
}

std::vector<Json> events(const std::string& run, const std::string& name) {
  std::vector<Json> found;
  const std::string text = read_file_if_present(run + "/events.jsonl").value_or("");  // a run that has just begun has
                                                                                      // none
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Json line = parse_json_if_sound(std::string_view(text).substr(begin, end - begin));
    if (line.is_object() && line.value("event", Json()) == name) found.push_back(std::move(line));
  }
  return found;
}

std::vector<int64_t> checkpoint_steps(const std::string& run) {
  const checkpoint::CheckpointDirectory directory(run + "/checkpoints");
  std::vector<int64_t> steps;
  for (Step step : directory.steps()) {
    checkpoint::CheckpointFile::open(directory.path_of(step)).verify();
    steps.push_back(step.value);
  }
  return steps;
}

std::string latest_checkpoint(const std::string& run) {
  const std::string folder = run + "/checkpoints/";
  return folder + std::filesystem::read_symlink(folder + "latest").string();
}

}  // namespace estrain::testing
