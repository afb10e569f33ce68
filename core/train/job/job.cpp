#include "core/train/job/job.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/checkpoint/state/est_streams.h"
#include "core/comm/records/step_record.h"
#include "core/data/job_data.h"
#include "core/device/cpu.h"
#include "core/est/generator.h"
#include "core/model/exported/exported.h"
#include "core/model/zoo/build.h"
#include "core/operators/random_stream.h"
#include "core/train/job/batch_tensors.h"
#include "core/train/job/operator_scan.h"

namespace estrain::train {
namespace {

using checkpoint::DType;
using checkpoint::Role;

model::DataShape model_shape(const data::SampleShape& shape) {
  switch (shape.kind) {
    case data::SampleShape::Kind::image:
      return model::ImageShape{shape.channels, shape.height, shape.width};
    case data::SampleShape::Kind::vector:
      return model::VectorShape{shape.length};
    case data::SampleShape::Kind::tokens:
      return model::TokenShape{shape.length};
    case data::SampleShape::Kind::fields: {
      model::NamedShape named;
      for (const data::SampleShape::Field& part : shape.parts)
        named.fields.push_back({part.name, part.type, part.dims});
      return named;
    }
  }
  throw Error(Fault::bug, "unknown kind of sample");
}

model::Initializer initializer(const spec::JobSpec& spec, bool draw_weights) {
  if (!draw_weights) return model::Initializer::skip();
  return model::Initializer::draw(at::detail::createCPUGenerator(static_cast<uint64_t>(spec.job.seed)));
}

// torch.optim's bits on this kind of CPU, or on GPUs, whose updates may be made by any CPU as well; or the same bits on
// every kind of device.
optim::Arithmetic arithmetic_of(spec::Kernels kernels, bool gpus) {
  const bool is_portable = kernels == spec::Kernels::portable;
  if (is_portable || gpus) return {.isa = device::portable_isa(), .portable = true, .as_on_cuda = gpus && !is_portable};
  return {.isa = device::aten_isa(), .square_roots = device::aten_square_roots()};
}

// The bytes lie in the memory of `files`, which may be closed once the model is built.
model::ProgramFiles program_files(const spec::JobSpec& spec, const std::vector<data::DataFile>& files) {
  const auto bytes_of = [&](const char* what) -> std::span<const std::byte> {
    const auto found = std::ranges::find(files, what, &data::DataFile::what);
    if (found == files.end()) return {};
    return found->content.bytes;
  };
  return {spec.model, bytes_of(data::program_file), bytes_of(data::evaluation_program_file),
          spec.train.label_smoothing};
}

DType dtype_of(const torch::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case torch::kFloat:
      return DType::f32;
    case torch::kDouble:
      return DType::f64;
    case torch::kLong:
      return DType::i64;
    case torch::kByte:
      return DType::u8;
    default:
      throw Error::make(Fault::spec, "buffer {} has a type that a checkpoint cannot hold", name);
  }
}

}  // namespace

model::MetricsWanted metrics_of(const spec::TrainSection& train) {
  return {train.top_k, train.per_class, train.metrics};
}

device::DeviceOptions device_options(const spec::JobSpec& spec) {
  // The portable kernels' random numbers are keyed on the host: a replay would draw those of its capture.
  const bool can_replay = spec.job.kernels == spec::Kernels::torch;
  return {.tf32 = spec.job.precision == spec::Precision::tf32,
          .graphs = can_replay && spec.job.cuda_graphs == spec::CudaGraphs::automatic};
}

