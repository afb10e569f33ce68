#include "core/inspect/verify/comparison.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

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

using checkpoint::DType;
using checkpoint::StateTensor;

// Maps floats to integers, preserving order and neighbours, with -0 just below 0.
template <typename Integer, typename Float>
int64_t rank_of(Float value) {
  const auto bits = std::bit_cast<Integer>(value);
  return bits < 0 ? std::numeric_limits<Integer>::min() - bits - 1 : bits;
}

uint64_t apart(int64_t a, int64_t b) {
  return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
               : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
}

template <typename Integer, typename Float>
std::optional<uint64_t> float_distance(Float a, Float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  return apart(rank_of<Integer>(a), rank_of<Integer>(b));
}

std::vector<int64_t> place_of(uint64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    place[i] = static_cast<int64_t>(index % static_cast<uint64_t>(shape[i]));
    index /= static_cast<uint64_t>(shape[i]);
  }
  return place;
}

template <typename Number>
Number load(const std::byte* bytes, uint64_t index) {
  Number value;
  std::memcpy(&value, bytes + index * sizeof value, sizeof value);
  return value;
}

template <typename Number, typename Bits, typename Distance>
ElementDifference describe(const std::byte* a, const std::byte* b, uint64_t index, Distance&& distance) {
  const auto first = load<Number>(a, index), second = load<Number>(b, index);
  ElementDifference element;
  element.index = index;
  element.value_a = fmt::format("{}", first);
  element.value_b = fmt::format("{}", second);
  element.bits_a = fmt::format("{:0{}x}", std::bit_cast<Bits>(first), 2 * sizeof(Bits));
  element.bits_b = fmt::format("{:0{}x}", std::bit_cast<Bits>(second), 2 * sizeof(Bits));
  element.distance = distance(first, second);
  return element;
}

ElementDifference describe_element(DType dtype, const std::byte* a, const std::byte* b, uint64_t index) {
  const auto ulp = [](auto x, auto y) { return ulp_distance(x, y); };
  const auto difference = [](int64_t x, int64_t y) { return std::optional(apart(x, y)); };
  switch (dtype) {
    case DType::f32:
      return describe<float, uint32_t>(a, b, index, ulp);
    case DType::f64:
      return describe<double, uint64_t>(a, b, index, ulp);
    case DType::i64:
      return describe<int64_t, uint64_t>(a, b, index, difference);
    case DType::u8:
      return describe<uint8_t, uint8_t>(a, b, index, difference);
    case DType::i32:
      return describe<int32_t, uint32_t>(a, b, index, difference);
  }
  return {};
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

std::optional<uint64_t> ulp_distance(float a, float b) { return float_distance<int32_t>(a, b); }

std::optional<uint64_t> ulp_distance(double a, double b) { return float_distance<int64_t>(a, b); }

std::optional<TensorDifference> compare_elements(const StateTensor& tensor, const std::byte* a, const std::byte* b) {
  const size_t size = element_size(tensor.dtype);
  std::optional<TensorDifference> found;
  for (uint64_t i = 0; i < tensor.elements(); ++i) {
    if (std::memcmp(a + i * size, b + i * size, size) == 0) continue;
    if (!found) {
      found = {tensor.path(), tensor.dtype, tensor.shape, 0, describe_element(tensor.dtype, a, b, i)};
      found->first.at = place_of(i, tensor.shape);
    }
    ++found->differing;
  }
  return found;
}

}  // namespace estrain::verify
