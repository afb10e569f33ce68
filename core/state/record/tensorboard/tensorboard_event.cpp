#include "core/state/record/tensorboard/tensorboard_event.h"

#include <bit>
#include <cstring>

#include "core/state/record/tensorboard/crc32c.h"

namespace estrain::record {
namespace {

constexpr size_t kHead = 12, kTail = 4;
constexpr uint64_t kLargestMessage = uint64_t{1} << 20;  // a few scalars take a few hundred bytes

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <typename Number>
std::string raw(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename Number>
Number number_at(std::string_view bytes) {
  Number value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
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

std::string event(double wall_time, int64_t step, const std::string& content) {
  return key(1, Wire::fixed64) + raw(wall_time) + (step == 0 ? "" : varint_field(2, step)) + content;
}

std::string framed(const std::string& message) {
  const std::string length = raw(static_cast<uint64_t>(message.size()));
  return length + raw(masked_crc32c(length)) + message + raw(masked_crc32c(message));
}

// Iterates over the fields of a message. `ok` becomes false at an invalid field.
class Fields {
 public:
  explicit Fields(std::string_view message) : left_(message) {}

  bool next() {
    if (left_.empty() || !ok_) return false;
    const uint64_t found = read_varint();
    field_ = found >> 3;
    switch (static_cast<Wire>(found & 7)) {
      case Wire::varint:
        number_ = read_varint();
        break;
      case Wire::fixed64:
        take(8);
        break;
      case Wire::bytes:
        take(read_varint());
        break;
      case Wire::fixed32:
        take(4);
        break;
      default:
        ok_ = false;
    }
    wire_ = static_cast<Wire>(found & 7);
    return ok_;
  }
  bool is(uint64_t field, Wire wire) const { return field_ == field && wire_ == wire; }
  uint64_t number() const { return number_; }
  std::string_view content() const { return content_; }
  bool ok() const { return ok_; }

 private:
  uint64_t read_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) break;
      const auto byte = static_cast<uint8_t>(left_.front());
      left_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  void take(uint64_t bytes) {
    ok_ = ok_ && bytes <= left_.size();
    if (!ok_) return;
    content_ = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
  }

  std::string_view left_, content_;
  uint64_t field_ = 0, number_ = 0;
  Wire wire_ = Wire::varint;
  bool ok_ = true;
};

bool read_summary(std::string_view summary, std::vector<std::string>& tags) {
  Fields values(summary);
  while (values.next()) {
    if (!values.is(1, Wire::bytes)) continue;
    Fields value(values.content());
    while (value.next())
      if (value.is(1, Wire::bytes)) tags.emplace_back(value.content());
    if (!value.ok()) return false;
  }
  return values.ok();
}

bool read_event(std::string_view message, FoundFrame& frame) {
  Fields fields(message);
  while (fields.next()) {
    if (fields.is(2, Wire::varint)) frame.step = static_cast<int64_t>(fields.number());
    if (fields.is(5, Wire::bytes) && !read_summary(fields.content(), frame.tags)) return false;
  }
  return fields.ok();
}

}  // namespace

std::string version_frame(double wall_time) { return framed(event(wall_time, 0, bytes_field(3, "brain.Event:2"))); }

std::string start_frame(double wall_time, int64_t step) {
  return framed(event(wall_time, step, bytes_field(7, varint_field(1, 1))));
}

std::string scalar_frame(double wall_time, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars)
    summary += bytes_field(1, bytes_field(1, scalar.tag) + key(2, Wire::fixed32) + raw(scalar.value));
  return framed(event(wall_time, step, bytes_field(5, summary)));
}

std::optional<FoundFrame> find_frame(std::string_view bytes) {
  if (bytes.size() < kHead) return std::nullopt;
  const auto length = number_at<uint64_t>(bytes);
  if (number_at<uint32_t>(bytes.substr(8)) != masked_crc32c(bytes.substr(0, 8))) return std::nullopt;
  if (length > kLargestMessage || bytes.size() < kHead + length + kTail) return std::nullopt;
  const std::string_view message = bytes.substr(kHead, length);
  if (number_at<uint32_t>(bytes.substr(kHead + length)) != masked_crc32c(message)) return std::nullopt;
  FoundFrame frame;
  frame.bytes = kHead + length + kTail;
  if (!read_event(message, frame)) return std::nullopt;
  return frame;
}

}  // namespace estrain::record
