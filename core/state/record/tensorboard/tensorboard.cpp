#include "core/state/record/tensorboard/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"
#include "core/state/record/logs/metrics_reader.h"

namespace estrain::record {
namespace {

constexpr std::string_view kBegin = "events.out.tfevents.", kEnd = ".estrain";
constexpr size_t kDigits = 10;

// The number of the folder's next file: 0 for the first one.
int64_t next_number(const std::string& folder) {
  int64_t next = 0;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() != kBegin.size() + kDigits + kEnd.size())
      continue;
    int64_t number = 0;
    const char* begin = name.data() + kBegin.size();
    const auto [stop, wrong] = std::from_chars(begin, begin + kDigits, number);
    if (wrong == std::errc{} && stop == begin + kDigits) next = std::max(next, number + 1);
  }
  if (failure) throw system_error("cannot list " + folder, failure.value());
  return next;
}

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0x82F63B78 : 0);
    table[byte] = rest;
  }
  return table;
}

// CRC-32C (RFC 3720) as TFRecord files have it: rotated right by 15 bits, plus a constant.
uint32_t masked_crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> table = make_table();
  uint32_t rest = ~0u;
  for (const char byte : bytes) rest = (rest >> 8) ^ table[(rest ^ static_cast<uint8_t>(byte)) & 0xFF];
  return std::rotr(~rest, 15) + 0xA282EAD8u;
}

// An `Event` of TensorFlow's event.proto, as far as scalars need it:
//
//   Event        wall_time 1: double; step 2: int64; file_version 3: string; summary 5: Summary;
//                session_log 7: SessionLog
//
//   Summary      value 1, repeated: tag 1: string; simple_value 2: float
//
//   SessionLog   status 1: 1 = START: a reader forgets the steps from this step on

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <typename Number>
std::string raw(Number value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string key(int field, Wire wire) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}
std::string bytes_field(int field, std::string_view content) {
  return key(field, Wire::bytes) + varint(content.size()) + std::string(content);
}
std::string varint_field(int field, int64_t value) {
  return key(field, Wire::varint) + varint(static_cast<uint64_t>(value));
}

// A TFRecord with an event of this step.
std::string frame_of(int64_t step, const std::string& content) {
  const std::string message =
      key(1, Wire::fixed64) + raw(wall_seconds()) + (step == 0 ? "" : varint_field(2, step)) + content;
  const std::string length = raw(static_cast<uint64_t>(message.size()));
  return length + raw(masked_crc32c(length)) + message + raw(masked_crc32c(message));
}

std::string value_of(std::string_view tag, float value) {
  return bytes_field(1, bytes_field(1, tag) + key(2, Wire::fixed32) + raw(value));
}

std::string frame_of(const StepRecord& record) {
  std::string values = value_of("train/loss", record.loss) +
                       value_of("train/learning_rate", static_cast<float>(record.lr)) +
                       value_of("train/epoch", static_cast<float>(record.epoch.value));
  for (const auto& [name, value] : record.terms) values += value_of("train/" + name, value);
  if (record.samples_per_second > 0)
    values += value_of("train/samples_per_second", static_cast<float>(record.samples_per_second));
  return frame_of(record.step.value, bytes_field(5, values));
}

std::string frame_of(const EvaluationRecord& evaluation) {
  std::string values = value_of("test/loss", static_cast<float>(evaluation.loss));
  if (evaluation.predictions > 0) values += value_of("test/accuracy", static_cast<float>(evaluation.accuracy));
  for (const auto& [name, value] : evaluation.metrics) values += value_of("test/" + name, static_cast<float>(value));
  return frame_of(evaluation.step.value, bytes_field(5, values));
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::string& folder, const MetricsWriter& metrics) {
  require_own_folder(folder);
  make_folders(folder);
  const int64_t number = next_number(folder);
  const std::string path = fmt::format("{}/{}{:0{}}{}", folder, kBegin, number, kDigits, kEnd);
  file_ = std::make_unique<AppendedFile>(path, 0);
  try {
    file_->append(frame_of(0, bytes_field(3, "brain.Event:2")));
    if (number == 0) {
      add_all(metrics.path());
    } else {
      step_ = metrics.last_step();
      evaluated_ = metrics.last_evaluation();
      file_->append(frame_of(step_.next().value, bytes_field(7, varint_field(1, 1))));
    }
  } catch (const Error&) {
    ::unlink(path.c_str());
    throw;
  }
}

void TensorboardWriter::add_all(const std::string& metrics) {
  std::vector<StepRecord> steps;
  MetricsReader lines(metrics);
  while (const auto line = lines.next()) {
    if (const auto* step = std::get_if<StepRecord>(&*line)) {
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
