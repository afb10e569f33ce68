#include "core/engine/train/job/job.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/engine/device/cpu.h"
#include "core/job/spec/defaults.h"
#include "core/state/comm/output_mail.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::train {
namespace {

// Returns the arithmetic with torch.optim's bits on this kind of CPU, or on GPUs, for updates on every kind of CPU as
// well; or with the same bits on every kind of device.
optim::Arithmetic arithmetic_of(spec::Kernels kernels, bool gpus) {
  const bool is_portable = kernels == spec::Kernels::portable;
  if (is_portable || gpus) return {.isa = device::portable_isa(), .portable = true, .as_on_cuda = gpus && !is_portable};
  return {.isa = device::aten_isa(), .square_roots = device::aten_square_roots()};
}

// Returns the names in the order of evaluation.h's results.
std::vector<std::string> names_of_metrics(const spec::JobSpec& spec, const JobSamples& samples) {
  std::vector<std::string> names;
  for (const int64_t k : spec.train.top_k) names.push_back(fmt::format("top{}", k));
  if (spec.train.per_class) {
    if (samples.train().shape().kind == data::SampleShape::Kind::fields && !spec.model.classes)
      throw Error(Fault::spec, "train.per_class: how many classes named arrays have is not known")
          .advise("give model.classes");
    const int64_t classes = samples.classes(spec.model);
    for (int64_t c = 0; c < classes; ++c) names.push_back(fmt::format("class{}", c));
  }
  names.insert(names.end(), spec.train.metrics.begin(), spec.train.metrics.end());
  if (tells_perplexity(spec, samples)) names.emplace_back("perplexity");
  names.insert(names.end(), spec.train.metrics_names.begin(), spec.train.metrics_names.end());
  return names;
}

// Returns the manifest without the parts given by the network's tensors.
checkpoint::Manifest manifest_of(const spec::JobSpec& spec, const JobSamples& samples, const Timetable& timetable) {
  checkpoint::Manifest manifest;
  if (timetable.evaluates()) manifest.metric_names = names_of_metrics(spec, samples);
  manifest.term_names = spec.train.terms;
  manifest.weighs = spec.train.weight == spec::Weight::tokens;
  manifest.batches = timetable.batches();
  manifest.ests = spec.job.ests;
  manifest.total_steps = timetable.total_steps();
  manifest.processor = device::describe_processor();
  return manifest;
}

optim::Optimizer optimizer_of(const spec::JobSpec& spec, const model::NamedTensors& tensors, bool gpus) {
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> sizes;
  for (const auto& [name, tensor] : tensors.parameters) {
    names.push_back(name);
    sizes.push_back(tensor.sizes().vec());
  }
  optim::Optimizer optimizer(spec.optimizer, optim::resolve_groups(spec.optimizer, names),
                             arithmetic_of(spec.job.kernels, gpus));
  optimizer.require_fit(names, sizes);
  return optimizer;
}

AveragePlaces lay_out_averages(const spec::JobSpec& spec, const Network& network, checkpoint::StateLayout& layout) {
  return spec.ema.decay == 0 ? AveragePlaces() : AveragePlaces(network.tensors(), layout);
}

}  // namespace

int64_t Timetable::total_steps() const { return spec::total_steps(spec_.train, batches_); }

bool Timetable::evaluates() const { return has_test_data_ && spec_.train.eval_every >= 0; }

bool Timetable::evaluates_after(Step step) const {
  if (!evaluates() || step == Step(0)) return false;
  const int64_t every = spec_.train.eval_every;
  return (every > 0 ? step.value % every == 0 : batches_.ends_epoch(step)) || step.value == total_steps();
}

bool Timetable::saves_after(Step step) const {
  if (spec_.checkpoint.best != "none" && evaluates_after(step)) return true;
  return spec_.checkpoint.every > 0 && step.value % spec_.checkpoint.every == 0;
}

device::DeviceOptions device_options(const spec::JobSpec& spec) {
  // The portable kernels' random numbers are keyed on the host: a replay would draw the captured numbers again. A
  // replay would not run a module's Python code.
  const bool can_replay = spec.job.kernels == spec::Kernels::torch && !spec.model.is_python();
  return {.tf32 = spec.job.precision == spec::Precision::tf32,
          .graphs = can_replay && spec.job.cuda_graphs == spec::CudaGraphs::automatic};
}

