#include "core/engine/train/resident/sums_over_hosts.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/engine/train/job/meeting.h"

namespace estrain::train {

SumWriters::SumWriters(const std::vector<int64_t>& host_workers) : first_{0} {
  for (const int64_t workers : host_workers) first_.push_back(first_.back() + static_cast<uint32_t>(workers));
}

size_t SumWriters::host_of(uint32_t worker) const {
  return static_cast<size_t>(std::ranges::upper_bound(first_, worker) - first_.begin()) - 1;
}

uint32_t SumWriters::writer(size_t host, uint32_t owner) const {
  if (host_of(owner) == host) return owner;
  return first_[host] + owner % (first_[host + 1] - first_[host]);
}

SumsOverHosts::SumsOverHosts(Workplace& place, const StageOrder& order)
    : place_(place),
      shares_(place.job.places().model, static_cast<uint32_t>(order.rank().value),
              static_cast<uint32_t>(order.all_workers())),
      writers_(order.beyond->host_workers),
      writes_presence_(order.worker == WorkerRank(0)),
      sums_(place.job.places().model, place.job.gradient_sum(), place.device, order.own()),
      squares_(place, sums_.ests()),
      passed_(place, order, shares_, sums_,
              {.arrived = [this](size_t bucket) { passed_.finish(bucket, reached_.mutable_data_ptr<float>()); },
               .send_on = [this](size_t bucket, device::TransferGroup& group) { send_sums(bucket, group); }}),
      reached_(new_floats(shares_.parameters(), place.device)),
      tick_(new_floats(1, place.device)),
      pulse_(place.memory.pulse(order.rank())) {
  plan_foreign_sums();
  // No stage releases the memory of slot 0 (GradientSlots::release), which may therefore be page-locked.
  place.device.expect_copies(reinterpret_cast<std::byte*>(place.memory.gradients()[0].values),
                             place.job.places().model.parameters_bytes());
}

void SumsOverHosts::plan_foreign_sums() {
  const size_t own_host = writers_.host_of(shares_.worker());
  foreign_.resize(shares_.buckets());
  for (size_t bucket = 0; bucket < shares_.buckets(); ++bucket) {
    for (uint32_t owner = 0; owner < shares_.workers(); ++owner) {
      const BucketRange range = shares_.share(bucket, owner);
      const bool is_foreign = writers_.host_of(owner) != own_host;
      if (is_foreign && range.size() > 0 && writers_.writer(own_host, owner) == shares_.worker())
        foreign_[bucket].push_back({owner, range, new_floats(range.size(), place_.device)});
    }
  }
}

void SumsOverHosts::begin_step() {
  sums_.forget();
  squares_.begin_step();
  passed_.begin_step();
}

void SumsOverHosts::send_sums(size_t bucket, device::TransferGroup& group) const {
  const size_t own_host = writers_.host_of(shares_.worker()), bytes = shares_.own(bucket).size() * sizeof(float);
  for (size_t host = 0; host < writers_.hosts() && bytes > 0; ++host) {
    if (host != own_host)
      group.sends.push_back({writers_.writer(host, shares_.worker()), passed_.total(bucket), bytes});
  }
  for (const ForeignSum& sum : foreign_[bucket])
    group.receives.push_back({sum.owner, sum.values.mutable_data_ptr<float>(), sum.range.size() * sizeof(float)});
}

void SumsOverHosts::write_sums(size_t bucket) {
  float* const slot = place_.memory.gradients()[0].values;
  const auto write = [&](const at::Tensor& values, const BucketRange& range) {
    if (range.size() > 0) place_.device.download(values, reinterpret_cast<std::byte*>(slot + range.begin), [] {});
  };
  write(passed_.total_values(bucket), shares_.own(bucket));
  for (const ForeignSum& sum : foreign_[bucket]) write(sum.values, sum.range);
}

void SumsOverHosts::write_presence() {
  if (!writes_presence_) return;
  uint8_t* const presence = place_.memory.gradients()[0].presence;
  place_.device.read(reached_, [this, presence](const float* reached) {
    for (size_t i = 0; i < shares_.parameters(); ++i) presence[i] = reached[i] != 0 ? 1 : 0;
  });
}

// The copies follow the pass: the device carries out reads in their order, and the read of the time must not wait for
// the other workers.
int64_t SumsOverHosts::pass() {
  place_.device.read(tick_, [this](const float*) { computed_ns_ = monotonic_ns(); });
  passed_.end_last_bucket();
  device::TransferGroup group;
  if (const size_t buckets = shares_.buckets(); buckets > 0) send_sums(buckets - 1, group);
  place_.exchange->transfer(group);
  place_.exchange->join();
  for (size_t bucket = 0; bucket < shares_.buckets(); ++bucket) write_sums(bucket);
  write_presence();
  squares_.read();
  waiting(pulse_, comm::Activity::meeting, [this] {
    place_.device.finish();
    return true;
  });
  return monotonic_ns() - computed_ns_;
}

bool SumsOverHosts::are_whole() {
  place_.exchange->check();
  return !place_.memory.gate().aborted();
}

}  // namespace estrain::train
