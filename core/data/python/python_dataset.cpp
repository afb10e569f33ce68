#include "core/data/python/python_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/process/cpu_affinity.h"
#include "core/data/formats/hdf5_arrays.h"
#include "core/data/formats/holdout.h"
#include "core/data/python/data_processes.h"
#include "core/job/spec/defaults.h"

namespace estrain::data {
namespace {

constexpr int64_t kMostWorkers = 16;  // where the number of readers is tuned

std::vector<std::string> sets_of(const spec::DataSection& section) {
  std::vector<std::string> sets = {section.file};
  if (!section.test_file.empty()) sets.push_back(section.test_file);
  return sets;
}

DataCode code_of(const DataRequest& request) {
  const spec::DataSection& section = request.section;
  return {.python = find_python(section.python, "data.python"),
          .sets = sets_of(section),
          .seed = request.seed,
          .most_workers = section.readers > 0 ? section.readers : std::min(kMostWorkers, cpus_of_affinity()),
          .hang_seconds = section.hang_seconds};
}

std::string words_for(const SampleShape& shape) {
  switch (shape.kind) {
    case SampleShape::Kind::image:
      return fmt::format("images float32 [{}] with a class", fmt::join(shape.dims(), ", "));
    case SampleShape::Kind::vector:
      return fmt::format("numbers float32 [{}] with a class", shape.length);
    case SampleShape::Kind::tokens:
      return fmt::format("tokens int64 [{}]", shape.length);
    case SampleShape::Kind::fields:
      break;
  }
  return describe_arrays(shape);
}

// The arrays that the model takes, in the model's order; without names, all arrays.
SampleShape chosen(const SampleShape& shape, const std::vector<std::string>& names, const std::string& set) {
  if (shape.kind != SampleShape::Kind::fields || names.empty()) return shape;
  std::vector<SampleShape::Field> fields;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(shape.parts, name, &SampleShape::Field::name);
    if (found == shape.parts.end()) {
      throw Error::make(Fault::mismatch, "{}: sample 0 lacks {}, an input of the program; it has: {}", set, name,
                        describe_arrays(shape))
          .advise("return a dictionary with the names of the program's inputs");
    }
    fields.push_back(*found);
  }
  return SampleShape::fields(std::move(fields));
}

class PythonDataset : public Dataset {
 public:
  // `classes`: 0 if unknown.
  PythonDataset(std::shared_ptr<DataProcesses> processes, size_t set, SampleShape shape, int64_t classes)
      : processes_(std::move(processes)), set_(set), shape_(std::move(shape)), classes_(classes) {}

  int64_t size() const override { return processes_->sets()[set_].samples; }
  SampleShape shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    read_run(run_of(index, draw, {out_input}, out_target));
  }
  void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const override {
    read_run(run_of(index, draw, {out.begin(), out.end()}, nullptr));
  }
  void read_run(const SampleRun& run) const override {
    processes_->read(set_, shape_, run);
    if (classes_ > 0 && !run.is_abandoned()) check_targets(run);
  }

 private:
  static SampleRun run_of(const int64_t& index, const SampleDraw& draw, std::vector<std::byte*> out, int64_t* targets) {
    return {.indices = {&index, 1},
            .draw = [&draw](int64_t, size_t) { return draw; },
            .out = std::move(out),
            .targets = targets,
            .is_abandoned = [] { return false; }};
  }

  void check_targets(const SampleRun& run) const {
    const int64_t each = shape_.targets();
    for (int64_t i = 0; i < std::ssize(run.indices) * each; ++i) {
      if (run.targets[i] >= 0 && run.targets[i] < classes_) continue;
      throw Error::make(Fault::corrupt, "{}: sample {} has the target {}; the classes are 0 to {}",
                        processes_->name(set_), run.indices[static_cast<size_t>(i / each)], run.targets[i],
                        classes_ - 1)
          .advise("correct the target, or set model.classes");
    }
  }

