#include "core/train/stage.h"

#include <unistd.h>

#include <cstring>
#include <thread>

#include "core/base/clock.h"
#include "core/data/evaluation.h"
#include "core/est/generator.h"
#include "core/operators/random_stream.h"
#include "core/train/batch_tensors.h"
#include "core/train/initial_state.h"
#include "core/train/operator_scan.h"
#include "kernels/digest.h"

namespace estrain::train {
namespace {

data::LoaderOptions loader_options(const Job& job, int64_t from_step) {
  data::LoaderOptions options;
  options.readers = job.spec().data.readers;
  options.prefetch = job.spec().data.prefetch;
  options.seed = static_cast<uint64_t>(job.spec().job.seed);
  options.steps = std::max<int64_t>(0, job.manifest().total_steps - from_step);
  return options;
}

// Looking at the word again and again is only quick if nobody else waits for the core.
int spins(const StageOrder& order) { return order.workers() <= std::thread::hardware_concurrency() ? 2000 : 0; }

// The mean of the ESTs' losses: each times 1/N, summed by the tree of the gradients.
float tree_mean(const float* losses, int64_t lo, int64_t hi, float factor) {
  if (hi - lo == 1) return losses[lo] * factor;
  int64_t half = 1;
  while (2 * half < hi - lo) half *= 2;
  return tree_mean(losses, lo, lo + half, factor) + tree_mean(losses, lo + half, hi, factor);
}

}  // namespace

Stage::Stage(Workplace& place, StageOrder order)
    : place_(place),
      job_(place.job),
      memory_(place.memory),
      order_(std::move(order)),
      gradients_(job_, memory_, order_),
      updater_(job_, memory_, gradients_, order_),
      loader_(*job_.data().train, job_.sampler(), order_.own(),
              job_.sampler().cursor_at(Step(memory_.header().committed.load())),
              loader_options(job_, memory_.header().committed.load())),
      gathered_(memory_.header().gathered, memory_.header().abort, order_.workers(), spins(order_)),
      summed_(memory_.header().summed, memory_.header().abort, order_.workers(), spins(order_)),
      finished_(memory_.header().finished, memory_.header().abort, order_.workers(), spins(order_)),
      evaluated_(memory_.header().evaluated, memory_.header().abort, order_.workers(), spins(order_)) {
  if (order_.restarted && job_.spec().job.determinism == spec::Determinism::d0) {
    seed_generators(job_, order_.own(), memory_.committed_state());
  }
}

Stage::Left Stage::run() {
  comm::MemoryHeader& header = memory_.header();
  for (;;) {
    const int64_t now = header.committed.load();
    if (now >= job_.manifest().total_steps) return Left::finished;
    if (now == header.stage_end.load()) return Left::paused;
    if (!step(now)) return Left::aborted;
    if (job_.evaluates_after(now + 1) && !evaluate(now + 1)) return Left::aborted;
  }
}

bool Stage::step(int64_t step) {
  if (!memory_.wait_writable(step + 1)) return false;
  place_.model.read_parameters_of(step);
  updater_.begin_step(step);
  const size_t num_ests = static_cast<size_t>(order_.own().size());
  for (size_t arrival = 0; arrival < num_ests; ++arrival) run_est(arrival, step);
  if (!updater_.in_hooks()) {
    if (!gathered_.meet() || !updater_.update_all(summed_)) return false;
  }
  return finished_.meet([&] {
    commit(step);
    return memory_.header().abort.load() == 0;
  });
}

void Stage::run_est(size_t arrival, int64_t step) {
  std::byte* old_state = memory_.state(static_cast<int>(step & 1));
  std::byte* new_state = memory_.state(static_cast<int>((step + 1) & 1));
  const data::Batch batch = loader_.next();
  const int64_t rank = batch.rank().value;
  est::switch_generator_in(job_.generator(old_state, rank));
  operators::begin_random_stream(seed(), static_cast<uint32_t>(rank), static_cast<uint64_t>(step));
  place_.model.load_buffers(old_state);
  if (!begun_) {
    begun_ = true;
    memory_.header().stage_started_ns.store(monotonic_ns());
    memory_.header().stage_started.fetch_add(1);
  }
  const torch::Tensor loss = job_.model().loss(as_tensors(batch));
  const bool last = arrival + 1 == static_cast<size_t>(order_.own().size());
  if (last && updater_.in_hooks()) {
    place_.hooks.backward(
        loss, [&](size_t parameter, const float* gradient) { updater_.update_in_hook(parameter, gradient); });
  } else {
    place_.hooks.backward(
        loss, [&](size_t parameter, const float* gradient) { gradients_.fold(arrival, parameter, gradient); });
  }
  comm::RecordView record = comm::pending_record(memory_);
  record.est_losses[rank] = loss.item<float>();
  *job_.last_loss(new_state, rank) = record.est_losses[rank];
  est::switch_generator_out(job_.generator(new_state, rank));
  const size_t num_tensors = job_.parameters().size() + job_.buffers().size();
  record.digests[num_tensors + static_cast<size_t>(rank)].store(
      kernels::digest(job_.generator(new_state, rank), est::generator_state_bytes()));
  if (rank != 0) return;
  place_.model.store_buffers(new_state);  // rank 0's are everyone's at the next step
  for (size_t i = 0; i < job_.buffers().size(); ++i) {
    const std::byte* values = job_.buffers(new_state) + job_.buffer_offset(i);
    record.digests[job_.parameters().size() + i].store(kernels::digest(values, job_.buffers()[i].nbytes()));
  }
}

// By the last worker to arrive, while all others wait.
void Stage::commit(int64_t step) {
  comm::MemoryHeader& header = memory_.header();
  comm::RecordView record = comm::pending_record(memory_);
  const int64_t ests = header.ests;
  record.head->kind = comm::RecordKind::step;
  record.head->step = step + 1;
  record.head->epoch = job_.manifest().epoch_at(step);
  record.head->time_ns = monotonic_ns();
  record.head->lr = job_.learning_rates(step)[0];
  record.head->loss = tree_mean(record.est_losses, 0, ests, 1.0f / static_cast<float>(ests));
  header.next_sum.store(0);
  header.next_update.store(0);
  if (!comm::publish_record(memory_)) return;
  header.committed.store(step + 1);
  if (job_.saves_after(step + 1)) memory_.hold(step + 1);
  if (job_.saves_after(step + 1) || header.published.load() - header.drained.load() > header.ring_records / 2)
    ring_doorbell();
  if (header.pause_request.load() != 0) {
    header.stopped_ns.store(monotonic_ns());
    header.stage_end.store(step + 1);
  }
}

// Each worker takes every W-th batch of the test set; results lie by sample, so their sum does not depend on who did
// what.
bool Stage::evaluate(int64_t step) {
  place_.model.read_parameters_of(step);
  place_.model.load_buffers(memory_.state(static_cast<int>(step & 1)));
  operators::begin_random_stream(seed(), operators::evaluation_stream, static_cast<uint64_t>(step));
  data::EvaluationOptions options;
  options.batch = job_.spec().train.eval_batch;
  options.first = order_.worker.value;
  options.stride = order_.workers();
  options.readers = job_.spec().data.readers;
  options.prefetch = job_.spec().data.prefetch;
  data::Evaluation evaluation(*job_.data().test, options);
  while (auto batch = evaluation.next()) {
    const model::Evaluation result = job_.model().evaluate(as_tensors(*batch));
    const int64_t first = batch->number() * options.batch;
    const torch::Tensor losses = result.losses.contiguous(), correct = result.correct.to(torch::kInt).contiguous();
    std::memcpy(memory_.evaluation_losses() + first, losses.const_data_ptr(), losses.nbytes());
    std::memcpy(memory_.evaluation_correct() + first, correct.const_data_ptr(), correct.nbytes());
  }
  return evaluated_.meet([&] {
    publish_evaluation(step);
    return memory_.header().abort.load() == 0;
  });
}

void Stage::publish_evaluation(int64_t step) {
  const int64_t samples = memory_.header().evaluation_samples;
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < samples; ++i) {
    loss += static_cast<double>(memory_.evaluation_losses()[i]);
    correct += memory_.evaluation_correct()[i];
  }
  comm::RecordHead& head = *comm::pending_record(memory_).head;
  head.kind = comm::RecordKind::evaluation;
  head.step = step;
  head.epoch = job_.manifest().epoch_at(step - 1);
  head.time_ns = monotonic_ns();
  head.predictions = samples * job_.data().test->shape().targets();
  head.loss = loss / static_cast<double>(samples);
  head.accuracy = static_cast<double>(correct) / static_cast<double>(head.predictions);
  comm::publish_record(memory_);
  ring_doorbell();
}

void Stage::ring_doorbell() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(place_.doorbell, &one, sizeof one);
}

uint64_t Stage::seed() const { return static_cast<uint64_t>(job_.spec().job.seed); }

void warm_up(Workplace& place) {
  Job& job = place.job;
  operators::begin_random_stream(0, operators::warming_stream, 0);
  const std::byte* state = place.memory.committed_state();
  place.model.read_parameters_of(place.memory.header().committed.load());
  place.model.load_buffers(state);
  const data::Batch batch = first_batch(job);
  place.hooks.backward(job.model().loss(as_tensors(batch)), [](size_t, const float*) {});
}

}  // namespace estrain::train
