#include "core/engine/model/exported/exported.h"

#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/engine/model/exported/scalar_type.h"
#include "core/engine/model/state_dict.h"
#include "core/engine/model/torch_error.h"

namespace estrain::model {
namespace {

using program::Program;
using program::ScalarType;
using program::StoredTensor;
using program::UserInput;

Error does_not_fit(const std::string& what) {
  return Error(Fault::spec, what)
      .advise("use the data for which the program was exported, or export it for these (estrain export)");
}

bool is_whole(ScalarType type) {
  return type == ScalarType::u8 || type == ScalarType::i8 || type == ScalarType::i16 || type == ScalarType::i32 ||
         type == ScalarType::i64;
}

// Returns whether every value of type `from` can be represented in type `to`.
bool can_widen(ScalarType from, ScalarType to) {
  if (from == ScalarType::boolean) return is_whole(to);
  if (to == ScalarType::boolean) return is_whole(from);
  if (to == ScalarType::i64) return is_whole(from);
  if (to == ScalarType::i32) return is_whole(from) && from != ScalarType::i64;
  return to == ScalarType::f64 && from == ScalarType::f32;
}

std::optional<c10::ScalarType> widening(const UserInput& input, const OfferedTensor& offer, const std::string& what) {
  if (offer.type == input.type) return std::nullopt;
  if (can_widen(offer.type, input.type)) return scalar_type(input.type);
  throw does_not_fit(fmt::format("the program's input {} is {}, {} is {}", input.name, program::type_name(input.type),
                                 what, program::type_name(offer.type)));
}

std::string dims_text(const OfferedTensor& offer) {
  if (offer.dims.empty()) return "[batch]";
  return fmt::format("[batch, {}{}]", offer.is_ragged ? "up to " : "", fmt::join(offer.dims, ", "));
}

Error missing_array(const std::string& name, const NamedShape& shape) {
  std::vector<std::string> names;
  for (const NamedShape::NamedField& field : shape.fields) names.push_back(field.name);
  return Error::make(Fault::spec, "the program's input {} is not an array of the data, which has {}", name,
                     fmt::join(names, ", "))
      .advise("each input of the program needs an array of its name: rename forward's argument, or the array");
}

// Compares the sizes of the program's inputs with the data's; a symbol stands for the same size in all places.
class SizeCheck {
 public:
  explicit SizeCheck(const Program& program) : program_(program) {}

  void check(const UserInput& input, const OfferedTensor& offer, const std::string& what) {
    const auto refuse = [&](const std::string& why) {
      return does_not_fit(fmt::format("the program's input {} is {}, {} is {}{}", input.name,
                                      program::sizes_text(input.sizes), what, dims_text(offer), why));
    };
    if (input.sizes.size() != offer.dims.size() + 1) throw refuse("");
    if (offer.is_ragged && input.sizes[1].symbol.empty()) {
      throw refuse(": the program has one length, the samples of a ragged array have many")
          .advise(fmt::format("export it with this dimension dynamic: estrain export --ragged {}", input.name));
    }
    if (input.sizes[0].symbol.empty()) {
      throw Error::make(Fault::spec, "the program takes only mini-batches of {} samples (its input {} is {})",
                        input.sizes[0].number, input.name, program::sizes_text(input.sizes))
          .advise("export it with a dynamic batch dimension, as estrain export does");
    }
    batch_.insert(input.sizes[0].symbol);
    for (size_t d = 0; d < offer.dims.size(); ++d) {
      const program::SymInt& size = input.sizes[d + 1];
      if (size.symbol.empty() ? size.number != offer.dims[d] : !agrees(size.symbol, offer.dims[d])) throw refuse("");
    }
  }

  // Returns the allowed sizes of mini-batches. If torch's range starts at 2, 0 and 1 are allowed, too.
  program::Range samples() const {
    program::Range range;
    for (const std::string& symbol : batch_) {
      if (known_.contains(symbol))
        throw does_not_fit(fmt::format("the program needs mini-batches of {} samples", known_.at(symbol)));
      const auto found = program_.ranges.find(symbol);
      if (found == program_.ranges.end()) continue;
      if (found->second.low > 2) range.low = std::max(range.low, found->second.low);
      if (found->second.high) range.high = std::min(range.high.value_or(INT64_MAX), *found->second.high);
    }
    return range;
  }