bool tells_perplexity(const spec::JobSpec& spec, const JobSamples& samples) {
  return samples.are_of_tokens() && (!spec.model.is_users() || spec.model.loss == spec::Loss::cross_entropy);
}

TrainingJob::TrainingJob(const spec::JobSpec& spec, const data::DataPair& data, bool draws_weights, bool cuda_streams,
                         PythonSide python)
    : spec_(spec),
      samples_(spec, data),
      timetable_(spec, samples_.sampler().schedule(), data.test != nullptr),
      network_(spec, samples_, {draws_weights, timetable_.evaluates(), python}),
      manifest_(manifest_of(spec, samples_, timetable_)),
      optimizer_(optimizer_of(spec, network_.tensors(), cuda_streams)),
      schedules_(spec.schedule, optimizer_.groups(), timetable_.batches()),
      places_(lay_out(cuda_streams)) {
  name_digests();
  optim::check_length(spec.schedule, Step(timetable_.total_steps()), timetable_.batches());
}

bool TrainingJob::take_changes(const std::vector<batches::BatchChange>& recorded) {
  std::vector<batches::BatchChange> changes = spec_.elastic.changes;
  for (const batches::BatchChange& change : recorded) batches::add_change(changes, change);
  if (changes == timetable_.batches().changes) return false;
  samples_.change_batches(changes);
  manifest_.batches.changes = std::move(changes);
  manifest_.total_steps = timetable_.total_steps();
  optim::check_length(spec_.schedule, Step(timetable_.total_steps()), timetable_.batches());
  return true;
}

StatePlaces TrainingJob::lay_out(bool cuda_streams) {
  checkpoint::StateLayout& layout = manifest_.layout;
  const model::NamedTensors& tensors = network_.tensors();
  EstStreams streams{.cuda = cuda_streams};
  if (network_.interpreter() != nullptr) streams.python_bytes = network_.interpreter()->stream_bytes();
  // The members' initializers run in the order of the members, which is the order of the layout.
  StatePlaces places{.model = ModelPlaces(tensors, layout),
                     .optimizer = OptimizerPlaces(optimizer_, tensors, layout),
                     .ests = EstPlaces(spec_.job.ests, streams, layout),
                     .metrics = MetricPlaces(spec_, optimizer_.groups().groups.size(), timetable_.evaluates(), layout),
                     .averages = lay_out_averages(spec_, network_, layout),
                     .bytes = 0};
  places.bytes = layout.bytes;
  return places;
}

void TrainingJob::name_digests() {
  for (const auto& [name, tensor] : network_.tensors().parameters) {
    manifest_.digest_names.push_back(name);
    manifest_.parameter_count += tensor.numel();
  }
  for (const auto& [name, tensor] : network_.tensors().buffers) manifest_.digest_names.push_back(name);
  for (int64_t rank = 0; rank < spec_.job.ests; ++rank)
    manifest_.digest_names.push_back(fmt::format("est/{}/generator", rank));
}

comm::MemoryPlan TrainingJob::memory_plan() const {
  comm::MemoryPlan plan;
  plan.manifest = manifest_.to_json();
  plan.state_bytes = places_.bytes;
  plan.gradient_bytes = places_.model.parameters_bytes();
  plan.ests = spec_.job.ests;
  plan.parameters = static_cast<int64_t>(places_.model.num_parameters());
  plan.row_mark_words = places_.model.row_mark_words();
  plan.digests = static_cast<int64_t>(manifest_.words_of_record());
  plan.evaluation_samples = samples_.evaluated();
  plan.evaluation_columns = static_cast<int64_t>(metrics_of(spec_).columns());
  plan.evaluation_numbers = std::ssize(spec_.train.metrics_names);
  if (!spec_.train.metrics_file.empty()) plan.evaluation_numbers += comm::OutputMail::numbers;
  plan.ring_records = comm::records_of_ring;
  plan.audit_words = comm::AuditBoard::words_of_row(plan.parameters, static_cast<int64_t>(places_.model.num_buffers()),
                                                    est::generator_state_bytes() + est::cuda_generator_state_bytes);
  return plan;
}

GradientSum TrainingJob::gradient_sum() const {
  const bool is_d0 = spec_.job.determinism == spec::Determinism::d0;
  return {is_d0 ? comm::SumOrder::left_to_right : comm::SumOrder::tree, spec_.job.ests, manifest_.weighs};
}

}  // namespace estrain::train
