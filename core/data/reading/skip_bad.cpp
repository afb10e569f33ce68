#include "core/data/reading/skip_bad.h"

namespace estrain::data {
namespace {

class ReadableSamples : public Dataset {
 public:
  ReadableSamples(std::unique_ptr<Dataset> all, SkipOptions options)
      : all_(std::move(all)), shape_(all_->shape()), options_(std::move(options)) {}

  int64_t size() const override { return all_->size(); }
  SampleShape shape() const override { return shape_; }
  int64_t classes() const override { return all_->classes(); }
  std::vector<int64_t> labels() const override { return all_->labels(); }
  int64_t stored_number(int64_t index) const override { return all_->stored_number(index); }
  int64_t stored() const override { return all_->stored(); }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    read_alone(index, alone(draw, {out_input}, out_target));
  }
  void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const override {
    read_alone(index, alone(draw, {out.begin(), out.end()}, nullptr));
  }
  void read_run(const SampleRun& run) const override {
    try {
      all_->read_run(run);
    } catch (const Error& error) {
      if (!tells_bad_sample(error, options_.is_code)) throw;
      for (size_t place = 0; place < run.indices.size() && !run.is_abandoned(); ++place)
        read_alone(run.indices[place], one_of(run, place));
    }
  }

 private:
  // Returns a run of a single sample, without the sample's number.
  static SampleRun alone(const SampleDraw& draw, std::vector<std::byte*> out, int64_t* targets) {
    return {.indices = {},
            .draw = [&draw](int64_t, size_t) { return draw; },
            .out = std::move(out),
            .targets = targets,
            .is_abandoned = [] { return false; }};
  }

  // The run of the sample at `place` of `run`, without its number.
  SampleRun one_of(const SampleRun& run, size_t place) const {
    SampleRun one = run;
    one.indices = {};
    one.draw = [&run, place](int64_t index, size_t) { return run.draw(index, place); };
    for (size_t i = 0; i < one.out.size(); ++i) one.out[i] += place * shape_.bytes_of_input(i);
    if (one.targets != nullptr) one.targets += static_cast<int64_t>(place) * shape_.targets();
    return one;
  }

  // Reads the sample by the run `one`; a damaged sample is replaced by the next sound sample.
  void read_alone(int64_t index, SampleRun one) const {
    for (int64_t passed = 0;; ++passed) {
      const int64_t candidate = (index + passed) % size();
      one.indices = {&candidate, 1};
      try {
        return all_->read_run(one);
      } catch (const Error& error) {
        if (!tells_bad_sample(error, options_.is_code) || passed + 1 == size()) throw;
        options_.bad->note(options_.set, all_->stored_number(candidate), error);
      }
    }
  }

  const std::unique_ptr<Dataset> all_;
  const SampleShape shape_;
  const SkipOptions options_;
};

}  // namespace

void BadSamples::report_to(Report report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
  for (const Found& found : unreported_) report_(found);
  unreported_.clear();
}

void BadSamples::note(const std::string& set, int64_t sample, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (known_.contains({set, sample})) return;
  if (std::ssize(known_) >= most_)
    throw Error(error).advise(
        fmt::format("data.skip_bad = {} samples are left out already: mend or remove the files, or let more be left "
                    "out, with `estrain train --resume --set data.skip_bad={}`",
                    most_, most_ * 2));
  known_.insert({set, sample});
  const Found found{set, sample, error.message()};
  if (report_) return report_(found);
  unreported_.push_back(found);
}

bool tells_bad_sample(const Error& error, bool is_code) {
  return error.fault() == Fault::corrupt || (is_code && error.fault() == Fault::spec);
}

std::unique_ptr<Dataset> without_bad_samples(std::unique_ptr<Dataset> all, SkipOptions options) {
  return std::make_unique<ReadableSamples>(std::move(all), std::move(options));
}

}  // namespace estrain::data
