#include "core/data/python/python_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/process/cpu_affinity.h"
#include "core/data/formats/holdout.h"
#include "core/data/python/data_processes.h"
#include "core/data/sampling/padded_array.h"
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

using Lengths = std::map<std::string, std::vector<int64_t>>;

// Returns the names of the model's arrays, in the model's order; if `names` is empty, all arrays, and the arrays
// derived from the ragged arrays.
std::vector<std::string> names_taken(const SampleShape& shape, std::vector<std::string> names, const Lengths& lengths) {
  if (!names.empty()) return names;
  const auto has = [&shape](const std::string& name) {
    return std::ranges::find(shape.parts, name, &SampleShape::Field::name) != shape.parts.end();
  };
  for (const SampleShape::Field& part : shape.parts) names.push_back(part.name);
  for (const auto& [name, of_samples] : lengths)
    std::ranges::copy_if(derived_names(name), std::back_inserter(names), [&](const auto& made) { return !has(made); });
  return names;
}

// The arrays of sample 0 with these names.
SampleShape chosen(const SampleShape& shape, const std::vector<std::string>& names, const std::string& set) {
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

// The arrays of a set whose samples have lengths of their own.
class RaggedArrays {
 public:
  // `shape`: of sample 0. `set`: its name, for messages.
  RaggedArrays(const SampleShape& shape, const std::vector<std::string>& names, const Lengths& lengths,
               const DataRequest& request, const std::string& set)
      : section_(request.section) {
    std::vector<std::string> read;  // from the user's code
    for (const std::string& name : names_taken(shape, names, lengths)) {
      const bool is_own = std::ranges::find(shape.parts, name, &SampleShape::Field::name) != shape.parts.end();
      const auto is_ragged = [&](const std::string& source) { return lengths.contains(source); };
      auto derived = is_own ? std::nullopt : derived_array(name, is_ragged);
      const std::string source = derived ? derived->source : name;
      const auto of_source = lengths.find(source);
      const auto at = std::ranges::find(read, source) - read.begin();
      if (at == std::ssize(read)) read.push_back(source);
      arrays_.push_back({derived ? std::move(derived->array) : PaddedArray{}, static_cast<size_t>(at),
                         of_source == lengths.end() ? nullptr : &of_source->second});
    }
    stored_ = chosen(shape, read, set);
    std::vector<PaddedArray*> padded;
    for (Array& array : arrays_) {
      padded.push_back(&array);
      describe(array);
    }
    take_pads(set, section_, padded);
  }

  const SampleShape& stored() const { return stored_; }
  SampleShape shape() const {
    std::vector<SampleShape::Field> fields;
    for (const Array& array : arrays_) fields.push_back(array.field);
    return SampleShape::fields(std::move(fields));
  }
  int64_t length(int64_t index) const {
    int64_t sum = 0;
    for (const Array& array : arrays_)
      if (array.field.is_ragged && !array.field.is_derived) sum += array.rows(index);
    return sum;
  }
  std::vector<int64_t> lengths_of(std::span<const int64_t> indices) const {
    std::vector<int64_t> lengths;
    for (const Array& array : arrays_) {
      int64_t most = 0;
      for (const int64_t index : indices) most = std::max(most, array.rows(index));
      lengths.push_back(array.field.is_ragged ? padded_length(most, section_) : 0);
    }
    return lengths;
  }
  // Writes a sample behind the samples before it; `out` moves on.
  void write(int64_t index, std::span<const std::byte* const> values, std::span<const int64_t> lengths,
             std::vector<std::byte*>& out) const {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const Array& array = arrays_[i];
      const int64_t longest = array.field.is_ragged ? array.field.dims[0] : 0;
      out[i] = array.write(values[array.source], array.rows(index), lengths.empty() ? longest : lengths[i], out[i]);
    }
  }

 private:
  struct Array : PaddedArray {
    size_t source;                        // among the arrays read from the user's code
    const std::vector<int64_t>* lengths;  // of the samples; null: not ragged

    int64_t rows(int64_t index) const { return lengths == nullptr ? 1 : (*lengths)[static_cast<size_t>(index)]; }
  };

  // Completes the descriptions of an array, and of the array that it comes from.
  void describe(Array& array) {
    SampleShape::Field& stored = stored_.parts[array.source];
    const int64_t longest = array.lengths == nullptr ? 0 : std::ranges::max(*array.lengths);
    if (array.lengths != nullptr) {
      stored.is_ragged = true;
      stored.dims[0] = std::max<int64_t>(longest, 1);
    }
    if (!array.field.is_derived) array.field = stored;
    if (array.field.is_ragged) array.field.dims[0] = padded_length(longest, section_);
  }

  const spec::DataSection section_;
  std::vector<Array> arrays_;
  SampleShape stored_;
};