  const std::shared_ptr<DataProcesses> processes_;
  const size_t set_;
  const SampleShape shape_;
  const int64_t classes_;
};

struct Opened {
  std::vector<std::unique_ptr<Dataset>> sets;
  std::vector<DataFile> files;  // known to the code alone
};

// The class of a sample is told by the first set for both.
int64_t classes_of(const DataProcesses& processes, const DataRequest& request, const SampleShape& shape) {
  if (shape.kind == SampleShape::Kind::fields) return 1;
  return request.classes.value_or(processes.sets().front().classes.value_or(0));
}

void add_modules(std::vector<DataFile>& files, const std::string& code, const std::vector<std::string>& imported) {
  const std::filesystem::path folder = std::filesystem::path(code).parent_path();
  std::vector<FileName> names;
  for (const std::string& module : imported) {
    const std::string what = std::string(data_module) + module;
    if (std::ranges::find(files, what, &DataFile::what) == files.end())
      names.push_back({what, (folder / module).string(), FileKind::as_it_is});
  }
  std::ranges::move(open_files(names), std::back_inserter(files));
}

Opened open_sets(const DataRequest& request) {
  const auto processes = std::make_shared<DataProcesses>(code_of(request));
  Opened opened;
  for (size_t set = 0; set < processes->sets().size(); ++set) {
    const int64_t samples = processes->sets()[set].samples;
    if (samples == 0) throw Error::make(Fault::corrupt, "{} has no samples", processes->name(set));
    const DataProcesses::FirstSample first = processes->first_sample(set);
    const SampleShape shape = chosen(first.shape, request.arrays, processes->name(set));
    opened.files.push_back({.what = set == 0 ? "training samples" : "evaluation samples",
                            .path = processes->name(set),
                            .content = {},
                            .samples = fmt::format("{} samples, {}", samples, words_for(shape))});
    add_modules(opened.files, spec::CodePlace(request.section.file).file, first.imported);
    opened.sets.push_back(
        std::make_unique<PythonDataset>(processes, set, shape, classes_of(*processes, request, shape)));
  }
  return opened;
}

class PythonFormat : public Format {
 public:
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    if (section.file.empty())
      throw Error(Fault::spec, "data.format = \"python\" needs data.file, such as \"data.py:train\"");
    std::vector<FileName> names = {{data_code_file, spec::CodePlace(section.file).file, FileKind::as_it_is}};
    const std::string test = spec::CodePlace(section.test_file).file;
    if (!test.empty() && test != names.front().path)
      names.push_back({"the evaluation data's Python code", test, FileKind::as_it_is});
    return names;
  }
  DataPair open(const DataRequest& request, const std::vector<DataFile>&) const override {
    Opened opened = open_sets(request);
    DataPair pair;
    pair.train = std::move(opened.sets[0]);
    if (opened.sets.size() > 1) {
      pair.test = std::move(opened.sets[1]);
    } else {
      hold_out(pair, of_one_class(pair.train->size()), spec::holdout(request.section), request.seed);
    }
    pair.files = std::move(opened.files);
    return pair;
  }
  void scan(const DataRequest& request, DataScan& scan) const override {
    try {
      open_files(file_names(request.section));
      const Opened opened = open_sets(request);
      for (const DataFile& file : opened.files)
        if (!file.samples.empty())
          scan.findings.push_back(Finding::fine("data", fmt::format("{}: {}", file.path, file.samples)));
      scan.train_samples = opened.sets.front()->size();
      if (opened.sets.size() == 1)
        note_held_out(scan, of_one_class(scan.train_samples), spec::holdout(request.section));
      if (opened.sets.front()->shape().targets() > 0) scan.classes = opened.sets.front()->classes();
    } catch (const Error& error) {
      scan.findings.push_back(unreadable(error));
    }
  }
};

}  // namespace

const Format& python_format() {
  static const PythonFormat format;
  return format;
}

}  // namespace estrain::data