 private:
  bool agrees(const std::string& symbol, int64_t size) {
    if (known_.emplace(symbol, size).first->second != size) return false;
    const auto found = program_.ranges.find(symbol);
    if (found == program_.ranges.end()) return true;
    return (found->second.low <= 2 || size >= found->second.low) && size <= found->second.high.value_or(size);
  }

  const Program& program_;
  std::map<std::string, int64_t> known_;
  std::set<std::string> batch_;
};

// "2.11" of "2.11.0+cu130"
std::string release_of(const std::string& version) {
  const size_t first = version.find('.');
  return version.substr(0, first == std::string::npos ? first : version.find('.', first + 1));
}

void check_release(const Program& program) {
  if (release_of(program.torch_version) == release_of(TORCH_VERSION)) return;
  throw Error::make(Fault::mismatch, "{}: exported by torch {}; this estrain is built with LibTorch {}", program.path,
                    program.torch_version, TORCH_VERSION)
      .advise(fmt::format("export it again with torch {}", release_of(TORCH_VERSION)));
}

void check_mode(const Program& program, const ExecutionPlan& plan) {
  if (program.is_marked_training || plan.training_calls() > 0 || plan.evaluation_calls() == 0) return;
  throw Error::make(Fault::spec, "{}: exported in eval() mode: dropout and batch norm do not train", program.path)
      .advise("call module.train() before the export; estrain export can record that they are off on purpose");
}

void check_precision(const Program& program, spec::Precision precision) {
  const std::string_view wanted = precision == spec::Precision::bf16 ? "bf16" : "fp32";
  if (program.precision.empty() || program.precision == wanted) return;
  throw Error::make(Fault::spec, "{}: exported for {}; at job.precision = \"{}\" its module computes otherwise",
                    program.path, program.precision, wanted)
      .advise(fmt::format("export it with estrain export --precision {}, or set job.precision = \"{}\"", wanted,
                          program.precision));
}

// Calls use(offset, piece) for the bytes of a tensor, piece by piece: a load needs no second copy of a large tensor.
template <typename Use>
void in_pieces(const ProgramFiles& files, const StoredTensor& stored, const Use& use) {
  constexpr size_t kPiece = size_t{4} << 20;
  for (size_t at = 0; at < stored.bytes.size(); at += kPiece) {
    const std::span<const std::byte> piece = stored.bytes.subspan(at, std::min(kPiece, stored.bytes.size() - at));
    use(at, piece);
    if (files.release != nullptr) files.release(piece);
  }
}

// Returns a tensor with the strides of the file, without values.
torch::Tensor empty_as(const StoredTensor& stored) {
  return torch::empty_strided(stored.sizes, stored.strides, torch::dtype(scalar_type(stored.type)));
}

// `to`: a tensor with the strides of the file.
void read_into(const ProgramFiles& files, const StoredTensor& stored, const torch::Tensor& to) {
  if (stored.bytes.empty()) return;
  auto* const out = static_cast<std::byte*>(to.mutable_data_ptr());
  in_pieces(files, stored,
            [out](size_t at, std::span<const std::byte> piece) { std::memcpy(out + at, piece.data(), piece.size()); });
}

torch::Tensor loaded(const ProgramFiles& files, const StoredTensor& stored) {
  torch::Tensor tensor = empty_as(stored);
  read_into(files, stored, tensor);
  return tensor;
}

void check_parameter(const ProgramFiles& files, const Program& program, const StoredTensor& parameter) {
  require_parameter_type(fmt::format("{}: parameter {}", program.path, parameter.name), scalar_type(parameter.type));
  in_pieces(files, parameter, [&](size_t at, std::span<const std::byte> piece) {
    for (size_t i = 0; i + sizeof(float) <= piece.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, piece.data() + i, sizeof value);
      if (std::isfinite(value)) continue;
      throw Error::make(Fault::corrupt, "{}: parameter {} holds {} at element {}", program.path, parameter.name, value,
                        (at + i) / sizeof(float))
          .advise("export the model before it diverges");
    }
  });
}

std::unique_ptr<Program> read_program(const ProgramFiles& files, std::span<const std::byte> file,
                                      const std::string& path) {
  auto program = std::make_unique<Program>(program::read_program(file, path));
  if (files.release != nullptr) files.release(file);  // the checksums cover all bytes
  return program;
}

void require_unwritten(const Program& program, const std::vector<StoredTensor>& list, const char* what,
                       const std::set<int>& written) {
  for (const StoredTensor& tensor : list) {
    if (!written.contains(tensor.value)) continue;
    throw Error::make(Fault::mismatch, "{}: the program writes to its {} {}", program.path, what, tensor.name)
        .advise("make it a buffer, or leave its updates to the optimizer");
  }
}

bool are_same(const StoredTensor& a, const StoredTensor& b) {
  return a.type == b.type && a.sizes == b.sizes && a.strides == b.strides && std::ranges::equal(a.bytes, b.bytes);
}

void check_name(const Program& program, const std::string& name) {
  if (is_sound_name(name)) return;
  throw Error::make(Fault::corrupt, "{}: \"{}\" is not the name of a module or tensor", program.path, name)
      .advise("export it again (estrain export)");
}

}  // namespace

