#pragma once
// The file `fingerprints` of a run: one 64-bit digest (kernels/digest.h) per parameter with its optimizer slots, per
// buffer and per EST's generator, for every step. Described in FORMAT.md.
//
// Every record carries a check, so that a damaged record is not taken for a difference between runs.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/record/appended_file.h"
#include "core/record/damage.h"
#include "core/record/step_record.h"

namespace estrain::record {

class FingerprintWriter {
 public:
  // Opens the file for steps after `last`: what it holds beyond, a torn or damaged tail included, is dropped. Looks for
  // that place by bisection, and checks no more than kCheckedBytes of the records before it. A new file is made where
  // there is none. Throws Fault::mismatch if the file is of other names, Fault::io, and Fault::corrupt where
  // mend_fingerprints would mend.
  FingerprintWriter(const std::string& path, const std::vector<std::string>& names, Step last);

  // Adds all records in one write, or none (Fault::io). Steps must rise; those that the file has are passed over.
  void append(std::span<const StepRecord> records);

 private:
  size_t num_digests_;
  Step last_;
  AppendedFile file_;
};

// Before a run goes on from step `last`: a file in which something up to that step is damaged, as far as
// FingerprintWriter looks, is put aside, and all records up to `last` that fit their checks take its place; if it
// cannot be read at all, nothing does. Nothing where the file is sound, or there is none. Throws Fault::io.
std::optional<Damage> mend_fingerprints(const std::string& path, Step last);

class FingerprintReader {
 public:
  // Maps the file as it is now; a torn or damaged tail is left out. Throws Fault::io, Fault::corrupt.
  explicit FingerprintReader(const std::string& path);
  ~FingerprintReader();
  FingerprintReader(const FingerprintReader&) = delete;
  FingerprintReader& operator=(const FingerprintReader&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return num_records_; }             // records
  size_t size_with_damaged() const { return num_whole_; }  // those at the end that do not count included
  std::string_view header() const { return {reinterpret_cast<const char*>(base_), records_at_}; }
  std::string_view bytes(size_t record) const;
  Step step(size_t record) const;
  std::span<const uint64_t> digests(size_t record) const;
  bool intact(size_t record) const;             // its check fits
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
