#include "core/state/comm/meetings/sum_progress.h"

#include <algorithm>
#include <limits>

#include "core/state/comm/memory/futex.h"

namespace estrain::comm {
namespace {

constexpr uint32_t kNothing = std::numeric_limits<uint32_t>::max();  // no sum is ready

}  // namespace

void SumProgress::note_folded(WorkerRank worker, uint32_t parameters) {
  folded_[worker.value].parameters.store(parameters, std::memory_order_release);
}

uint32_t SumProgress::folded_by_all(size_t workers) const {
  uint32_t least = kNothing;
  for (size_t worker = 0; worker < workers; ++worker)
    least = std::min(least, folded_[worker].parameters.load(std::memory_order_acquire));
  return least;
}

bool SumProgress::is_summed(size_t begin) const {
  return words_.summed_from.load(std::memory_order_acquire) <= begin / floats_of_unit;
}

bool SumProgress::wait_summed(size_t begin) {
  for (;;) {
    const uint32_t from = words_.summed_from.load(std::memory_order_acquire);
    if (from <= begin / floats_of_unit) return true;
    if (words_.abort.load() != 0) return false;
    futex_wait(words_.summed_from, from, glance);
  }
}

void SumProgress::note_summed(size_t begin) {
  words_.summed_from.store(static_cast<uint32_t>(begin / floats_of_unit), std::memory_order_release);
  futex_wake_all(words_.summed_from);
}

void SumProgress::note_factors(WorkerRank worker, uint32_t factors) {
  folded_[worker.value].factors.store(factors, std::memory_order_release);
}

uint32_t SumProgress::factors_of(size_t worker) const {
  return folded_[worker].factors.load(std::memory_order_acquire);
}

bool SumProgress::wait_factors() {
  while (words_.factors_arrived.load(std::memory_order_acquire) == 0) {
    if (words_.abort.load() != 0) return false;
    futex_wait(words_.factors_arrived, 0, glance);
  }
  return true;
}

void SumProgress::note_factors_arrived() {
  words_.factors_arrived.store(1, std::memory_order_release);
  futex_wake_all(words_.factors_arrived);
}

void SumProgress::begin_step(size_t workers) {
  words_.summed_from.store(kNothing);
  words_.factors_arrived.store(0);
  for (size_t worker = 0; worker < workers; ++worker) {
    folded_[worker].parameters.store(0);
    folded_[worker].factors.store(0);
  }
}

void SumProgress::wake_all() {
  futex_wake_all(words_.summed_from);
  futex_wake_all(words_.factors_arrived);
}

}  // namespace estrain::comm