// Makes modules in the order of the modules in Python, the order of parameters and buffers.
void Exported::make_modules(const Program& program) {
  for (const std::string& name : program.modules) {
    check_name(program, name);
    module_at(*this, name);
  }
}

Exported::Exported(const ProgramFiles& files, const DataShape& shape, bool draws)
    : UsersModel(files.section, files.label_smoothing) {
  training_.program = read_program(files, files.program, files.section.file);
  if (!files.evaluation.empty()) evaluation_.program = read_program(files, files.evaluation, files.section.eval_file);
  const Program& program = *training_.program;
  check_release(program);
  check_precision(program, files.precision);
  make_modules(program);
  StoredValues stored;
  for (const auto* list : {&program.parameters, &program.buffers, &program.constants}) {
    for (const StoredTensor& tensor : *list) {
      check_name(program, tensor.name);
      if (!tensor.alias_of.empty()) continue;
      const bool is_constant = list == &program.constants;
      const torch::Tensor values = draws || is_constant ? loaded(files, tensor) : empty_as(tensor);
      // In C order for the state. Tensors already in C order keep their strides.
      stored.emplace(tensor.value, is_constant ? values.to(files.device) : values.contiguous());
    }
  }
  for (const StoredTensor& parameter : program.parameters) check_parameter(files, program, parameter);
  training_.plan = std::make_unique<ExecutionPlan>(program, ExecutionPlan::Use::training, stored, files.device);
  check_mode(program, *training_.plan);
  const std::set<int>& written = training_.plan->written();
  require_unwritten(program, program.parameters, "parameter", written);
  require_unwritten(program, program.constants, "constant", written);
  // Registers parameters under all of their names.
  for (const StoredTensor& parameter : program.parameters) {
    const auto [module, name] = split_name(parameter.name);
    module_at(*this, module).register_parameter(name, stored.at(parameter.value), parameter.requires_grad);
  }
  for (const StoredTensor& buffer : program.buffers) {
    if (!buffer.persistent && !written.contains(buffer.value)) {
      torch::Tensor& constant = stored.at(buffer.value);
      if (is_in_c_order(buffer)) {
        read_into(files, buffer, constant);
      } else {
        constant.copy_(loaded(files, buffer));
      }
      constant.set_data(constant.to(files.device));
      continue;
    }
    require_buffer_type(fmt::format("{}: buffer {}", program.path, buffer.name), scalar_type(buffer.type));
    const auto [module, name] = split_name(buffer.name);
    module_at(*this, module).register_buffer(name, stored.at(buffer.value));
  }
  bind(training_, shape);
  make_evaluation(files, shape, stored);
  find_target(shape, program.inputs.size() > 1 ? program.inputs[1].name : "");
}

