#include "core/data/reading/read_ahead.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace estrain::data {
namespace {

// Blocks signals while threads are created: the threads inherit the mask, and only the main thread handles signals.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);  // of a shortened data file: files/mapped_files.h
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

// Adds the lengths of ragged arrays to the mini-batches of another plan.
class PaddedPlan : public BatchPlan {
 public:
  PaddedPlan(const Dataset& dataset, std::unique_ptr<BatchPlan> plan, bool pads_to_longest)
      : dataset_(dataset), plan_(std::move(plan)) {
    if (!pads_to_longest) return;
    for (const SampleShape::Field& part : dataset.shape().parts) longest_.push_back(part.is_ragged ? part.dims[0] : 0);
  }

  std::optional<BatchRequest> following() override {
    std::optional<BatchRequest> request = plan_->following();
    if (!request) return request;
    request->lengths = longest_;
    if (!longest_.empty()) return request;
    std::vector<int64_t> samples(static_cast<size_t>(request->size));
    plan_->indices(*request, 0, samples);
    request->lengths = dataset_.lengths_of(samples);
    return request;
  }
  void indices(const BatchRequest& request, int64_t first, std::span<int64_t> out) const override {
    plan_->indices(request, first, out);
  }
  SampleDraw draw(const BatchRequest& request, int64_t index, int64_t place) const override {
    return plan_->draw(request, index, place);
  }

 private:
  const Dataset& dataset_;
  const std::unique_ptr<BatchPlan> plan_;
  std::vector<int64_t> longest_;
};

}  // namespace

void ClaimQueue::want_readers(int64_t wanted) {
  {
    std::lock_guard lock(mutex_);
    wanted_ = wanted;
  }
  room_.notify_all();
}

void ClaimQueue::read_ahead(int64_t prefetch) {
  {
    std::lock_guard lock(mutex_);
    prefetch_ = prefetch;
  }
  room_.notify_all();
}

void ClaimQueue::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
}