class PythonDataset : public Dataset {
 public:
  // `classes`: 0 if unknown.
  PythonDataset(std::shared_ptr<DataProcesses> processes, size_t set, SampleShape shape, int64_t classes)
      : processes_(std::move(processes)), set_(set), shape_(std::move(shape)), classes_(classes) {}
  PythonDataset(std::shared_ptr<DataProcesses> processes, size_t set, RaggedArrays ragged)
      : processes_(std::move(processes)), set_(set), shape_(ragged.shape()), classes_(1), ragged_(std::move(ragged)) {}

  int64_t size() const override { return processes_->sets()[set_].samples; }
  SampleShape shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  int64_t length(int64_t index) const override { return ragged_ ? ragged_->length(index) : 0; }
  std::vector<int64_t> lengths_of(std::span<const int64_t> indices) const override {
    return ragged_ ? ragged_->lengths_of(indices) : std::vector<int64_t>{};
  }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    read_run(run_of(index, draw, {out_input}, out_target));
  }
  void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const override {
    read_run(run_of(index, draw, {out.begin(), out.end()}, nullptr));
  }
  void read_run(const SampleRun& run) const override {
    if (ragged_) return read_ragged(run);
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

  void read_ragged(const SampleRun& run) const {
    std::vector<std::byte*> out = run.out;
    processes_->read(set_, ragged_->stored(), run, [&](size_t place, std::span<const std::byte* const> values) {
      ragged_->write(run.indices[place], values, run.lengths, out);
    });
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
  const std::optional<RaggedArrays> ragged_;
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

// `first`: the shape of sample 0.
std::unique_ptr<Dataset> make_set(const std::shared_ptr<DataProcesses>& processes, size_t set, const SampleShape& first,
                                  const DataRequest& request) {
  const Lengths& lengths = processes->sets()[set].lengths;
  const std::string& name = processes->name(set);
  if (lengths.empty()) {
    refuse_padding(request.section);
    const bool is_whole = first.kind != SampleShape::Kind::fields || request.arrays.empty();
    const SampleShape shape = is_whole ? first : chosen(first, request.arrays, name);
    return std::make_unique<PythonDataset>(processes, set, shape, classes_of(*processes, request, shape));
  }
  if (request.section.skip_bad > 0) {
    throw Error::make(Fault::spec,
                      "data.skip_bad: the samples of {} have lengths of their own, and the sample in the "
                      "place of a bad one would have another length",
                      name)
        .advise("remove data.skip_bad, and leave bad samples out in the Dataset");
  }
  return std::make_unique<PythonDataset>(processes, set, RaggedArrays(first, request.arrays, lengths, request, name));
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
    std::unique_ptr<Dataset> made = make_set(processes, set, first.shape, request);
    const SampleShape shape = made->shape();
    opened.files.push_back({.what = set == 0 ? "training samples" : "evaluation samples",
                            .path = processes->name(set),
                            .content = {},
                            .samples = fmt::format("{} samples, {}", samples, words_for(shape))});
    add_modules(opened.files, spec::CodePlace(request.section.file).file, first.imported);
    opened.sets.push_back(std::move(made));
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
