#include "cmd/starter_job.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "cmd/users_python.h"
#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/data/files/data_files.h"
#include "core/data/files/file_pattern.h"
#include "core/data/format_table.h"
#include "core/data/formats/hdf5.h"
#include "core/data/job_data.h"
#include "core/formats/program/program.h"
#include "core/job/spec/data_formats.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/closest.h"

namespace estrain::cmd {
namespace {

namespace fs = std::filesystem;
using data::SampleShape;
using spec::Samples;
using Dims = std::vector<int64_t>;

constexpr int64_t kPhotoSide = 224;         // where the model does not tell
constexpr int64_t kAnySize = -1;            // of an exported program, or a ragged array
constexpr int64_t kTriedLength = 8;         // of a ragged array, where the module brings no example
constexpr int64_t kMostTargetsRead = 1000;  // of a Dataset that does not tell its classes
constexpr int64_t kIgnoredClass = -100;     // of cross_entropy: a target that does not count
constexpr int64_t kMostTokens = 1 << 30;    // above every vocabulary: init does not check the tokens

std::string text_of(const Dims& dims) {
  std::vector<std::string> words;
  for (const int64_t dim : dims) words.push_back(dim == kAnySize ? "any" : std::to_string(dim));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

bool same_sizes(const Dims& wanted, const Dims& given) {
  return std::ranges::equal(wanted, given, [](int64_t a, int64_t b) { return a == b || a == kAnySize; });
}

std::string absolute(const std::string& path) {
  std::string whole = fs::absolute(path).lexically_normal().string();
  require_utf8(whole);
  return whole;
}

bool is_code(const std::string& words) { return fs::path(spec::CodePlace(words).file).extension() == ".py"; }

// An array of one sample: of the data, or as the model takes it.
struct Array {
  std::string name;
  Dims dims{};
  bool is_required = true;
  bool is_whole = false;    // whole numbers
  bool is_derived = false;  // the lengths or the mask of a ragged array

  bool is_ragged() const { return !dims.empty() && dims[0] == kAnySize; }
};

// What a user's model shows of itself.
struct ModelFacts {
  std::string name;             // for messages
  std::vector<Array> inputs{};  // in the order of forward's arguments
  bool gives_loss = false;
  Dims output{};  // the first output for a mini-batch; empty if a program does not tell
};

// The data of a job, opened without transforms.
struct DataFacts {
  std::string name;  // for messages
  SampleShape shape;
  int64_t samples = 0;
  int64_t classes = 0;          // 0: unknown
  bool has_any_size = false;    // photos
  std::vector<Array> arrays{};  // the input and the target, or all arrays by name

  bool is_named() const { return shape.kind == SampleShape::Kind::fields; }
};

// A pattern stands for shards of tokens: one data set.
spec::DataSection find_shards(const std::string& pattern) {
  const std::vector<std::string> files = data::files_like(pattern);
  for (const std::string& file : files) {
    if (!fs::is_regular_file(file))
      throw Error::make(Fault::usage, "{}: stands for several data sets, and {} is no file", pattern, file)
          .advise("give one folder, or a pattern of token files");
  }
  const std::string& first = files.front();
  spec::DataSection section = data::recognise(absolute(first));
  if (section.format != spec::DataFormat::tokens)
    throw Error::make(Fault::usage, "{}: stands for several files, and {} holds no tokens", pattern, first)
        .advise("only files of tokens are read by a pattern; give a folder or a file");
  section.path = absolute(pattern);
  return section;
}

spec::DataSection find_data(const InitWords& words) {
  if (!is_code(words.data)) {
    if (data::is_file_pattern(words.data)) return find_shards(words.data);
    if (!fs::exists(words.data)) throw Error::make(Fault::usage, "{}: there is no such folder or file", words.data);
    return data::recognise(absolute(words.data));
  }
  const spec::CodePlace place(words.data);
  if (!fs::is_regular_file(place.file))
    throw Error::make(Fault::usage, "{}: there is no file {}", words.data, place.file);
  if (!place.is_whole())
    throw Error::make(Fault::usage, "{}: names no Dataset", words.data)
        .advise(fmt::format("give the file and in it a Dataset, or a function that returns one: {}:train", place.file));
  spec::DataSection section;
  section.format = spec::DataFormat::python;
  section.file = absolute(words.data);
  section.python = words.python;
  return section;
}

spec::ModelSection find_model(const InitWords& words) {
  spec::ModelSection model;
  const std::string& name = words.model;
  if (is_code(name)) return users_function(name, words.python);
  if (fs::path(name).extension() == ".pt2") {
    if (!fs::is_regular_file(name))
      throw Error::make(Fault::usage, "--model {}: there is no such file", name)
          .advise("estrain export NET.py:FUNCTION writes it; or train the module in Python: --model NET.py:FUNCTION");
    model.name = "program", model.file = absolute(name);
    const std::string evaluation = evaluation_program(model.file);
    if (fs::is_regular_file(evaluation)) model.eval_file = evaluation;
    return model;
  }
  std::vector<std::string> names(spec::model_names.begin(), spec::model_names.end());
  std::erase_if(names, [](const std::string& each) { return each == "program" || each == "python"; });
  if (std::ranges::find(names, name) == names.end()) {
    const std::optional<std::string> meant = spec::closest(name, names);
    throw Error::make(Fault::usage, "--model {}: neither a model's name, nor a .pt2 or .py file", name)
        .advise(meant ? fmt::format("did you mean \"{}\"?", *meant)
                      : fmt::format("give a file, net.pt2 or net.py:build, or one of {}", spec::quoted_list(names)));
  }
  model.name = name;
  return model;
}

// `section` without sizes that the model has yet to tell.
spec::DataSection untransformed(spec::DataSection section) {
  if (section.format == spec::DataFormat::voc)
    section.resize = {kPhotoSide, kPhotoSide};
  else if (spec::traits_of(section.format).samples == Samples::photos)
    section.crop = {kPhotoSide, kPhotoSide};
  return section;
}

// The names of the data's arrays that a user's model is offered.
std::vector<std::string> offered_arrays(const spec::JobSpec& job) {
  if (!job.model.is_users() || data::arrays_of_job(job).empty()) return {};
  return data::format_of(job.data).arrays_for(job.data.path, std::nullopt);
}

std::vector<Array> arrays_of(const SampleShape& shape) {
  const bool is_tokens = shape.kind == SampleShape::Kind::tokens;
  if (shape.kind != SampleShape::Kind::fields) {
    const Dims dims = shape.dims();
    return {{.name = "input", .dims = dims, .is_whole = is_tokens},
            {.name = "target", .dims = is_tokens ? dims : Dims(), .is_whole = true}};
  }
  std::vector<Array> arrays;
  for (const SampleShape::Field& part : shape.parts) {
    arrays.push_back({.name = part.name,
                      .dims = part.dims,
                      .is_whole = part.type < program::ScalarType::f16 || part.type == program::ScalarType::boolean,
                      .is_derived = part.is_derived});
    if (part.is_ragged) arrays.back().dims[0] = kAnySize;
  }
  return arrays;
}

DataFacts look_at_data(const InitWords& words, const spec::JobSpec& job, const data::DataPair& pair) {
  DataFacts facts{.name = words.data,
                  .shape = pair.train->shape(),
                  .samples = pair.train->size(),
                  .classes = pair.train->classes()};
  facts.has_any_size = spec::traits_of(job.data.format).samples == Samples::photos && !facts.is_named();
  facts.arrays = arrays_of(facts.shape);
  return facts;
}

data::DataPair open_data(const spec::JobSpec& job) {
  std::optional<int64_t> classes;
  if (job.data.format == spec::DataFormat::tokens) classes = kMostTokens;
  return data::open(untransformed(data::data_section(job)), job.model.context, static_cast<uint64_t>(job.job.seed),
                    classes, offered_arrays(job));
}

ModelFacts look_at_program(const spec::ModelSection& model, const std::string& name) {
  const std::vector<data::DataFile> files =
      data::open_files({{data::program_file, model.file, data::FileKind::as_it_is}});
  const program::Program program = program::read_program(files.front().content.bytes, model.file);
  ModelFacts facts{.name = name};
  for (const program::UserInput& input : program.inputs) {
    Array array{.name = input.name};
    for (size_t i = 1; i < input.sizes.size(); ++i)
      array.dims.push_back(input.sizes[i].symbol.empty() ? input.sizes[i].number : kAnySize);
    facts.inputs.push_back(array);
  }
  if (!program.first_output) return facts;
  facts.gives_loss = program.first_output->empty();
  for (const program::SymInt& size : *program.first_output) facts.output.push_back(size.number);
  return facts;
}

ModelFacts look_at_module(const spec::ModelSection& model, const std::string& name, const DataFacts& data) {
  Json arrays = Json::array();
  for (const Array& array : data.arrays) {
    Dims dims = array.dims;
    if (array.is_ragged()) dims[0] = kTriedLength;
    arrays.push_back({{"name", array.name}, {"dims", dims}, {"whole", array.is_whole}});
  }
  const Json told = ask_users_python(
      model, name, {{"sample", {{"named", data.is_named()}, {"arrays", arrays}}}, {"seed", 0}, {"traceback", false}});
  ModelFacts facts{.name = name, .gives_loss = told.at("loss").get<bool>(), .output = told.at("output").get<Dims>()};
  for (const Json& input : told.at("inputs")) {
    facts.inputs.push_back({.name = input.at("name").get<std::string>(),
                            .dims = input.at("dims").get<Dims>(),
                            .is_required = input.at("required").get<bool>()});
    Array& last = facts.inputs.back();
    const auto array = std::ranges::find(data.arrays, last.name, &Array::name);
    if (array != data.arrays.end() && array->is_ragged() && !last.dims.empty()) last.dims[0] = kAnySize;
  }
  return facts;
}

Error misfit(const ModelFacts& model, const Array& input, const DataFacts& data, const Array& array) {
  return Error::make(Fault::spec, "{}: {} is {} for a sample; the data {} have {} {}", model.name, input.name,
                     text_of(input.dims), data.name, array.name, text_of(array.dims))
      .advise(array.is_ragged()
                  ? fmt::format("export the model for any length: estrain export --ragged {}", input.name)
                  : "build the model, and its example mini-batch, for the shape of the data, or change the data's");
}

// Makes the data give images of the model's size.
void fit_images(spec::DataSection& section, const ModelFacts& model, const Array& input, const DataFacts& data) {
  const Dims& wanted = input.dims;
  const SampleShape& stored = data.shape;
  const bool repeats = wanted.size() == 3 && wanted[0] == 3 && stored.channels == 1;
  const bool greys = wanted.size() == 3 && wanted[0] == 1 && data.has_any_size;
  if (wanted.size() != 3 || (wanted[0] != stored.channels && !repeats && !greys))
    throw misfit(model, input, data, data.arrays[0]);
  if (wanted[0] != stored.channels) section.channels = wanted[0];
  if (wanted[1] == kAnySize || wanted[2] == kAnySize) return;
  if (data.has_any_size)
    section.crop = {wanted[1], wanted[2]};
  else if (wanted[1] != stored.height || wanted[2] != stored.width)
    section.resize = {wanted[1], wanted[2]};
}

void fit_input(spec::JobSpec& job, const ModelFacts& model, const DataFacts& data) {
  const Array &input = model.inputs.front(), &array = data.arrays.front();
  const bool has_size_in_spec = !spec::traits_of(job.data.format).is_code;
  if (data.shape.kind == SampleShape::Kind::image && has_size_in_spec)
    fit_images(job.data, model, input, data);
  else if (data.shape.kind == SampleShape::Kind::tokens && has_size_in_spec && input.dims.size() == 1 &&
           input.dims[0] > 0)
    job.model.context = input.dims[0];
  else if (!same_sizes(input.dims, array.dims))
    throw misfit(model, input, data, array);
}

std::string names_of(const std::vector<Array>& arrays) {
  std::vector<std::string> texts;
  for (const Array& array : arrays) texts.push_back(fmt::format("{} {}", array.name, text_of(array.dims)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void fit_named(spec::JobSpec& job, const ModelFacts& model, const DataFacts& data) {
  for (const Array& input : model.inputs) {
    const auto array = std::ranges::find(data.arrays, input.name, &Array::name);
    if (array == data.arrays.end()) {
      if (!input.is_required) continue;
      throw Error::make(Fault::spec, "{}: forward takes {}, which a sample of {} does not have; it has: {}", model.name,
                        input.name, data.name, names_of(data.arrays))
          .advise("give the data the names of forward's arguments");
    }
    const bool is_picture = job.data.format == spec::DataFormat::voc && input.dims.size() == 3 && input.dims[0] == 3;
    if (is_picture && input.name == "images") {
      job.data.resize = {input.dims[1], input.dims[2]};
    } else if (!same_sizes(input.dims, array->dims)) {
      throw misfit(model, input, data, *array);
    }
  }
}

// The array that a loss outside of the model compares with.
const Array& target_of(const ModelFacts& model, const DataFacts& data) {
  if (!data.is_named()) return data.arrays[1];
  std::vector<const Array*> spare;
  for (const Array& array : data.arrays)
    if (!array.is_derived && std::ranges::find(model.inputs, array.name, &Array::name) == model.inputs.end())
      spare.push_back(&array);
  if (spare.size() == 1) return *spare.front();
  for (const char* name : {"labels", "label", "targets", "target", "y"}) {
    const auto array = std::ranges::find(data.arrays, name, &Array::name);
    if (array != data.arrays.end()) return *array;
  }
  throw Error::make(Fault::spec, "{} returns a prediction, and no array of {} is known as its target: {}", model.name,
                    data.name, names_of(data.arrays))
      .advise("name the target \"labels\", or return the loss first");
}

void require_classes(const ModelFacts& model, const DataFacts& data) {
  const int64_t given = model.output[1];
  if (data.is_named() || data.shape.kind == SampleShape::Kind::tokens || given >= data.classes) return;
  throw Error::make(Fault::spec, "{} predicts {}; the data {} have {}", model.name,
                    given == 1 ? "1 class" : fmt::format("{} classes", given), data.name, data.classes)
      .advise(fmt::format("build the model for {} classes or more", data.classes));
}

void choose_loss(spec::JobSpec& job, const ModelFacts& model, const DataFacts& data) {
  if (model.gives_loss) return;
  spec::ModelSection& section = job.model;
  const Array& target = target_of(model, data);
  if (data.is_named()) section.loss_target = target.name;
  Dims prediction = model.output;
  const bool has_classes = target.is_whole && prediction.size() > 1;
  if (!prediction.empty()) prediction.erase(prediction.begin() + (has_classes ? 1 : 0));
  if (has_classes && prediction.size() == target.dims.size() + 1 &&
      same_sizes(target.dims, Dims(prediction.begin() + 1, prediction.end()))) {
    require_classes(model, data);
    section.loss = spec::Loss::cross_entropy;
    if (target.is_ragged()) job.data.pad_values = {fmt::format("{}={}", target.name, kIgnoredClass)};
    return;
  }
  if (!target.is_whole && prediction == target.dims) {
    section.loss = spec::Loss::mse;
    return;
  }
  const bool is_last = target.is_whole && model.output.size() == target.dims.size() + 2 && target.dims.size() == 1;
  throw Error::make(Fault::spec, "{}: no loss is known for an output {} and the target {} {} of a sample", model.name,
                    text_of(model.output), target.name, text_of(target.dims))
      .advise(is_last ? "return logits.transpose(1, -1), with the classes second, or return the loss first"
                      : "return [samples, classes] for classes, the target's shape for numbers, or the loss first");
}

// The largest target of the first samples, plus 1.
int64_t classes_by_reading(const data::Dataset& set) {
  std::vector<std::byte> input(set.shape().input_bytes());
  std::vector<int64_t> targets(static_cast<size_t>(set.shape().targets()));
  int64_t classes = 1;
  for (int64_t i = 0; i < std::min(set.size(), kMostTargetsRead); ++i) {
    set.read(i, data::SampleDraw::fixed(), input.data(), targets.data());
    classes = std::max(classes, std::ranges::max(targets) + 1);
  }
  return classes;
}

const char* kind_name(SampleShape::Kind kind) {
  switch (kind) {
    case SampleShape::Kind::image:
      return "images";
    case SampleShape::Kind::vector:
      return "vectors";
    case SampleShape::Kind::tokens:
      return "tokens";
    case SampleShape::Kind::fields:
      break;
  }
  return "named arrays";
}

// The built-in model for the data where the command line names none.
std::string usual_model(SampleShape::Kind kind) {
  return kind == SampleShape::Kind::tokens ? "gpt" : kind == SampleShape::Kind::vector ? "mlp" : "resnet18";
}

void fit_built_in(spec::JobSpec& job, const DataFacts& data, const data::Dataset& train) {
  using Kind = SampleShape::Kind;
  if (job.model.name.empty()) job.model.name = usual_model(data.shape.kind);
  const std::string& name = job.model.name;
  const Kind kind = data.shape.kind;
  const bool fits = name == "gpt"   ? kind == Kind::tokens
                    : name == "mlp" ? kind == Kind::image || kind == Kind::vector
                                    : kind == Kind::image;
  if (!fits)
    throw Error::make(Fault::spec, "{} takes {}; the data {} are {}", name,
                      name == "gpt"   ? "tokens"
                      : name == "mlp" ? "images and vectors"
                                      : "images",
                      data.name, kind_name(kind))
        .advise(kind == Kind::fields ? "give a model of your own: --model net.pt2 or net.py:build"
                                     : fmt::format("--model {}, or a model of your own", usual_model(kind)));
  if (!spec::traits_of(job.data.format).is_code) return;
  if (kind == Kind::tokens) job.model.context = data.shape.length;
  if (data.classes == 0) job.model.classes = classes_by_reading(train);
}

// The job's name, and that of the folder of its runs: of shards "fineweb_train_*.bin" it is "fineweb_train".
std::string name_of(const fs::path& data) {
  const fs::path last = data.has_filename() ? data : data.parent_path();
  if (!data::is_file_pattern(data.string())) return last.stem().string();
  const auto whole_part = [](std::string name) {
    name = name.substr(0, name.find_first_of("*?["));
    return name.substr(0, name.find_last_not_of("_-.") + 1);
  };
  std::string name = whole_part(last.stem().string());
  for (fs::path folder = last.parent_path(); name.empty() && folder.has_filename(); folder = folder.parent_path())
    name = whole_part(folder.filename().string());
  return name.empty() ? "tokens" : name;
}

// The last mini-batch of an epoch would be a single sample, which batch normalisation may refuse.
bool ends_with_one(int64_t samples, const spec::JobSpec& job) {
  const int64_t each = (samples + job.job.ests - 1) / job.job.ests;
  return each > job.data.batch && each % job.data.batch == 1;
}

}  // namespace

spec::Starter starter_job(const InitWords& given) {
  InitWords words = given;  // a spec's relative paths would be relative to its folder
  if (words.python.find('/') != std::string::npos) words.python = absolute(words.python);
  spec::JobSpec job;
  job.job.ests = spec::starter_ests;
  job.data = find_data(words);
  job.data.batch = spec::starter_batch;
  if (!words.model.empty()) job.model = find_model(words);
  const spec::DataFormatTraits& format = spec::traits_of(job.data.format);
  if (format.has_holdout && format.samples != Samples::tokens && job.data.test_path.empty()) job.data.holdout = 0.1;
  spec::Starter starter{.name = {}, .data = job.data, .model = job.model};
  starter.name = name_of(format.is_code ? spec::CodePlace(job.data.file).file : job.data.path);
  if (words.model.empty() && !format.is_code) {
    if (job.data.format == spec::DataFormat::hdf5) data::require_labelled_images(job.data.path);
    return starter;
  }

  const data::DataPair pair = open_data(job);
  const DataFacts facts = look_at_data(words, job, pair);
  if (job.model.is_users()) {
    const ModelFacts model =
        job.model.is_python() ? look_at_module(job.model, words.model, facts) : look_at_program(job.model, words.model);
    if (facts.is_named()) {
      fit_named(job, model, facts);
    } else {
      fit_input(job, model, facts);
    }
    choose_loss(job, model, facts);
  } else {
    fit_built_in(job, facts, *pair.train);
  }
  job.data.drop_last = ends_with_one(facts.samples, job);
  starter.data = job.data, starter.model = job.model;
  return starter;
}

}  // namespace estrain::cmd