Job::Job(const spec::JobSpec& spec, const data::DataPair& data, bool draw_weights, bool cuda_streams, PythonSide python)
    : spec_(spec), data_(data), interpreter_(python.interpreter) {
  const data::Dataset& train = *data.train;
  sampler_ = std::make_unique<data::Sampler>(data::Sampler::Options{train.size(), spec.job.ests, spec.data.batch,
                                                                    spec.data.shuffle, spec.data.drop_last,
                                                                    static_cast<uint64_t>(spec.job.seed)});
  build_model(draw_weights, python);
  name_metrics(spec.model.classes.value_or(train.classes()));
  const model::NamedTensors named = model::named_tensors(*model_);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named.parameters) names.push_back(name);
  optimizer_ = std::make_unique<optim::Optimizer>(spec.optimizer, optim::resolve_groups(spec.optimizer, names),
                                                  arithmetic_of(spec.job.kernels, cuda_streams));
  for (const optim::GroupSettings& group : optimizer_->groups().groups)
    schedules_.emplace_back(spec.schedule, group.lr);
  lay_out(named);
  lay_out_optimizer(names);
  lay_out_ests(cuda_streams);
  lay_out_schedule();
  lay_out_early_stop();
  lay_out_averages(cuda_streams);
  count_steps();
  optim::check_length(spec.schedule, Step(manifest_.total_steps), manifest_.batches_per_epoch);
}

std::shared_ptr<model::PythonModel> Job::build_python_model(const model::DataShape& shape, PythonSide python) {
  if (python.interpreter == nullptr) throw Error(Fault::bug, "a module in Python, and no interpreter");
  if (!python.device->torch_device().is_cpu())
    throw Error(Fault::infeasible, "model.name = \"python\" is for CPU workers, so far")
        .advise("use CPU devices, or export the module: model.name = \"program\"");
  // Portable random operators that the user's code calls take keys from the default generator, which it seeds.
  operators::begin_est_stream(operators::building_stream, 0);
  return model::build_python_model(spec_.model, spec_.train.label_smoothing, shape, *python.interpreter,
                                   static_cast<uint64_t>(spec_.job.seed));
}

void Job::try_out(model::PythonModel& model, device::Device& device) const {
  operators::begin_random_stream(0, operators::warming_stream, 0);
  const data::LoadedBatch batch = first_batch(*this);
  model.try_out(as_tensors(batch, device), evaluates());
}

void Job::build_model(bool draw_weights, PythonSide python) {
  const model::DataShape shape = model_shape(data_.train->shape());
  const double label_smoothing = spec_.train.label_smoothing;
  std::shared_ptr<model::UsersModel> users;
  std::shared_ptr<model::PythonModel> module;
  if (spec_.model.is_python()) {
    users = module = build_python_model(shape, python);
  } else if (spec_.model.is_users()) {
    users = model::build_program(program_files(spec_, data_.files), shape, draw_weights);
  } else {
    model::Initializer init = initializer(spec_, draw_weights);
    const int64_t classes = spec_.model.classes.value_or(data_.train->classes());
    model_ = model::build_model(spec_.model, label_smoothing, shape, classes, init);
  }
  if (users) model_ = users;
  model_->set_precision(spec_.job.precision);
  model_->want_metrics(metrics_of(spec_.train));
  if (module) try_out(*module, *python.device);
  if (!users || !evaluates()) return;
  users->require_evaluation();
  users->require_outputs();
}

est::Backward Job::backward() const {
  if (interpreter_ == nullptr) return [](const torch::Tensor& loss) { loss.backward(); };
  return [python = interpreter_](const torch::Tensor& loss) { python->backward(loss); };
}

void Job::lay_out(const model::NamedTensors& named) {
  checkpoint::StateLayout& layout = manifest_.layout;
  for (const auto& [name, tensor] : named.parameters) {
    parameters_.push_back(tensor);
    const size_t index = layout.append(Role::parameter, name, "", DType::f32, tensor.sizes().vec());
    parameter_at_.push_back(layout.tensors[index].offset);
    manifest_.digest_names.push_back(name);
    manifest_.parameter_count += tensor.numel();
  }
  gradient_bytes_ = layout.bytes;
  for (const auto& [name, tensor] : named.buffers) {
    buffers_.push_back(tensor);
    const size_t index = layout.append(Role::buffer, name, "", dtype_of(tensor, name), tensor.sizes().vec());
    if (buffers_.size() == 1) buffers_at_ = layout.tensors[index].offset;
    buffer_at_.push_back(layout.tensors[index].offset - buffers_at_);
    buffers_bytes_ = layout.bytes - buffers_at_;
    manifest_.digest_names.push_back(name);
  }
  for (const auto& [name, target] : named.aliases) layout.aliases.push_back({Role::parameter, name, target});
}

