#pragma once
// The algorithm chosen for an operation, and all choices of a run, a checkpoint or a user.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace estrain::algorithms {

struct Choice {
  std::string key;        // Key::text()
  std::string device;     // type of the measured device: "NVIDIA H200, sm_90, 132 multiprocessors"
  std::string algorithm;  // name in the library; empty: the library has no algorithm, and LibTorch's kernel computes
  std::string libraries;  // versions used for measuring, for human readers: "cuDNN 9.19.0, cuBLASLt 13.1.0"

  bool operator==(const Choice&) const = default;

  // Returns one line of JSON, without line feed: {"key": …, "device": …, "algorithm": …, "libraries": …}.
  std::string to_line() const;
  // Throws Fault::corrupt with the reason. Ignores further members, which later versions may add.
  static Choice from_line(std::string_view line);
};

// Choices has at most one choice for each operation and type of device.
class Choices {
 public:
  bool empty() const { return choices_.empty(); }
  size_t size() const { return choices_.size(); }

  const Choice* find(std::string_view key, std::string_view device) const;
  // Returns the choice for this type of device, otherwise for the first type by name: a run has one choice per
  // operation unless devices were mixed on purpose. Null: no choice.
  const Choice* find_any(std::string_view key, std::string_view device) const;

  void put(Choice choice);  // replaces a choice for the same operation and type of device
  void for_each(const std::function<void(const Choice&)>& visit) const;  // sorted by operation and device

  // Lines in the form of Choice::to_line, sorted by operation and device. The same choices give the same text.
  std::string to_text() const;
  // A later line replaces an earlier line with the same key; an unfinished last line is ignored. Throws Fault::corrupt
  // with `source` and the line.
  static Choices from_text(std::string_view text, std::string_view source);
  // Skips damaged lines.
  static Choices sound_from_text(std::string_view text);

  bool operator==(const Choices&) const = default;

 private:
  std::map<std::pair<std::string, std::string>, Choice> choices_;  // by key and device
};

}  // namespace estrain::algorithms
