#pragma once
// An algorithm that was chosen for an operation, and all choices of a run, of a checkpoint or of a user.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace estrain::algorithms {

struct Choice {
  std::string key;        // Key::text()
  std::string device;     // the type of device that it was measured on: "NVIDIA H200, sm_90, 132 multiprocessors"
  std::string algorithm;  // in the words of the library that has it; empty: it has none, LibTorch's kernel computes it
  std::string libraries;  // with which it was measured, for a reader: "cuDNN 9.19.0, cuBLASLt 13.1.0"

  bool operator==(const Choice&) const = default;

  // One line of JSON, without its end: {"key": …, "device": …, "algorithm": …, "libraries": …}.
  std::string to_line() const;
  // Throws Fault::corrupt, saying what is wrong with it. Further members are for later versions, and left out.
  static Choice from_line(std::string_view line);
};

// At most one choice for each operation and type of device.
class Choices {
 public:
  bool empty() const { return choices_.empty(); }
  size_t size() const { return choices_.size(); }

  const Choice* find(std::string_view key, std::string_view device) const;
  // Of this type of device, else of the first by name of those there are: a run has one choice for an operation unless
  // devices were mixed on purpose. Null: none.
  const Choice* find_any(std::string_view key, std::string_view device) const;

  void put(Choice choice);  // in place of one for the same operation and type of device
  void for_each(const std::function<void(const Choice&)>& visit) const;  // sorted by operation and device

  // Lines as Choice::to_line gives them, sorted by operation and device. The same choices give the same text.
  std::string to_text() const;
  // A later line takes the place of an earlier one for the same; what stands behind the last end of a line was being
  // written, and is left out. Throws Fault::corrupt with `source` and the line.
  static Choices from_text(std::string_view text, std::string_view source);
  // Passes over lines that are damaged.
  static Choices sound_from_text(std::string_view text);

  bool operator==(const Choices&) const = default;

 private:
  std::map<std::pair<std::string, std::string>, Choice> choices_;  // by key and device
};

}  // namespace estrain::algorithms