void Job::lay_out_optimizer(const std::vector<std::string>& names) {
  checkpoint::StateLayout& layout = manifest_.layout;
  for (size_t i = 0; i < names.size(); ++i) {
    slots_at_.emplace_back();
    for (std::string_view slot : optimizer_->slots(i)) {
      const size_t index =
          layout.append(Role::optimizer, names[i], std::string(slot), DType::f32, parameters_[i].sizes().vec());
      slots_at_.back().push_back(layout.tensors[index].offset);
    }
    const size_t index = layout.append(Role::optimizer, names[i], std::string(optim::step_slot), DType::i64, {});
    updates_at_.push_back(layout.tensors[index].offset);
  }
}

void Job::lay_out_ests(bool cuda_streams) {
  checkpoint::StateLayout& layout = manifest_.layout;
  const int64_t state_bytes = static_cast<int64_t>(est::generator_state_bytes());
  for (int64_t rank = 0; rank < spec_.job.ests; ++rank) {
    const std::string name = std::to_string(rank);
    generators_at_.push_back(
        layout
            .tensors[layout.append(Role::est, name, std::string(checkpoint::generator_slot), DType::u8, {state_bytes})]
            .offset);
    losses_at_.push_back(layout.tensors[layout.append(Role::est, name, "loss", DType::f32, {})].offset);
    manifest_.digest_names.push_back("est/" + name + "/generator");
    if (interpreter_ != nullptr) {
      const auto bytes = static_cast<int64_t>(interpreter_->stream_bytes());
      const size_t index = layout.append(Role::est, name, std::string(checkpoint::python_slot), DType::u8, {bytes});
      python_streams_at_.push_back(layout.tensors[index].offset);
    }
    if (!cuda_streams) continue;
    const std::vector<int64_t> shape = {static_cast<int64_t>(est::cuda_generator_state_bytes)};
    cuda_generators_at_.push_back(
        layout.tensors[layout.append(Role::est, name, std::string(checkpoint::cuda_generator_slot), DType::u8, shape)]
            .offset);
  }
}

void Job::lay_out_schedule() {
  if (spec_.schedule.name != spec::ScheduleKind::plateau) return;
  if (!evaluates())
    throw Error(Fault::spec, "schedule.name: plateau goes by evaluations, and there are no test data")
        .advise("give data for evaluation, or another schedule");
  checkpoint::StateLayout& layout = manifest_.layout;
  const auto numbers = static_cast<int64_t>(plateau_bytes() / sizeof(double));
  plateau_at_ = layout.tensors[layout.append(Role::schedule, "plateau", "", DType::f64, {numbers})].offset;
}

// In the order of evaluation.h's results.
void Job::name_metrics(int64_t classes) {
  if (!evaluates()) return;
  std::vector<std::string>& names = manifest_.metric_names;
  for (const int64_t k : spec_.train.top_k) names.push_back(fmt::format("top{}", k));
  if (spec_.train.per_class && data_.train->shape().kind == data::SampleShape::Kind::fields && !spec_.model.classes)
    throw Error(Fault::spec, "train.per_class: how many classes named arrays have is not known")
        .advise("give model.classes");
  for (int64_t c = 0; spec_.train.per_class && c < classes; ++c) names.push_back(fmt::format("class{}", c));
  names.insert(names.end(), spec_.train.metrics.begin(), spec_.train.metrics.end());
  if (tells_perplexity()) names.emplace_back("perplexity");
}

// Perplexity needs a loss that is the cross entropy of tokens.
bool Job::tells_perplexity() const {
  return data_.train->shape().kind == data::SampleShape::Kind::tokens &&
         (!spec_.model.is_users() || spec_.model.loss == spec::Loss::cross_entropy);
}

void Job::lay_out_early_stop() {
  if (spec_.early_stop.patience == 0) return;
  if (!evaluates())
    throw Error(Fault::spec, "early_stop.patience: goes by evaluations, and there are no test data")
        .advise("give data for evaluation, or leave it out");
  checkpoint::StateLayout& layout = manifest_.layout;
  const std::string name(checkpoint::early_stop_name);
  early_stop_at_ = layout.tensors[layout.append(Role::schedule, name, "", DType::f64, {2})].offset;
}

