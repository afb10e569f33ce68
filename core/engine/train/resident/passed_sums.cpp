#include "core/engine/train/resident/passed_sums.h"

#include <algorithm>

namespace estrain::train {

PassedSums::PassedSums(const GradientSum& sum, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
                       comm::JobMemory& memory, device::ComputeDevice& device)
    : shares_(shares), sums_(sums), memory_(memory), tree_(sum.finish(order.ranges)) {
  std::vector<int64_t> first_slot;
  int64_t slots = 0;
  for (const EstRange& range : order.ranges) {
    first_slot.push_back(slots);
    slots += sum.fold(range).passed_on;
  }
  for (const comm::FinishPlan::Source& source : tree_.sources) {
    const auto worker = static_cast<uint32_t>(source.worker.value);
    const int64_t slot = first_slot[worker] + source.slot;
    if (worker == shares_.worker()) {
      sources_.push_back({worker, slot, sums_.values(source.slot)});
      continue;
    }
    received_.push_back(new_floats(shares_.packed_floats(), device));
    sources_.push_back({worker, slot, received_.back().mutable_data_ptr<float>()});
  }
}

void PassedSums::show_presence(size_t parameter) {
  int own_slot = 0;
  for (const PassedSum& source : sources_) {
    if (source.worker != shares_.worker()) continue;
    const bool present = sums_.present(own_slot, parameter);
    memory_.gradients()[source.slot].presence[parameter] = present ? 1 : 0;
    if (!present) sums_.clear(own_slot, parameter);
    ++own_slot;
  }
}

bool PassedSums::reached(size_t parameter) const {
  return std::ranges::any_of(
      sources_, [&](const PassedSum& source) { return memory_.gradients()[source.slot].presence[parameter] != 0; });
}

float* PassedSums::own_part(const PassedSum& source, size_t bucket) const {
  const bool is_own = source.worker == shares_.worker();
  return source.values + (is_own ? shares_.own(bucket).begin : shares_.packed_at(bucket));
}

void PassedSums::add_transfers(size_t bucket, std::vector<device::Transfer>& sends,
                               std::vector<device::Transfer>& receives) const {
  const size_t own_bytes = shares_.own(bucket).size() * sizeof(float);
  for (const PassedSum& source : sources_) {
    if (source.worker != shares_.worker()) {
      if (own_bytes > 0) receives.push_back({source.worker, own_part(source, bucket), own_bytes});
      continue;
    }
    for (uint32_t peer = 0; peer < shares_.workers(); ++peer) {
      const BucketRange theirs = shares_.share(bucket, peer);
      if (peer != shares_.worker() && theirs.size() > 0)
        sends.push_back({peer, source.values + theirs.begin, theirs.size() * sizeof(float)});
    }
  }
}

void PassedSums::finish(size_t bucket, float* whole, const kernels::DeviceQueue& queue) const {
  const BucketRange own = shares_.own(bucket);
  if (own.size() == 0) return;
  std::vector<float*> stack;
  for (size_t at = 0; at < tree_.program.size(); ++at) {
    const int instruction = tree_.program[at];
    if (instruction >= 0) {
      stack.push_back(own_part(sources_[static_cast<size_t>(instruction)], bucket));
      continue;
    }
    const float* const right = stack.back();
    stack.pop_back();
    const float* const left = stack.back();
    if (whole != nullptr && at + 1 == tree_.program.size()) stack.back() = whole + own.begin;
    queue.updates->add(stack.back(), left, right, own.size(), queue);
  }
}

}  // namespace estrain::train
