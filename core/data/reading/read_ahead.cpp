#include "core/data/reading/read_ahead.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace estrain::data {
namespace {

// Blocks signals while threads are created: they inherit the mask, and only the main thread handles signals.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);  // of a data file that became shorter: files/mapped_files.h
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

ReadAhead::ReadAhead(const Dataset& dataset, std::unique_ptr<BatchPlan> plan, const Options& options)
    : dataset_(dataset),
      shape_(dataset.shape()),
      plan_(std::move(plan)),
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

// Starts threads until there are `wanted`, or ends surplus ones. If the system refuses more threads, the existing ones
// suffice: their number does not affect the bits.
void ReadAhead::start_readers(int64_t wanted) {
  queue_.want_readers(wanted);
  for (; static_cast<int64_t>(readers_.size()) > wanted; readers_.pop_back()) readers_.back().join();
  queue_.wake_readers();  // a thread that just ended may have received a wake-up meant for another
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

// Arguments: the times when the consumer requested a mini-batch and got it.
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
    } catch (...) {
      failure = std::current_exception();
    }
    queue_.finish(*claimed, failure);
  }
}

void ReadAhead::fill_fields(const ClaimQueue::Claim& claimed) const {
  BatchBuffer& buffer = *claimed.slot->buffer;
  const int64_t* indices = buffer.indices() + claimed.first;
  std::vector<std::byte*> out(shape_.parts.size());
  for (int64_t i = 0; i < claimed.count && !queue_.is_stopped(); ++i) {
    for (size_t part = 0; part < out.size(); ++part)
      out[part] = buffer.field(part) + static_cast<size_t>(claimed.first + i) * shape_.parts[part].bytes();
    dataset_.read_fields(indices[i], plan_->draw(claimed.slot->request, indices[i]), out);
  }
}

void ReadAhead::fill(const ClaimQueue::Claim& claimed) const {
  const ClaimQueue::Slot& slot = *claimed.slot;
  int64_t* indices = slot.buffer->indices() + claimed.first;
  std::byte* input = slot.buffer->input() + static_cast<size_t>(claimed.first) * shape_.input_bytes();
  int64_t* targets = slot.buffer->targets() + claimed.first * shape_.targets();
  plan_->indices(slot.request, claimed.first, {indices, static_cast<size_t>(claimed.count)});
  if (shape_.kind == SampleShape::Kind::fields) return fill_fields(claimed);
  for (int64_t i = 0; i < claimed.count && !queue_.is_stopped(); ++i) {
    dataset_.read(indices[i], plan_->draw(claimed.slot->request, indices[i]), input, targets);
    input += shape_.input_bytes();
    targets += shape_.targets();
  }
}

}  // namespace estrain::data