void Job::lay_out_averages(bool cuda_streams) {
  if (spec_.ema.decay == 0) return;
  if (cuda_streams)
    throw Error(Fault::spec, "ema.decay: averages of the weights are kept by CPU workers alone, so far")
        .advise("use CPU devices, or ema.decay = 0");
  checkpoint::StateLayout& layout = manifest_.layout;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const size_t index =
        layout.append(Role::average, manifest_.digest_names[i], "", DType::f32, parameters_[i].sizes().vec());
    if (i == 0) average_at_ = layout.tensors[index].offset;
  }
}

void Job::write_plateau(std::byte* base, const optim::PlateauState& state, const std::vector<double>& rates) const {
  double* to = plateau(base);
  to[0] = state.best, to[1] = state.bad, to[2] = state.cooldown;
  std::copy(rates.begin(), rates.end(), to + 3);
}

void Job::count_steps() {
  manifest_.batches_per_epoch = sampler_->batches_per_epoch();
  manifest_.samples_per_rank = sampler_->samples_per_est();
  manifest_.batch = spec_.data.batch;
  const int64_t whole = manifest_.batches_per_epoch * manifest_.batch;
  manifest_.samples_per_epoch = std::min(whole, manifest_.samples_per_rank) * spec_.job.ests;
  manifest_.total_steps = spec_.train.steps ? *spec_.train.steps : *spec_.train.epochs * manifest_.batches_per_epoch;
  manifest_.processor = device::describe_processor();
}

comm::MemoryPlan Job::memory_plan() const {
  comm::MemoryPlan plan;
  plan.manifest = manifest_.to_json();
  plan.state_bytes = manifest_.layout.bytes;
  plan.gradient_bytes = gradient_bytes_;
  plan.ests = spec_.job.ests;
  plan.parameters = static_cast<int64_t>(parameters_.size());
  // An evaluation's record has its metrics behind the digests.
  plan.digests = static_cast<int64_t>(manifest_.digest_names.size() + manifest_.metric_names.size());
  plan.evaluation_samples = evaluation_samples() * (1 + static_cast<int64_t>(metrics_of(spec_.train).columns()));
  plan.ring_records = comm::records_of_ring;
  plan.audit_words = comm::AuditBoard::words_of_row(plan.parameters, static_cast<int64_t>(buffers_.size()));
  return plan;
}

comm::SumOrder Job::sum_order() const {
  return spec_.job.determinism == spec::Determinism::d0 ? comm::SumOrder::left_to_right : comm::SumOrder::tree;
}

int64_t Job::predictions_per_sample() const {
  const auto* users = dynamic_cast<const model::UsersModel*>(model_.get());
  return users != nullptr ? users->predictions_per_sample() : data_.train->shape().targets();
}

int64_t Job::evaluation_samples() const { return data_.test ? data_.test->size() : 0; }

bool Job::evaluates() const { return data_.test && spec_.train.eval_every >= 0; }

bool Job::evaluates_after(Step step) const {
  if (!evaluates() || step == Step(0)) return false;
  const int64_t period = spec_.train.eval_every > 0 ? spec_.train.eval_every : manifest_.batches_per_epoch;
  return step.value % period == 0 || step.value == manifest_.total_steps;
}

bool Job::saves_after(Step step) const {
  if (spec_.checkpoint.best != spec::Best::none && evaluates_after(step)) return true;
  return spec_.checkpoint.every > 0 && step.value % spec_.checkpoint.every == 0;
}

std::vector<double> Job::learning_rates(Step step) {
  const int64_t calls = optim::schedule_calls(spec_.schedule, step, manifest_.batches_per_epoch);
  std::vector<double> rates;
  for (optim::Schedule& schedule : schedules_) {
    schedule.seek(calls);
    rates.push_back(schedule.lr());
  }
  return rates;
}

}  // namespace estrain::train
