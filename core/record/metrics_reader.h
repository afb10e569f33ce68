#pragma once
// The lines of a metrics.jsonl one after another, for readers that keep little of a long file and look at what can be
// read of a damaged one.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/long_files.h"
#include "core/record/metrics_line.h"

namespace estrain::record {

class MetricsReader {
 public:
  // A file that is not there has no lines. Throws Fault::io.
  explicit MetricsReader(std::string path) : path_(path), lines_(std::move(path)) {}

  // The next line that can be read; nothing at the end. A torn last line does not count. Throws Fault::io.
  std::optional<Line> next();

  // Lines passed over so far because they cannot be read, and where the first is ("RUN/metrics.jsonl:17").
  int64_t unreadable() const { return unreadable_; }
  const std::string& first_unreadable() const { return first_unreadable_; }

 private:
  std::string path_;
  LineReader lines_;
  int64_t number_ = 0, unreadable_ = 0;
  std::string first_unreadable_;
};

}  // namespace estrain::record
