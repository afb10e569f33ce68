#include "core/train/stage.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "core/base/clock.h"
#include "core/base/cpu_affinity.h"
#include "core/comm/tree_cut.h"
#include "core/spec/defaults.h"
#include "core/train/early_stop.h"
#include "core/train/evaluation.h"
#include "core/train/exchanged_update.h"
#include "core/train/learning_rates.h"
#include "core/train/nonfinite_search.h"
#include "core/train/operator_scan.h"
#include "core/train/resident_update.h"
#include "core/train/shared_update.h"
#include "core/train/waiting.h"

namespace estrain::train {
namespace {

constexpr int64_t kMostReaders = 16;                            // where their number is to be found
constexpr int64_t kLongestMeetingNs = INT64_C(60'000'000'000);  // then nobody seems to come
constexpr int64_t kStepsInSharedMemory = 16;                    // from one that was looked into on

data::LoaderOptions loader_options(const Job& job, const device::Device& device, int64_t from_step) {
  data::LoaderOptions options;
  options.readers = std::max<int64_t>(1, job.spec().data.readers);
  if (job.spec().data.readers == 0) options.most_readers = std::min<int64_t>(kMostReaders, cpus_of_affinity());
  const auto batch_bytes = static_cast<uint64_t>(job.sampler().batch()) * job.data().train->shape().bytes();
  options.prefetch = spec::first_prefetch(job.spec().data);
  options.most_prefetch = spec::most_prefetch(job.spec().data, batch_bytes);
  options.seed = static_cast<uint64_t>(job.spec().job.seed);
  options.steps = std::max<int64_t>(0, job.manifest().total_steps - from_step);
  options.memory = device.host_memory();
  return options;
}

// Looking at the word again and again is only quick if nobody else waits for the core.
int spins(const StageOrder& order) { return order.workers() <= std::thread::hardware_concurrency() ? 2000 : 0; }

// Which of its NaNs an operation gives depends on the instruction set; records and checkpoints hold one.
float one_nan(float value) { return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value; }

// The mean of the ESTs' losses: each times 1/N, summed by the tree of the gradients.
float tree_mean(const float* losses, int64_t lo, int64_t hi, float factor) {
  if (hi - lo == 1) return losses[lo] * factor;
  const int64_t middle = comm::middle_of(lo, hi);
  return tree_mean(losses, lo, middle, factor) + tree_mean(losses, middle, hi, factor);
}

// Whether the state can lie in the memory of the stage's devices: each worker has one of its own, and they pass data to
// each other; buffers are whole 32-bit words.
bool can_be_resident(const Workplace& place, const StageOrder& order) {
  return !place.device.torch_device().is_cpu() && (order.workers() == 1 || order.exchanges) &&
         std::ranges::all_of(place.job.buffers(), [](const torch::Tensor& buffer) { return buffer.nbytes() % 4 == 0; });
}

// This worker's end of the exchange with the others. Null on abort.
std::unique_ptr<device::Exchange> meet_workers(Workplace& place, const StageOrder& order) {
  comm::JobMemory& memory = place.memory;
  const auto worker = static_cast<uint32_t>(order.worker.value);
  comm::WorkerPulse& pulse = memory.pulse(order.worker.value);
  const int64_t begun = monotonic_ns();
  const auto beat = [&pulse, begun] {
    const int64_t now = monotonic_ns();
    if (now - begun < kLongestMeetingNs) pulse.beat(comm::Activity::meeting, now);
  };
  device::ExchangeId id;
  if (worker == 0) memory.set_exchange_id(place.device.new_exchange());
  if (!memory.wait_exchange_id(&id)) return nullptr;
  return place.device.open_exchange(id, {worker, order.workers(), memory.header().abort, beat});
}

}  // namespace

Stage::Stage(Workplace& place, StageOrder order)
    : place_(place),
      job_(place.job),
      memory_(place.memory),
      order_(std::move(order)),
      pulse_(memory_.pulse(order_.worker.value)),
      loader_(*job_.data().train, job_.sampler(), order_.own(),
              job_.sampler().cursor_at(Step(memory_.header().committed.load())),
              loader_options(job_, place_.device, memory_.header().committed.load())),
      feed_(loader_, place_.device),
      can_be_resident_(can_be_resident(place_, order_)),
      finished_(memory_.header().finished, memory_.header().abort, order_.workers(), spins(order_)),
      saved_(memory_.header().saved, memory_.header().abort, order_.workers(), spins(order_)),
      evaluated_(memory_.header().evaluated_by_all, memory_.header().abort, order_.workers(), spins(order_)),
      begun_(order_.again) {
  if (!order_.again) {
    const bool seeds = order_.restarted && job_.spec().job.determinism == spec::Determinism::d0;
    place_.seeded_step = seeds ? std::optional(memory_.header().committed.load()) : std::nullopt;
  }
  place_.resident.reset();
  const bool resident = can_be_resident_ && !looks_closely();
  if (resident && order_.workers() > 1 && !place_.exchange) {
    pulse_.beat(comm::Activity::meeting, monotonic_ns());
    place_.exchange = meet_workers(place_, order_);
    pulse_.beat(comm::Activity::computing, monotonic_ns());
    if (!place_.exchange) return;
  }
  if (resident) place_.resident = std::make_unique<ResidentState>(job_, memory_, place_.device);
  place_.model.show(place_.resident.get());
  saved_ns_ = monotonic_ns();
  if (!resident) {
    auto update = std::make_unique<SharedUpdate>(place_, order_, pulse_, spins(order_));
    shared_update_ = update.get();
    update_ = std::move(update);
  } else if (order_.workers() == 1) {
    part_ = whole_state();
    update_ = std::make_unique<ResidentUpdate>(place_, order_);
  } else {
    auto update = std::make_unique<ExchangedUpdate>(place_, order_, pulse_, spins(order_));
    part_ = update->saved_part();
    update_ = std::move(update);
  }
}

Stage::~Stage() {
  if (place_.trace != nullptr) place_.trace->finish();
  if (!goes_on_) place_.exchange.reset();
}

SavedPart Stage::whole_state() const { return {.regions = {{0, job_.layout().bytes}}, .ests = order_.own()}; }

// Whether a step that was not finite is being trained again, or the ones behind it.
bool Stage::looks_closely() { return memory_.header().trained.load() < memory_.header().shared_until.load(); }

Stage::Left Stage::run() {
  const Left left = train();
  goes_on_ = left == Left::again;
  return left;
}

Stage::Left Stage::train() {
  comm::MemoryHeader& header = memory_.header();
  if (!update_) return Left::aborted;
  const device::FinishAtEnd finish(place_.device);
  for (;;) {
    if (can_be_resident_ && looks_closely() == (place_.resident != nullptr)) return Left::again;
    const int64_t now = header.trained.load();
    // Also where a stage before this one was cut off between a step and its evaluation.
    if (needs_evaluation(job_, memory_, now) && !evaluate(now)) return Left::aborted;
    if (now >= job_.manifest().total_steps) return Left::finished;
    if (ends_early(job_, memory_, now, place_.host_state(now))) return Left::finished;
    if (now == header.stage_end.load()) return Left::paused;
    if (!traced_step(now)) return Left::aborted;
  }
}

bool Stage::traced_step(int64_t step) {
  if (place_.trace == nullptr) return this->step(step);
  place_.trace->begin_step(step + 1, order_.worker);
  const bool done = this->step(step);
  if (place_.trace->end_step(step + 1)) memory_.header().progress_ns.store(monotonic_ns());
  return done;
}

bool Stage::step(int64_t step) {
  if (!place_.resident && !memory_.is_writable(step + 1)) {
    if (!waiting(pulse_, comm::Activity::waiting_for_scribe, [&] { return memory_.wait_writable(step + 1); }))
      return false;
    memory_.header().progress_ns.store(monotonic_ns());
  }
  place_.model.read_parameters_of(step);
  update_->begin_step(step);
  if (!run_ests(step) || !combine(step)) return false;
  place_.require_memory();
  if (place_.resident) keep_schedule(job_, memory_, step, place_.host_state(step), place_.host_state(step + 1));
  const auto last_to_arrive = [&] {
    commit(step);
    return memory_.header().abort.load() == 0;
  };
  return waiting(pulse_, comm::Activity::meeting, [&] { return finished_.meet(last_to_arrive); }) &&
         save_if_wanted(step + 1) && !was_refused(step);
}

// False: the stage was aborted; what was done is done again.
bool Stage::run_ests(int64_t step) {
  int64_t begin = monotonic_ns();
  for (size_t arrival = 0; arrival < static_cast<size_t>(order_.own().size()); ++arrival) {
    if (memory_.header().abort.load() != 0) return false;
    run_est(arrival, step);
    const int64_t waited = arrival + 1 == static_cast<size_t>(order_.own().size()) ? update_->complete() : 0;
    const int64_t end = monotonic_ns();
    pulse_.computing_ns.fetch_add(end - begin - waited, std::memory_order_relaxed);
    pulse_.mini_batches.fetch_add(1, std::memory_order_relaxed);
    pulse_.beat(comm::Activity::computing, end);
    begin = end;
  }
  return true;
}

// A GPU that trains alone goes on with the first EST of the next step while the host waits for the results of this one
// and commits it. Its state is there for the device; who leaves instead of training it leaves no trace of what was
// begun. A worker among several does not: it may wait for others, and what its mini-batches take would be less than
// they do.
bool Stage::combine(int64_t step) {
  if (!place_.resident || order_.workers() > 1) return update();
  const int64_t begin = monotonic_ns();
  begin_ahead(step + 1);
  const bool done = update();
  pulse_.computing_ns.fetch_add(monotonic_ns() - begin, std::memory_order_relaxed);
  return done;
}

bool Stage::update() {
  RECORD_USER_SCOPE("update");
  return update_->combine();
}

// The next EST of this worker's.
Stage::BegunEst Stage::begin_est(int64_t step) {
  waiting(pulse_, comm::Activity::reading, [&] {
    feed_.read();
    return true;
  });
  const DeviceBatch batch = feed_.next();
  if (!begun_) {
    begun_ = true;
    memory_.header().stage_started_ns.store(monotonic_ns());
    memory_.header().stage_started.fetch_add(1);
  }
  return {step, begin_pass(place_, batch, step)};
}

void Stage::begin_ahead(int64_t step) {
  const comm::MemoryHeader& header = memory_.header();
  const bool goes_on = step < job_.manifest().total_steps && !job_.evaluates_after(step) &&
                       header.pause_request.load() == 0 && header.abort.load() == 0;
  if (!goes_on || !feed_.look_ahead()) return;
  place_.model.read_parameters_of(step);
  ahead_ = begin_est(step);
  feed_.look_ahead();
}

// Asks the device for all that the EST's mini-batch gives; it is there when the device has finished.
void Stage::run_est(size_t arrival, int64_t step) {
  std::byte* new_state = place_.host_state(step + 1);
  std::optional<BegunEst> est = std::exchange(ahead_, std::nullopt);
  if (!est) est = begin_est(step);
  if (est->step != step) throw Error::make(Fault::bug, "step {} was begun in place of {}", est->step, step);
  const int64_t rank = est->pass.rank.value;
  const torch::Tensor loss =
      end_pass(est->pass, {[this, arrival](const torch::Tensor& with_graph) { update_->backward(arrival, with_graph); },
                           [this, arrival](const Gradients& gradients) { update_->take(arrival, gradients); }});
  est.reset();
  comm::RecordView record = comm::pending_record(memory_);
  const size_t num_tensors = job_.parameters().size() + job_.buffers().size();
  record.digests[num_tensors + static_cast<size_t>(rank)].store(save_streams(place_, step, rank));
  place_.device.read(loss, [this, new_state, rank](const float* value) {
    comm::pending_record(memory_).est_losses[rank] = *job_.last_loss(new_state, rank) = one_nan(*value);
    pulse_.beat(comm::Activity::computing, monotonic_ns());
  });
  if (rank == 0) update_->keep_buffers();  // everyone's at the next step
  feed_.look_ahead();
}

// By the last worker to arrive, while all others wait.
void Stage::commit(int64_t step) {
  comm::MemoryHeader& header = memory_.header();
  comm::RecordView record = comm::pending_record(memory_);
  const int64_t ests = header.ests;
  if (!is_finite(record)) {
    if (place_.resident) return look_closely(step);
    if (!handle_nonfinite(step)) return;
  }
  record.head->kind = comm::RecordKind::step;
  record.head->step = step + 1;
  record.head->epoch = job_.manifest().epoch_at(step);
  record.head->time_ns = monotonic_ns();
  const int64_t took = record.head->time_ns - header.progress_ns.exchange(record.head->time_ns);
  if (took > header.longest_step_ns.load()) header.longest_step_ns.store(took);
  const double lr = learning_rates(job_, memory_, step, place_.host_state(step))[0];
  record.head->lr = lr;
  record.head->loss = one_nan(tree_mean(record.est_losses, 0, ests, 1.0f / static_cast<float>(ests)));
  header.next_sum.store(0);
  header.next_update.store(0);
  pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());  // where the ring is full, or a hold still stands
  if (!place_.resident) {
    keep_schedule(job_, memory_, step, place_.host_state(step), place_.host_state(step + 1));
    header.lr[(step + 1) & 1].store(lr);  // before the record, with which the step may be committed (repair())
    header.whole.store(step + 1);
  }
  if (!comm::publish_record(memory_)) return;
  header.progress_ns.store(monotonic_ns());
  if (!place_.resident) header.committed.store(step + 1);
  header.trained.store(step + 1);
  if (!place_.resident || !decide_save(step + 1)) settle(step + 1);
}

// What a step is followed by, once its state is where it is kept: the scribe reads it, the stage ends.
void Stage::settle(int64_t step) {
  comm::MemoryHeader& header = memory_.header();
  const bool stands = header.committed.load() == step;
  if (stands && job_.saves_after(step)) {
    pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());
    memory_.hold(step);
    header.progress_ns.store(monotonic_ns());
  }
  if (job_.saves_after(step) || header.published.load() - header.drained.load() > header.ring_records / 2)
    ring_doorbell();
  if (stands && header.pause_request.load() != 0) {
    header.stopped_ns.store(monotonic_ns());
    header.stage_end.store(step);
  }
}

