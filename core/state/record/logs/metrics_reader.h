#pragma once
// Reads the lines of a metrics.jsonl one by one, for readers that keep little of a long file and use the readable part
// of a damaged file.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/files/long_files.h"
#include "core/state/record/logs/metrics_line.h"

namespace estrain::record {

class MetricsReader {
 public:
  // A missing file has no lines. Throws Fault::io if the file cannot be opened, or is not a regular file.
  explicit MetricsReader(std::string path) : path_(path), lines_(std::move(path)) {}

  // Returns the next readable line; nothing at the end. A last line without a line feed is ignored. Throws Fault::io.
  std::optional<Line> next();

  // The number of unreadable lines skipped so far, and the place of the first ("RUN/metrics.jsonl:17"; empty: none).
  int64_t unreadable() const { return unreadable_; }
  const std::string& first_unreadable() const { return first_unreadable_; }

 private:
  std::string path_;
  LineReader lines_;
  int64_t number_ = 0, unreadable_ = 0;
  std::string first_unreadable_;
};

}  // namespace estrain::record
