#include "core/data/job_data.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "core/base/error.h"
#include "core/data/files/mapped_files.h"
#include "core/data/format_table.h"
#include "core/data/python/python_dataset.h"
#include "core/data/reading/sample_weights.h"
#include "core/data/reading/skip_bad.h"
#include "core/formats/program/program.h"
#include "core/job/spec/data_formats.h"

namespace estrain::data {
namespace {

// FileName::what of a module: this word, then the name of the module.
constexpr std::string_view kModule = "module ";

std::vector<FileName> program_names(const spec::ModelSection& model) {
  if (model.is_python()) return {{code_file, model.code_file(), FileKind::as_it_is}};
  if (model.name != "program") return {};
  if (model.file.empty()) throw Error(Fault::spec, "model.name = \"program\" needs model.file, the exported program");
  std::vector<FileName> names = {{program_file, model.file, FileKind::as_it_is}};
  if (!model.eval_file.empty()) names.push_back({evaluation_program_file, model.eval_file, FileKind::as_it_is});
  return names;
}

constexpr program::ScalarType kAnyClass = program::ScalarType::i64;

void add(ModelInputs& inputs, const program::UserInput& input) {
  if (std::ranges::find(inputs, input.name, &program::UserInput::name) == inputs.end()) inputs.push_back(input);
}

std::vector<FileName> metrics_names(const spec::TrainSection& train) {
  if (train.metrics_file.empty()) return {};
  return {{metrics_code_file, spec::CodePlace(train.metrics_file).file, FileKind::as_it_is}};
}

// The inputs of all programs, and the target of the loss, of unknown type.
ModelInputs inputs_of(const std::vector<DataFile>& programs, const std::string& loss_target) {
  ModelInputs inputs;
  for (const DataFile& file : programs) {
    for (const program::UserInput& input : program::read_program(file.content.bytes, file.path).inputs)
      add(inputs, input);
    release_pages(file.content.bytes);  // the checksums cover all bytes
  }
  if (!programs.empty() && !loss_target.empty()) add(inputs, {.name = loss_target, .type = kAnyClass, .sizes = {}});
  return inputs;
}

FileName module_name(std::string_view kind, const std::string& code, const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(code).parent_path();
  return {std::string(kind) + name, (folder / name).string(), FileKind::as_it_is};
}

// The modules of the code in the file `code`.
void add_modules_in(const DataIdentity& known, std::string_view kind, const std::string& code,
                    std::vector<FileName>& names) {
  for (const FileIdentity& file : known.files)
    if (file.what.starts_with(kind)) names.push_back(module_name(kind, code, file.what.substr(kind.size())));
}

std::vector<std::string> arrays_of(const std::vector<DataFile>& programs, const spec::JobSpec& spec) {
  std::optional<ModelInputs> inputs;
  if (!spec.model.is_python()) inputs = inputs_of(programs, spec.model.loss_target);
  return format_of(spec.data).arrays_for(spec.data.path, inputs);
}

void leave_out_bad(DataPair& pair, const spec::DataSection& section) {
  const bool is_code = spec::traits_of(section.format).is_code;
  pair.bad = std::make_shared<BadSamples>(section.skip_bad);
  pair.train = without_bad_samples(std::move(pair.train), {"training", is_code, pair.bad});
  if (pair.test) pair.test = without_bad_samples(std::move(pair.test), {"evaluation", is_code, pair.bad});
}

void add_weights(DataPair& pair, const spec::DataSection& section) {
  for (DataFile& file : open_files(weight_files(section))) {
    pair.weights = read_sample_weights(file, section, *pair.train);
    pair.files.push_back(std::move(file));
  }
}

}  // namespace

std::vector<FileName> job_file_names(const spec::JobSpec& spec) {
  std::vector<FileName> names = file_names(spec.data);
  std::ranges::copy(program_names(spec.model), std::back_inserter(names));
  std::ranges::copy(weight_files(spec.data), std::back_inserter(names));
  std::ranges::copy(metrics_names(spec.train), std::back_inserter(names));
  return names;
}

std::vector<FileName> module_names(const spec::ModelSection& model, const std::vector<std::string>& imported) {
  std::vector<FileName> names;
  for (const std::string& name : imported) names.push_back(module_name(kModule, model.code_file(), name));
  return names;
}

std::vector<FileName> modules_in(const spec::JobSpec& spec, const DataIdentity& known) {
  std::vector<FileName> names;
  if (spec.model.is_python()) add_modules_in(known, kModule, spec.model.code_file(), names);
  if (!spec.data.file.empty()) add_modules_in(known, data_module, spec::CodePlace(spec.data.file).file, names);
  std::erase_if(names, [](const FileName& name) { return !stamp_of(name).has_value(); });
  return names;
}

DataIdentity require_same_job(DataIdentity known, const std::vector<DataFile>& files) {
  const auto is_code = [](const auto& file) { return file.what == metrics_code_file; };
  const auto code = std::ranges::find_if(files, is_code);
  if (code == files.end()) {
    std::erase_if(known.files, is_code);
  } else if (std::ranges::none_of(known.files, is_code)) {
    known.files.push_back(identify({*code}).files.front());
  }
  return require_same(known, files);
}

std::vector<std::string> arrays_of_job(const spec::JobSpec& spec) {
  return with_context("model", [&] { return arrays_of(open_files(program_names(spec.model)), spec); });
}

spec::DataSection data_section(const spec::JobSpec& spec) {
  spec::DataSection section = spec.data;
  if (section.python.empty()) section.python = spec.model.python;
  return section;
}

Finding no_evaluation(const spec::DataSection& section) {
  const spec::DataFormatTraits& format = spec::traits_of(section.format);
  const char* way = format.has_holdout                        ? "data.holdout = 0.1 keeps a part of the samples for it"
                    : section.format == spec::DataFormat::idx ? "name them: data.test_images, data.test_labels"
                                                              : "name them: data.test_list";
  return Finding::warn("evaluation", "no samples for evaluation",
                       fmt::format("{}, and train.eval_every = \"never\" does without", way));
}

DataPair open_job(const spec::JobSpec& spec) {
  const std::vector<DataFile> programs = with_context("model", [&] { return open_files(program_names(spec.model)); });
  const std::vector<std::string> arrays = with_context("model", [&] { return arrays_of(programs, spec); });
  DataPair pair =
      open(data_section(spec), spec.model.context, static_cast<uint64_t>(spec.job.seed), spec.model.classes, arrays);
  pair.files.insert(pair.files.end(), programs.begin(), programs.end());
  with_context("data", [&] { add_weights(pair, spec.data); });
  with_context("train.metrics_file",
               [&] { std::ranges::move(open_files(metrics_names(spec.train)), std::back_inserter(pair.files)); });
  if (spec.data.skip_bad > 0) leave_out_bad(pair, spec.data);
  if (!pair.test && spec.train.eval_every >= 0) {
    const Finding missing = no_evaluation(spec.data);
    pair.notes.push_back(missing.seen + ": " + missing.advice);
  }
  return pair;
}

}  // namespace estrain::data