// By the last worker to arrive: whether the state goes from the GPUs to shared memory. At once where somebody will read
// it after this step, else now and then, beside the next step. The committed copy is never written, so of two
// steps in a row one can be saved: a pause may be answered a step later, and before a step that must be saved the one
// before it is, where that frees its copy. Returns whether everybody waits for it, and settles the step then.
bool Stage::decide_save(int64_t step) {
  comm::MemoryHeader& header = memory_.header();
  const ResidentState& state = *place_.resident;
  const auto must_be_saved = [&](int64_t at) {
    const bool may_be_last = at == job_.manifest().total_steps || (job_.may_end_early() && job_.evaluates_after(at));
    return job_.saves_after(at) || may_be_last;
  };
  const bool now = header.pause_request.load() != 0 || must_be_saved(step);
  const bool clears = must_be_saved(step + 1) && !state.can_save(step + 1);
  const bool due = monotonic_ns() - saved_ns_ > ns_between_saves(state.last_save_ns());
  if (!(now || clears || due) || !state.can_save(step)) return false;
  header.saved_parts.store(0);
  header.save_waits.store(now ? 1 : 0);
  header.save_step.store(step);
  return now;
}

// Of the update that made `step`.
double Stage::lr_before(int64_t step) {
  return job_.follows_metric() ? job_.plateau(place_.host_state(step))[3] : job_.learning_rates(step - 1)[0];
}

