#include "core/engine/train/workplace/resident_state.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/engine/est/generator.h"

namespace estrain::train {

std::chrono::nanoseconds time_between_saves(std::chrono::nanoseconds last_save) {
  constexpr std::chrono::nanoseconds least = std::chrono::seconds(2), most = std::chrono::minutes(1);
  constexpr int64_t times = 50;
  return last_save > most / times ? most : std::max(least, times * last_save);
}

std::vector<SavedPart::Region> joined(std::vector<SavedPart::Region> regions) {
  constexpr size_t alignment = 64;
  std::ranges::sort(regions, {}, &SavedPart::Region::offset);
  std::vector<SavedPart::Region> whole;
  for (const SavedPart::Region& region : regions) {
    if (!whole.empty() && region.offset - (whole.back().offset + whole.back().bytes) < alignment) {
      whole.back().bytes = region.offset + region.bytes - whole.back().offset;
    } else {
      whole.push_back(region);
    }
  }
  return whole;
}

void UnmapMemory::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

ResidentState::ResidentState(const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device)
    : places_(places), memory_(memory), device_(device) {
  const size_t size = places.bytes;
  const auto options = at::TensorOptions(at::kByte).device(device.torch_device());
  for (const int copy : {0, 1}) {
    copies_[copy] = at::empty({static_cast<int64_t>(size)}, options);
    // Only written pages take memory.
    void* host = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) throw system_error(fmt::format("cannot map {} bytes", size), errno);
    host_[copy] = {static_cast<std::byte*>(host), UnmapMemory{size}};
  }
  const Step step = memory.commit().committed();
  std::byte* committed = memory.state_of(step);
  tensor(step).copy_(at::from_blob(committed, {static_cast<int64_t>(size)}, at::kByte));
  copy_host_part(host(step), committed, {.ests = places.ests.all()});
}

at::Tensor ResidentState::bytes(Step step, size_t offset, size_t bytes) const {
  return tensor(step).narrow(0, static_cast<int64_t>(offset), static_cast<int64_t>(bytes));
}

void ResidentState::copy_host_part(std::byte* to, std::byte* from, const SavedPart& part) const {
  if (part.counts) {
    places_.optimizer.copy_updates(to, from);
    places_.metrics.copy_plateau(to, from);
  }
  for (VirtualRank rank = part.ests.begin; rank < part.ests.end; ++rank) {
    std::memcpy(places_.ests.generator(to, rank), places_.ests.generator(from, rank), est::generator_state_bytes());
    *places_.ests.last_loss(to, rank) = *places_.ests.last_loss(from, rank);
    if (!places_.ests.has_cuda_streams()) continue;
    std::memcpy(places_.ests.cuda_generator(to, rank), places_.ests.cuda_generator(from, rank),
                est::cuda_generator_state_bytes);
  }
}

bool ResidentState::can_save(Step step) const {
  const Step committed = memory_.commit().committed();
  return committed == step || (committed.value & 1) != (step.value & 1);
}

bool ResidentState::save(Step step, double lr, const SavedPart& part) {
  if (!can_save(step)) throw Error::make(Fault::bug, "step {} would be saved over the committed one", step);
  if (!memory_.hold().wait_writable(step)) return false;
  const int64_t begun = monotonic_ns();
  std::byte* target = memory_.state_of(step);
  for (const SavedPart::Region& region : part.regions)
    device_.download(bytes(step, region.offset, region.bytes), target + region.offset, [] {});
  device_.defer([this, target, begun, step, lr, part] {
    copy_host_part(target, host(step), part);
    last_save_.store(std::chrono::nanoseconds(monotonic_ns() - begun));
    if (memory_.save_request().add_part(part.of_workers)) memory_.commit().commit_saved(step, lr);
  });
  return true;
}

}  // namespace estrain::train