std::optional<ClaimQueue::Slot> ClaimQueue::take() {
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  ready_.wait(lock,
              [this] { return slots_.empty() ? exhausted_ : slots_.front().finished == slots_.front().request.size; });
  if (slots_.empty()) {
    failure_ = plan_failure_;
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  Slot slot = std::move(slots_.front());
  slots_.pop_front();
  failure_ = slot.failure;
  lock.unlock();
  room_.notify_one();
  if (slot.failure) std::rethrow_exception(slot.failure);
  return slot;
}

bool ClaimQueue::is_ready() {
  std::lock_guard lock(mutex_);
  return !failure_ && !slots_.empty() && slots_.front().finished == slots_.front().request.size &&
         !slots_.front().failure;
}

// These two must be called with the lock held.
bool ClaimQueue::has_unclaimed() const { return !slots_.empty() && slots_.back().claimed < slots_.back().request.size; }
bool ClaimQueue::may_open() const {
  return !opening_ && !exhausted_ && static_cast<int64_t>(slots_.size()) < prefetch_;
}

// Releases the lock while allocating memory and asking the plan: the consumer can continue. Allocating page-locked
// memory may take long, and so may the order of an epoch, which the lengths of ragged arrays follow from.
void ClaimQueue::open_slot(std::unique_lock<std::mutex>& lock) {
  opening_ = true;
  lock.unlock();
  BatchPool::Lease buffer;
  std::optional<BatchRequest> request;
  std::exception_ptr failure;
  try {
    buffer = pool_->take();
    request = plan_.following();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  opening_ = false;
  exhausted_ = exhausted_ || !request || failure;
  plan_failure_ = failure;
  if (!exhausted_) slots_.push_back({std::move(*request), std::move(buffer), 0, 0, 0, nullptr});
  if (exhausted_) ready_.notify_all();
}

// Returns nothing if the reader must end.
std::optional<ClaimQueue::Claim> ClaimQueue::claim(int64_t reader) {
  std::unique_lock lock(mutex_);
  const auto is_to_end = [&] { return stop_ || reader >= wanted_; };
  while (true) {
    room_.wait(lock, [&] { return is_to_end() || has_unclaimed() || may_open(); });
    if (is_to_end()) return std::nullopt;
    if (has_unclaimed()) break;
    open_slot(lock);
  }
  Slot& slot = slots_.back();
  const int64_t share = (slot.request.size + wanted_ - 1) / wanted_;
  const Claim claimed{&slot, slot.claimed, std::min(share, slot.request.size - slot.claimed)};
  slot.claimed += claimed.count;
  if (wanted_ > 1 && (has_unclaimed() || may_open())) room_.notify_one();
  return claimed;
}

bool ClaimQueue::completes(const Claim& claimed) {
  std::lock_guard lock(mutex_);
  claimed.slot->filled += claimed.count;
  return claimed.slot->filled == claimed.slot->request.size;
}

void ClaimQueue::finish(const Claim& claimed, const std::exception_ptr& failure) {
  std::lock_guard lock(mutex_);
  Slot& slot = *claimed.slot;
  slot.finished += claimed.count;
  if (failure) {
    exhausted_ = true;
    if (!slot.failure) slot.failure = failure;
  }
  if (slot.finished == slot.request.size) ready_.notify_one();
}

ReadAhead::ReadAhead(const Dataset& dataset, std::unique_ptr<BatchPlan> plan, const Options& options)
    : dataset_(dataset),
      shape_(dataset.shape()),
      plan_(shape_.is_ragged() ? std::make_unique<PaddedPlan>(dataset, std::move(plan), options.pads_to_longest)
                               : std::move(plan)),
      queue_(*plan_, std::make_shared<BatchPool>(shape_, options.batch, options.memory), options.prefetch) {
  if (options.readers < 1 || options.prefetch < 1)
    throw Error::make(Fault::bug, "{} readers, {} batches ahead: both must be positive", options.readers,
                      options.prefetch);
  const ReaderTuning::Reading first{options.readers, options.prefetch};
  const ReaderTuning::Reading most{std::max(options.most_readers, options.readers),
                                   std::max(options.most_prefetch, options.prefetch)};
  if (most != first) tuning_.emplace(first, most);
  start_readers(options.readers);
}

ReadAhead::~ReadAhead() {
  queue_.stop();
  for (std::thread& reader : readers_) reader.join();
}

// Starts threads up to the number `wanted`, or ends surplus threads. If the system refuses more threads, the existing
// threads suffice: the number of threads does not affect the bits.
void ReadAhead::start_readers(int64_t wanted) {
  queue_.want_readers(wanted);
  for (; static_cast<int64_t>(readers_.size()) > wanted; readers_.pop_back()) readers_.back().join();
  queue_.wake_readers();  // a thread that just ended may have received another thread's wake-up
  const BlockedSignals blocked;
  for (int64_t number = static_cast<int64_t>(readers_.size()); number < wanted; ++number) {
    try {
      readers_.emplace_back([this, number] { read_claims(number); });
    } catch (const std::system_error& error) {
      if (readers_.empty()) throw estrain::system_error("cannot start a reader thread", error.code().value());
      queue_.want_readers(number);
      tuning_.reset();
      return;
    }
    pthread_setname_np(readers_.back().native_handle(), "estrain-reader");
  }
}

// Arguments: the times when the consumer requested and got a mini-batch.
void ReadAhead::tune(int64_t asked_ns, int64_t got_ns) {
  if (last_asked_ns_ != 0) {
    const auto [readers, prefetch] = tuning_->observe(seconds(got_ns - asked_ns), seconds(asked_ns - last_asked_ns_));
    if (prefetch != queue_.prefetch()) queue_.read_ahead(prefetch);
    if (readers != static_cast<int64_t>(readers_.size())) start_readers(readers);
  }
  last_asked_ns_ = asked_ns;
}

std::optional<LoadedBatch> ReadAhead::next() {
  const int64_t asked_ns = tuning_ ? monotonic_ns() : 0;
  std::optional<ClaimQueue::Slot> slot = queue_.take();
  if (!slot) return std::nullopt;
  if (tuning_) tune(asked_ns, monotonic_ns());
  return LoadedBatch(slot->request, shape_, std::move(slot->buffer));
}

void ReadAhead::read_claims(int64_t number) {
  while (const std::optional<ClaimQueue::Claim> claimed = queue_.claim(number)) {
    std::exception_ptr failure;
    try {
      fill(*claimed);
      mix(*claimed);
    } catch (...) {
      failure = std::current_exception();
    }
    queue_.finish(*claimed, failure);
  }
}

// The reader of a mini-batch's last samples mixes its images.
void ReadAhead::mix(const ClaimQueue::Claim& claimed) {
  const BatchRequest& request = claimed.slot->request;
  if (!request.mix || !queue_.completes(claimed)) return;
  mix_images(*request.mix, shape_, request.size, reinterpret_cast<float*>(claimed.slot->buffer->input()));
}

void ReadAhead::fill(const ClaimQueue::Claim& claimed) const {
  const ClaimQueue::Slot& slot = *claimed.slot;
  BatchBuffer& buffer = *slot.buffer;
  const std::span indices(buffer.indices() + claimed.first, static_cast<size_t>(claimed.count));
  plan_->indices(slot.request, claimed.first, indices);
  SampleRun run{.indices = indices,
                .draw =
                    [&](int64_t index, size_t place) {
                      return plan_->draw(slot.request, index, claimed.first + static_cast<int64_t>(place));
                    },
                .out = {},
                .targets = buffer.targets() + claimed.first * shape_.targets(),
                .is_abandoned = [this] { return queue_.is_stopped(); }};
  run.lengths = slot.request.lengths;
  const SampleShape shape = shape_.with_lengths(run.lengths);
  const size_t arrays = shape.kind == SampleShape::Kind::fields ? shape.parts.size() : 1;
  for (size_t i = 0; i < arrays; ++i) {
    std::byte* first = shape.kind == SampleShape::Kind::fields ? buffer.field(i) : buffer.input();
    run.out.push_back(first + static_cast<size_t>(claimed.first) * shape.bytes_of_input(i));
  }
  dataset_.read_run(run);
}

}  // namespace estrain::data
