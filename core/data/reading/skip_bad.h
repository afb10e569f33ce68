#pragma once
// data.skip_bad: samples that cannot be read are left out, on record.
//
// The rule: in the place of a sample that cannot be read stands the next sample of the set that can be read, by the
// numbers of the set, after the last one the first. Whether a sample can be read follows from its bytes alone (an image
// that cannot be decoded; in a user's Dataset an exception, which must follow from the sample alone): every worker and
// every resume reads the same samples, without asking anybody. A file that is missing or unreadable is no such sample:
// other hosts may be able to read the file. A sample that is left out does not affect the order of the others.
//
// A worker reports each such sample when reading ahead, before the sample's mini-batch is used. The launcher keeps the
// list on record (core/run/launch/launcher/parts/crew.h), and ends the job when the list would have more than
// data.skip_bad samples.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/data/formats/dataset.h"

namespace estrain::data {

// BadSamples are the samples that a process has left out. Thread-safe.
class BadSamples {
 public:
  struct Found {
    std::string set;     // "training", "evaluation"
    int64_t sample = 0;  // its number in the data as stored
    std::string why;
  };
  using Report = std::function<void(const Found&)>;

  explicit BadSamples(int64_t most) : most_(most) {}

  // Reports each sample once, from now on and those found before. `report` must not call this object.
  void report_to(Report report);
  // Throws `error`, the sample's own, if the sample is one more than `most`.
  void note(const std::string& set, int64_t sample, const Error& error);

 private:
  const int64_t most_;
  std::mutex mutex_;
  std::set<std::pair<std::string, int64_t>> known_;
  std::vector<Found> unreported_;
  Report report_;
};

// Whether the error says that the bytes of a sample make no sample. `is_code`: the samples are read by a user's code.
bool tells_bad_sample(const Error& error, bool is_code);

struct SkipOptions {
  std::string set;  // BadSamples::Found::set
  bool is_code = false;
  std::shared_ptr<BadSamples> bad;
};
// The set without the samples that cannot be read. The set keeps its size.
std::unique_ptr<Dataset> without_bad_samples(std::unique_ptr<Dataset> all, SkipOptions options);

}  // namespace estrain::data
