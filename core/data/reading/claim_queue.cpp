#include "core/data/reading/claim_queue.h"

#include <algorithm>

namespace estrain::data {

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

// Releases the lock while allocating memory, which may take long (page-locked memory), so that the consumer can
// continue.
void ClaimQueue::open_slot(std::unique_lock<std::mutex>& lock) {
  opening_ = true;
  lock.unlock();
  BatchPool::Lease buffer;
  std::exception_ptr failure;
  try {
    buffer = pool_->take();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  opening_ = false;
  try {
    if (failure) std::rethrow_exception(failure);
    const std::optional<BatchRequest> request = plan_.following();
    exhausted_ = !request;
    if (request) slots_.push_back({*request, std::move(buffer), 0, 0, nullptr});
  } catch (...) {
    exhausted_ = true;
    plan_failure_ = std::current_exception();
  }
  if (exhausted_) ready_.notify_all();
}

// Returns nothing for a reader that must end.
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

}  // namespace estrain::data
