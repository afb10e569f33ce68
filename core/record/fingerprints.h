#pragma once
// The file `fingerprints` of a run: one 64-bit digest (kernels/digest.h) per parameter with its optimizer slots, per
// buffer and per EST's generator, for every step. The format is described in FORMAT.md.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/unique_fd.h"
#include "core/record/step_record.h"

namespace estrain::record {

class FingerprintWriter {
 public:
  // Opens the file for steps after `last`: what it holds beyond, a torn last record included, is dropped. A new file is
  // made where there is none. Throws Fault::mismatch if the file is of other names, Fault::io.
  FingerprintWriter(std::string path, const std::vector<std::string>& names, Step last);

  // Appends in one write. Steps must follow each other.
  void append(std::span<const StepRecord> records);

 private:
  std::string path_;
  size_t num_digests_;
  UniqueFd fd_;
};

class FingerprintReader {
 public:
  // Maps the file. A torn last record is left out. Throws Fault::io, Fault::corrupt.
  explicit FingerprintReader(const std::string& path);
  ~FingerprintReader();
  FingerprintReader(const FingerprintReader&) = delete;
  FingerprintReader& operator=(const FingerprintReader&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return num_records_; }  // records
  Step step(size_t record) const;
  std::span<const uint64_t> digests(size_t record) const;
  std::optional<size_t> find(Step step) const;  // the record of a step

 private:
  const std::byte* record_at(size_t record) const;

  const std::byte* base_ = nullptr;
  size_t bytes_ = 0, records_at_ = 0, num_records_ = 0;
  std::vector<std::string> names_;
};

}  // namespace estrain::record
