#pragma once
// What TensorBoard shows of a run's folder `tensorboard`, read as core/state/record/FORMAT.md says.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/scratch_folder.h"

namespace estrain::testing {

inline uint32_t crc32c(std::string_view bytes) {
  uint32_t rest = ~0u;
  for (const char byte : bytes) {
    rest ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~rest;
}

template <typename Number>
Number take_number(std::string_view& bytes) {
  Number number{};
  REQUIRE(bytes.size() >= sizeof number);
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

inline std::string_view take_bytes(std::string_view& bytes, uint64_t size) {
  REQUIRE(bytes.size() >= size);
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

// The message of the record at the beginning, whose checks must hold.
inline std::string_view take_message(std::string_view& bytes) {
  const auto masked = [](std::string_view part) { return std::rotr(crc32c(part), 15) + 0xA282EAD8u; };
  const std::string_view head = bytes.substr(0, 8);
  const auto size = take_number<uint64_t>(bytes);
  REQUIRE(take_number<uint32_t>(bytes) == masked(head));
  const std::string_view message = take_bytes(bytes, size);
  REQUIRE(take_number<uint32_t>(bytes) == masked(message));
  return message;
}

inline uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = take_number<uint8_t>(bytes);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// The fields of a message by number: the last one of a kind, as bytes; a varint as its eight.
inline std::multimap<uint64_t, std::string> fields_of(std::string_view message) {
  std::multimap<uint64_t, std::string> fields;
  while (!message.empty()) {
    const uint64_t key = take_varint(message);
    const uint64_t kind = key & 7;
    REQUIRE((kind == 0 || kind == 1 || kind == 2 || kind == 5));
    std::string content(8, '\0');
    if (kind == 0) {
      const uint64_t value = take_varint(message);
      std::memcpy(content.data(), &value, 8);
    } else {
      content = take_bytes(message, kind == 1 ? 8 : kind == 5 ? 4 : take_varint(message));
    }
    fields.emplace(key >> 3, content);
  }
  return fields;
}

struct TensorboardScalars {
  std::map<std::string, std::multimap<int64_t, float>> by_tag;  // step: value
  std::vector<int64_t> starts;                                  // steps from which files told to forget

  std::vector<int64_t> steps(const std::string& tag = "train/loss") const {
    std::vector<int64_t> steps;
    if (const auto at = by_tag.find(tag); at != by_tag.end())
      for (const auto& [step, value] : at->second) steps.push_back(step);
    return steps;
  }
};

// Reads all files in their order, each up to a record that is cut short.
inline TensorboardScalars shown_by_tensorboard(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
  std::ranges::sort(files);
  TensorboardScalars shown;
  for (const std::string& file : files) {
    const std::string bytes = bytes_of(file);
    std::string_view left = bytes;
    uint64_t size = 0;
    while (left.size() > 12) {
      std::memcpy(&size, left.data(), 8);
      if (left.size() < size + 16) break;
      const auto event = fields_of(take_message(left));
      int64_t step = 0;
      if (const auto at = event.find(2); at != event.end()) std::memcpy(&step, at->second.data(), 8);
      if (event.contains(7)) {
        shown.starts.push_back(step);
        for (auto& [tag, scalars] : shown.by_tag) scalars.erase(scalars.lower_bound(step), scalars.end());
      }
      for (auto [summary, end] = event.equal_range(5); summary != end; ++summary) {
        for (const auto& [number, value] : fields_of(summary->second)) {
          const auto scalar = fields_of(value);
          float is = 0;
          REQUIRE(scalar.contains(1));
          REQUIRE(scalar.contains(2));
          std::memcpy(&is, scalar.find(2)->second.data(), 4);
          shown.by_tag[scalar.find(1)->second].emplace(step, is);
        }
      }
    }
  }
  return shown;
}

}  // namespace estrain::testing
