#pragma once
// The file `fingerprints` of a run: one 64-bit digest (kernels/digest.h) per parameter with its optimizer slots, per
// buffer and per EST's generator, for every step. Described in FORMAT.md.
//
// Every record has a check, so that a damaged record does not look like a difference between runs.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/state/record/logs/appended_file.h"
#include "core/state/record/logs/damage.h"
#include "core/state/record/logs/step_record.h"

namespace estrain::record {

class FingerprintWriter {
 public:
  // Opens the file for steps after `last`: drops later records and a torn or damaged tail. Finds the place by
  // bisection, and checks at most kCheckedBytes of the records before. Creates a missing file. Throws
  // Fault::mismatch if the file has other names, Fault::io, and Fault::corrupt if mend_fingerprints would mend the
  // file.
  FingerprintWriter(const std::string& path, const std::vector<std::string>& names, Step last);

  // Appends all records in one write, or none (Fault::io). Steps must increase; steps already in the file are skipped.
  void append(std::span<const StepRecord> records);

 private:
  size_t num_digests_;
  Step last_;
  AppendedFile file_;
};

// Call this before a run resumes from step `last`. If a record up to `last` is damaged, within the range checked by
// FingerprintWriter, sets the file aside and replaces it by the valid records up to `last`, or by nothing if the file
// is unreadable. Returns nothing if the file is intact or missing. Throws Fault::io.
std::optional<Damage> mend_fingerprints(const std::string& path, Step last);

class FingerprintReader {
 public:
  // Maps the current file; ignores a torn or damaged tail. Throws Fault::io, Fault::corrupt.
  explicit FingerprintReader(const std::string& path);
  ~FingerprintReader();
  FingerprintReader(const FingerprintReader&) = delete;
  FingerprintReader& operator=(const FingerprintReader&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return num_records_; }             // records
  size_t size_with_damaged() const { return num_whole_; }  // including invalid records at the end
  std::string_view header() const { return {reinterpret_cast<const char*>(base_), records_at_}; }
  std::string_view bytes(size_t record) const;
  Step step(size_t record) const;
  std::span<const uint64_t> digests(size_t record) const;
  bool intact(size_t record) const;             // whether the record passes its check
  std::optional<size_t> find(Step step) const;  // the record of a step

 private:
  const uint64_t* words(size_t record) const;
  void read_names();
  void find_records();

  std::string path_;
  const std::byte* base_ = nullptr;
  size_t bytes_ = 0, records_at_ = 0, num_records_ = 0, num_whole_ = 0;
  std::vector<std::string> names_;
};

}  // namespace estrain::record