void Exported::make_evaluation(const ProgramFiles& files, const DataShape& shape, const StoredValues& stored) {
  if (files.evaluation.empty()) {
    try {
      evaluation_.plan =
          std::make_unique<ExecutionPlan>(*training_.program, ExecutionPlan::Use::frozen, stored, files.device);
      evaluation_.sources = training_.sources;
      evaluation_.lengths = training_.lengths;
      evaluation_.samples = training_.samples;
    } catch (const Error& error) {
      no_evaluation_ = error;  // matters only to jobs that evaluate
    }
    return;
  }
  const Program& program = *evaluation_.program;
  check_release(program);
  const Program& trained = *training_.program;
  StoredValues own;
  const auto take = [&](const std::vector<StoredTensor>& list, const std::vector<StoredTensor>& from) {
    for (const StoredTensor& tensor : list) {
      const auto found = std::ranges::find(from, tensor.name, &StoredTensor::name);
      if (found == from.end() || found->sizes != tensor.sizes || found->type != tensor.type ||
          found->strides != tensor.strides) {
        throw Error::make(Fault::mismatch, "{}: its {} differs from that of {}", program.path, tensor.name,
                          trained.path)
            .advise("export both files from one model");
      }
      own.emplace(tensor.value, stored.at(found->value));
    }
  };
  take(program.parameters, trained.parameters);
  take(program.buffers, trained.buffers);
  for (const StoredTensor& constant : program.constants) {
    if (!constant.alias_of.empty()) continue;
    const auto same = [&](const StoredTensor& other) { return are_same(constant, other); };
    const auto found = std::ranges::find_if(trained.constants, same);
    own.emplace(constant.value,
                found == trained.constants.end() ? loaded(files, constant).to(files.device) : stored.at(found->value));
  }
  check_precision(program, files.precision);
  evaluation_.plan = std::make_unique<ExecutionPlan>(program, ExecutionPlan::Use::evaluation, own, files.device);
  require_unwritten(program, program.constants, "constant", evaluation_.plan->written());
  for (const int value : evaluation_.plan->written()) {
    const auto changes = [&](const std::vector<StoredTensor>& list) {
      return std::ranges::find(list, value, &StoredTensor::value) != list.end();
    };
    const bool trains = evaluation_.plan->training_calls() > 0;
    if (trains && (changes(program.parameters) || changes(program.buffers)))
      throw Error::make(Fault::spec, "{}: exported in train() mode: it changes its buffers", program.path)
          .advise("call module.eval() before the export");
  }
  bind(evaluation_, shape);
}

void Exported::bind(RunnableProgram& part, const DataShape& shape) {
  const Program& program = *part.program;
  const size_t inputs = program.inputs.size();
  const auto* named = std::get_if<NamedShape>(&shape);
  if (inputs == 0) throw Error::make(Fault::spec, "{}: the program takes no tensors", program.path);
  if (named == nullptr && inputs > 2) {
    std::vector<std::string> names;
    for (const UserInput& input : program.inputs) names.push_back(input.name);
    throw Error::make(Fault::spec, "{}: the program takes {} inputs ({}), but the data have two, samples and labels",
                      program.path, inputs, fmt::join(names, ", "))
        .advise("provide a dataset with each input's name in an HDF5 file: data.format = \"hdf5\"");
  }
  SizeCheck sizes(program);
  for (size_t i = 0; i < inputs; ++i) {
    const UserInput& input = program.inputs[i];
    InputSource source{.name = input.name, .field = i, .is_named = named != nullptr, .widened = {}};
    OfferedTensor offer = i == 0 || named != nullptr ? OfferedTensor{} : offered_target(shape);
    std::string what = i == 0 ? "a sample of the data" : "its label";
    if (named == nullptr && i == 0) offer = offered_input(shape);
    if (named != nullptr) {
      const auto found = std::ranges::find(named->fields, input.name, &NamedShape::NamedField::name);
      if (found == named->fields.end()) throw missing_array(input.name, *named);
      source.field = static_cast<size_t>(found - named->fields.begin());
      offer = {found->type, found->dims, found->is_ragged};
      what = "the array of that name";
    }
    source.widened = widening(input, offer, what);
    sizes.check(input, offer, what);
    part.sources.push_back(std::move(source));
    part.lengths.push_back(offer.is_ragged ? input.sizes[1].symbol : "");
  }
  part.samples = sizes.samples();
}

