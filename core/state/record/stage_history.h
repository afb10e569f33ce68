#pragma once
// The history of a job's devices for its checkpoints: the "stage" lines of events.jsonl.
//
// A job may have 60,000 stages: the first few and the newest are kept, and the stages in between are counted. The file
// is read once; each call of `follow` reads only new lines.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/base/json/json.h"

namespace estrain::record {

class StageHistory {
 public:
  static constexpr size_t kFirst = 10, kNewest = 1000;
  static constexpr size_t kMostBytes = size_t{1} << 20;  // limit for the newest, as text

  explicit StageHistory(std::string events) : path_(std::move(events)) {}

  // Reads new lines. Skips damaged lines and other events. Throws Fault::io.
  void follow();

  // A JSON list of the lines, oldest first. In place of omitted stages is {"event": "stages_left_out", "count",
  // "step"}, with the step of the first.
  std::string to_json() const;
  // The devices of the newest stage: "cpu,cpu:avx2".
  const std::string& devices() const { return devices_; }

 private:
  void add(const Json& stage);
  void leave_out_oldest();

  std::string path_;
  uint64_t read_ = 0;  // bytes of the file
  std::vector<std::string> first_;
  std::deque<std::string> newest_;
  std::deque<int64_t> steps_;  // of the newest
  size_t bytes_ = 0;           // of the newest
  int64_t left_out_ = 0, left_out_step_ = 0;
  std::string devices_;
};

}  // namespace estrain::record