// This worker's part of what was decided. False on abort.
bool Stage::save_if_wanted(int64_t step) {
  comm::MemoryHeader& header = memory_.header();
  if (!place_.resident || header.save_step.load() != step || header.trained.load() != step) return true;
  saved_ns_ = monotonic_ns();
  if (!memory_.is_writable(step) &&
      !waiting(pulse_, comm::Activity::waiting_for_scribe, [&] { return memory_.wait_writable(step); }))
    return false;
  if (!place_.resident->save(step, lr_before(step), part_)) return false;
  if (header.save_waits.load() == 0) return true;
  place_.device.finish();
  const auto last_to_arrive = [&] {
    settle(step);
    return header.abort.load() == 0;
  };
  return waiting(pulse_, comm::Activity::meeting, [&] { return saved_.meet(last_to_arrive); });
}

bool Stage::is_finite(const comm::RecordView& record) const {
  return record.head->suspect == comm::Nonfinite::Where::nowhere &&
         std::all_of(record.est_losses, record.est_losses + memory_.header().ests,
                     [](float loss) { return std::isfinite(loss); });
}

// By the last worker to arrive: what is not finite in a step is found, and left out, in shared memory. All go back to
// the state there, and train the steps since once more.
void Stage::look_closely(int64_t step) {
  memory_.header().shared_until.store(step + kStepsInSharedMemory);
  memory_.repair();
}