std::vector<torch::Tensor> Exported::outputs(RunnableProgram& part, const MiniBatch& batch) {
  const int64_t samples = batch.size();
  if (samples < part.samples.low || samples > part.samples.high.value_or(samples)) {
    throw Error::make(Fault::spec, "the program takes mini-batches of {} to {} samples, but this one has {}",
                      part.samples.low, part.samples.high ? std::to_string(*part.samples.high) : "any number of",
                      samples)
        .advise("set data.batch and train.eval_batch to fit, and data.drop_last = true");
  }
  std::vector<torch::Tensor> inputs;
  for (const InputSource& source : part.sources) {
    const torch::Tensor& tensor = tensor_of(batch, source);
    inputs.push_back(source.widened ? tensor.to(*source.widened) : tensor);
  }
  require_lengths(part, inputs);
  return part.plan->run(inputs);
}

std::vector<torch::Tensor> Exported::in_order(const RunnableProgram& part, std::vector<torch::Tensor> outputs,
                                              const std::vector<std::string>& wanted, const char* key) const {
  const Program& program = part.program ? *part.program : *training_.program;
  if (!program.logged || outputs.size() != program.logged->size() + 1) return outputs;
  std::vector<std::string> names = *program.logged;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto found = std::find(names.begin(), names.end(), wanted[i]);
    if (found == names.end()) {
      throw Error::make(Fault::spec, "{} names {}, and the step in {} logs {}", key, wanted[i], program.path,
                        program.logged->empty() ? "nothing" : fmt::format("{}", fmt::join(*program.logged, ", ")))
          .advise("name what the step logs");
    }
    const auto from = found - names.begin(), to = static_cast<std::ptrdiff_t>(i);
    std::rotate(names.begin() + to, names.begin() + from, names.begin() + from + 1);
    std::rotate(outputs.begin() + to + 1, outputs.begin() + from + 1, outputs.begin() + from + 2);
  }
  return outputs;
}

void Exported::require_lengths(const RunnableProgram& part, const std::vector<torch::Tensor>& inputs) const {
  std::map<std::string, size_t> first;  // input of each symbol
  const Program& program = part.program ? *part.program : *training_.program;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (part.lengths[i].empty()) continue;
    const int64_t length = inputs[i].size(1), other = inputs[first.emplace(part.lengths[i], i).first->second].size(1);
    if (length != other) {
      throw Error::make(Fault::spec,
                        "the program takes {} and {} of one length, but in this mini-batch they have {} and {}",
                        part.sources[first.at(part.lengths[i])].name, part.sources[i].name, other, length)
          .advise("give both arrays the same offsets, or export the program with different example lengths");
    }
    const auto range = program.ranges.find(part.lengths[i]);
    if (range == program.ranges.end()) continue;
    const auto& [low, high] = range->second;
    if ((low <= 2 || length >= low) && length <= high.value_or(length)) continue;
    throw Error::make(Fault::spec, "the program takes {} of lengths {} to {}, but this mini-batch has {}",
                      part.sources[i].name, low, high ? std::to_string(*high) : "any", length)
        .advise("export it for these lengths, or shorten the samples; data.pad_multiple gives the least length");
  }
}

void Exported::require_outputs() const {
  const RunnableProgram& part = evaluation_.program ? evaluation_ : training_;
  if (part.program->outputs.size() > wanted().outputs.size()) return;
  throw Error::make(Fault::spec, "{}: the program gives {} outputs, and train.metrics names {} behind the first",
                    part.program->path, part.program->outputs.size(), wanted().outputs.size())
      .advise("return the metrics from forward in eval() mode, behind the loss or the prediction");
}

std::vector<int64_t> Exported::gradient_strides(const torch::Tensor& parameter) const {
  return training_.plan->strides_of(parameter);
}

std::vector<std::string> Exported::notes() const {
  std::vector<std::string> notes = training_.program->notes;
  for (const std::string& name : training_.program->synced) notes.push_back(note_of_synced(name));
  return notes;
}

std::shared_ptr<Exported> build_program(const ProgramFiles& files, const DataShape& shape, bool draws) {
  return with_context("model", [&] {
    return translating_torch_errors([&] { return std::make_shared<Exported>(files, shape, draws); });
  });
}

}  // namespace estrain::model
