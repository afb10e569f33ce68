#include "core/engine/train/workplace/resident_state.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/engine/est/generator.h"

namespace estrain::train {
namespace {

constexpr size_t kAlignment = 256;  // of a GPU's accesses

}  // namespace

std::chrono::nanoseconds time_between_saves(std::chrono::nanoseconds last_save) {
  constexpr std::chrono::nanoseconds least = std::chrono::seconds(2), most = std::chrono::minutes(1);
  constexpr int64_t times = 50;
  return last_save > most / times ? most : std::max(least, times * last_save);
}

std::vector<StateRegion> joined(std::vector<StateRegion> regions) {
  constexpr size_t alignment = 64;
  std::ranges::sort(regions, {}, &StateRegion::offset);
  std::vector<StateRegion> whole;
  for (const StateRegion& region : regions) {
    if (!whole.empty() && region.offset - (whole.back().offset + whole.back().bytes) < alignment) {
      whole.back().bytes = region.offset + region.bytes - whole.back().offset;
    } else {
      whole.push_back(region);
    }
  }
  return whole;
}

void UnmapMemory::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

ResidentState::ResidentState(const StatePlaces& places, comm::JobMemory& memory, device::ComputeDevice& device,
                             at::Tensor parameters, std::vector<StateRegion> slots, spec::StateMemory slot_memory)
    : places_(places), memory_(memory), device_(device), parameters_(std::move(parameters)), slots_(std::move(slots)) {
  const auto options = at::TensorOptions(at::kByte).device(device.torch_device());
  size_t slot_bytes = 0;
  for (const StateRegion& region : slots_) {
    slot_places_.push_back(slot_bytes);
    slot_bytes += (region.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  slot_memory_ = slot_memory == spec::StateMemory::host ? device.mapped_memory(slot_bytes)
                                                        : at::empty({static_cast<int64_t>(slot_bytes)}, options);
  for (const int copy : {0, 1}) {
    buffers_[copy] = at::empty({static_cast<int64_t>(places.model.buffers_bytes())}, options);
    // Only written pages take memory.
    void* host =
        ::mmap(nullptr, places.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) throw system_error(fmt::format("cannot map {} bytes", places.bytes), errno);
    host_[copy] = {static_cast<std::byte*>(host), UnmapMemory{places.bytes}};
  }
  const Step step = memory.commit().committed();
  std::byte* committed = memory.state_of(step);
  std::vector<StateRegion> loaded = slots_;
  loaded.push_back({0, places.model.parameters_bytes()});
  loaded.push_back({places.model.buffers_offset(), places.model.buffers_bytes()});
  for (const StateRegion& region : loaded) {
    if (region.bytes > 0)
      memory_of(step, region)
          .copy_(at::from_blob(committed + region.offset, {static_cast<int64_t>(region.bytes)}, at::kByte));
  }
  copy_host_part(host(step), committed, {.ests = places.ests.all()});
}

void ResidentState::require_awaited() const {
  if (saves_) throw Error(Fault::bug, "an update in the place of a state that is being saved");
}

// Of a place in slot_memory_, from the offset in a copy of the state.
size_t ResidentState::slot_place(size_t offset) const {
  const auto after = std::ranges::upper_bound(slots_, offset, {}, &StateRegion::offset);
  if (after == slots_.begin()) throw Error(Fault::bug, "an optimizer slot of another worker");
  const auto region = static_cast<size_t>(after - slots_.begin()) - 1;
  return slot_places_[region] + (offset - slots_[region].offset);
}

float* ResidentState::parameter(const ParameterPiece& piece) const {
  return parameters() + places_.model.gradient_offset(piece.parameter) + piece.begin;
}

float* ResidentState::slot(const ParameterPiece& piece, size_t k) const {
  const size_t offset = places_.optimizer.slot_offset(piece.parameter, k) + piece.begin * sizeof(float);
  return reinterpret_cast<float*>(static_cast<std::byte*>(slot_memory_.mutable_data_ptr()) + slot_place(offset));
}

at::Tensor ResidentState::memory_of(Step step, const StateRegion& region) const {
  const auto part = [&region](const at::Tensor& whole, size_t begin) {
    return whole.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(region.bytes));
  };
  const ModelPlaces& model = places_.model;
  if (region.offset < model.parameters_bytes()) return part(parameters_, region.offset);
  if (region.offset - model.buffers_offset() < model.buffers_bytes())
    return part(buffers(step), region.offset - model.buffers_offset());
  return part(slot_memory_, slot_place(region.offset));
}

void ResidentState::await_save() {
  if (saves_) device_.await_downloads();
  saves_ = false;
}

void ResidentState::copy_host_part(std::byte* to, std::byte* from, const SavedPart& part) const {
  if (part.counts) {
    places_.optimizer.copy_updates(to, from);
    places_.metrics.copy_plateau(to, from);
  }
  for (VirtualRank rank = part.ests.begin; rank < part.ests.end; ++rank) {
    std::memcpy(places_.ests.generator(to, rank), places_.ests.generator(from, rank), est::generator_state_bytes());
    *places_.ests.last_loss(to, rank) = *places_.ests.last_loss(from, rank);
    if (places_.ests.python_bytes() > 0)
      std::memcpy(places_.ests.python_streams(to, rank), places_.ests.python_streams(from, rank),
                  places_.ests.python_bytes());
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
  for (const StateRegion& region : part.regions)
    device_.download(memory_of(step, region), target + region.offset, [] {});
  saves_ = true;
  device_.defer([this, target, begun, step, lr, part] {
    copy_host_part(target, host(step), part);
    last_save_.store(std::chrono::nanoseconds(monotonic_ns() - begun));
    if (memory_.save_request().add_part(part.of_workers)) memory_.commit().commit_saved(step, lr);
  });
  return true;
}

}  // namespace estrain::train