// Instead of a step's update, by the last worker to arrive. False: the step is not to be committed.
bool Stage::handle_nonfinite(int64_t step) {
  comm::RecordHead& head = *comm::pending_record(memory_).head;
  const comm::Nonfinite found = find_nonfinite(place_, *shared_update_, step, pulse_);
  if (memory_.header().abort.load() != 0) return false;
  head.left_out = found;
  if (job_.spec().train.nonfinite == spec::NonfinitePolicy::stop) return false;
  shared_update_->leave_out();
  return true;
}

// After the meeting: whether the step was found to be one that nobody commits. The worker whose EST it is says so. A
// step whose update is left out is not: where it is not committed the stage was aborted first, and it is done again.
bool Stage::was_refused(int64_t step) {
  if (job_.spec().train.nonfinite != spec::NonfinitePolicy::stop) return false;
  if (memory_.header().trained.load() != step) return false;
  const comm::Nonfinite found = comm::pending_record(memory_).head->left_out;
  if (found.where == comm::Nonfinite::Where::nowhere) return false;
  const VirtualRank rank(std::max<int64_t>(found.rank, 0));
  if (order_.own().contains(rank)) throw nonfinite_error(job_, step, found);
  return true;
}

bool Stage::evaluate(int64_t step) {
  if (job_.evaluates_average()) {
    place_.model.read_averages_of(step);
  } else {
    place_.model.read_parameters_of(step);
  }
  place_.model.load_buffers(step);
  if (!evaluate_share(place_, order_, step)) return false;
  place_.require_memory();
  const auto last_to_arrive = [&] {
    pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());
    if (!publish_evaluation(place_, step)) return false;
    ring_doorbell();
    return memory_.header().abort.load() == 0;
  };
  return waiting(pulse_, comm::Activity::meeting, [&] { return evaluated_.meet(last_to_arrive); });
}

void Stage::ring_doorbell() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(place_.doorbell, &one, sizeof one);
}

void warm_up(Workplace& place) {
  place.model.read_parameters_of(place.memory.header().committed.load());
  place.model.load_buffers(place.memory.header().committed.load());
  Trial{place.job, place.hooks, place.device}.run(first_batch(place.job));
}

}  // namespace estrain::train
