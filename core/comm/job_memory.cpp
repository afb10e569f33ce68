#include "core/comm/job_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/comm/futex.h"
#include "core/comm/step_record.h"

namespace estrain::comm {
namespace {

// Of another version, what lies in the memory is most likely of another size.
constexpr uint64_t kVersion = (sizeof(MemoryHeader) << 40) + (sizeof(WorkerPulse) << 20) + sizeof(RecordHead);
constexpr uint64_t kPage = 4096;
constexpr uint64_t kHeaderBytes = (sizeof(MemoryHeader) + kPage - 1) / kPage * kPage;

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Hands out page-aligned regions one behind the other.
class Regions {
 public:
  uint64_t take(uint64_t bytes) {
    const uint64_t offset = end_;
    end_ += round_up(bytes, kPage);
    return offset;
  }
  uint64_t end() const { return end_; }

 private:
  uint64_t end_ = kHeaderBytes;
};

}  // namespace

UniqueFd JobMemory::create() {
  UniqueFd fd(::memfd_create("estrain", MFD_CLOEXEC));
  if (!fd) throw system_error("cannot create shared memory", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(kHeaderBytes)) != 0)
    throw system_error("cannot size shared memory", errno);
  const JobMemory fresh(fd.get(), kVersion);
  return fd;
}

JobMemory::JobMemory(int fd, uint64_t version) : fd_(fd) {
  map(kHeaderBytes);
  header().version = version;
}

JobMemory::JobMemory(int fd) : fd_(fd) {
  map(kHeaderBytes);
  if (header().version != kVersion) {
    ::munmap(base_, mapped_);
    throw Error(Fault::mismatch, "the job's shared memory is of another version of this program")
        .advise("the program was replaced while the job ran: stop the job, and go on with `estrain train --resume`");
  }
  if (header().ready.load() == 1) map(header().total_bytes);
}

JobMemory::~JobMemory() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

void JobMemory::map(uint64_t bytes) {
  if (base_ != nullptr) ::munmap(base_, mapped_);
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (address == MAP_FAILED) {
    base_ = nullptr;
    throw system_error(fmt::format("cannot map {} bytes of shared memory", bytes), errno);
  }
  base_ = static_cast<std::byte*>(address);
  mapped_ = bytes;
  ::madvise(base_, mapped_, MADV_HUGEPAGE);  // a wish: fewer page faults and misses where the system grants it
}

void JobMemory::lay_out(const MemoryPlan& plan) {
  MemoryHeader& h = header();
  Regions regions;
  h.manifest_bytes = plan.manifest.size();
  h.manifest = regions.take(plan.manifest.size());
  h.state_bytes = round_up(plan.state_bytes, kPage);
  h.state = regions.take(2 * h.state_bytes);
  h.gradient_bytes = round_up(plan.gradient_bytes, kPage);
  h.gradients = regions.take(h.gradient_bytes * static_cast<uint64_t>(plan.ests));
  h.presence = regions.take(static_cast<uint64_t>(plan.parameters * plan.ests));
  h.record_bytes = record_bytes(plan.ests, plan.digests);
  h.ring_records = static_cast<uint64_t>(plan.ring_records);
  h.norms = regions.take(static_cast<uint64_t>(plan.parameters) * sizeof(float));
  h.pulses = regions.take(static_cast<uint64_t>(plan.ests) * sizeof(WorkerPulse));
  h.ring = regions.take(h.record_bytes * h.ring_records);
  h.evaluation = regions.take(static_cast<uint64_t>(plan.evaluation_samples) * 8);
  h.ests = plan.ests;
  h.parameters = plan.parameters;
  h.digests = plan.digests;
  h.evaluation_samples = plan.evaluation_samples;
  h.total_bytes = regions.end();
  h.stage_end.store(-1);
  h.held_step.store(-1);
  h.evaluated.store(-1);
  if (::ftruncate(fd_, static_cast<off_t>(regions.end())) != 0) {
    throw system_error(fmt::format("cannot size shared memory to {} bytes", regions.end()), errno)
        .advise("lower the number of ESTs or raise the file size limit (ulimit -f)");
  }
  map(regions.end());
  std::memcpy(base_ + header().manifest, plan.manifest.data(), plan.manifest.size());
}

void JobMemory::set_ready() {
  header().ready.store(1);
  futex_wake_all(header().ready);
}

bool JobMemory::is_writable(int64_t step) const {
  const int64_t held = header().held_step.load();
  return held < 0 || (held & 1) != (step & 1);
}

bool JobMemory::wait_writable(int64_t step) {
  MemoryHeader& h = header();
  for (;;) {
    const uint32_t releases = h.releases.load();
    if (is_writable(step)) return true;
    if (h.abort.load() != 0) return false;
    futex_wait(h.releases, releases, 100);
  }
}

bool JobMemory::try_hold(int64_t step) {
  int64_t free = -1;
  return header().held_step.compare_exchange_strong(free, step) || free == step;
}

bool JobMemory::hold(int64_t step) {
  MemoryHeader& h = header();
  for (;;) {
    const uint32_t releases = h.releases.load();
    if (try_hold(step)) return true;
    if (h.abort.load() != 0) return false;
    futex_wait(h.releases, releases, 100);
  }
}

void JobMemory::release_hold() {
  header().held_step.store(-1);
  header().releases.fetch_add(1);
  futex_wake_all(header().releases);
}

void JobMemory::open_stage() {
  MemoryHeader& h = header();
  h.pause_request.store(0);
  h.stage_end.store(-1);
  h.abort.store(0);
  h.save_step.store(-1);
  h.exchange_ready.store(0);
  h.host_answered.store(h.host_asked.load());
  h.pause_agreed.store(0);
  h.stage_started.store(0);
  h.stage_started_ns.store(0);
  for (BarrierWords* words : {&h.gathered, &h.summed, &h.finished, &h.evaluated_by_all, &h.saved})
    words->arrived.store(0);
  h.next_sum.store(0);
  h.next_update.store(0);
  const int64_t now = monotonic_ns();
  h.progress_ns.store(now);
  for (int64_t worker = 0; worker < h.ests; ++worker) {
    pulse(worker).beat(Activity::idle, now);
    pulse(worker).computing_ns.store(0);
    pulse(worker).mini_batches.store(0);
  }
}

void JobMemory::abort_stage() {
  MemoryHeader& h = header();
  h.abort.store(1);
  for (BarrierWords* words : {&h.gathered, &h.summed, &h.finished, &h.evaluated_by_all, &h.saved})
    futex_wake_all(words->generation);
  futex_wake_all(h.releases);
  futex_wake_all(h.exchange_ready);
  futex_wake_all(h.host_answered);
}

int64_t JobMemory::repair() {
  MemoryHeader& h = header();
  const int64_t whole = h.whole.exchange(0);
  if (whole == h.committed.load() + 1 && whole == h.agreed.load()) publish_agreed(whole);
  const uint32_t published = h.published.load();
  if (published > 0) {
    const RecordHead& newest = *view_record(*this, published - 1).head;
    if (newest.kind == RecordKind::step && newest.step == whole && whole == h.committed.load() + 1)
      h.committed.store(whole);
    if (newest.kind == RecordKind::evaluation) h.evaluated.store(newest.step);
  }
  std::memset(record(published), 0, h.record_bytes);
  return std::max<int64_t>(0, h.trained.exchange(h.committed.load()) - h.committed.load());
}

// Another host may have committed the step: its record, complete already, is published if it is not yet.
void JobMemory::publish_agreed(int64_t step) {
  MemoryHeader& h = header();
  const uint32_t published = h.published.load();
  const RecordHead& pending = *view_record(*this, published).head;
  if (pending.kind != RecordKind::step || pending.step != step) return;  // it is out
  if (published + 1 - h.drained.load() >= h.ring_records) return;        // no room: the step is done again
  std::memset(record(published + 1), 0, h.record_bytes);
  h.published.store(published + 1);
}

void JobMemory::set_exchange_id(const std::array<std::byte, 128>& id) {
  header().exchange_id = id;
  header().exchange_ready.store(1);
  futex_wake_all(header().exchange_ready);
}

bool JobMemory::wait_exchange_id(std::array<std::byte, 128>* id) {
  while (header().exchange_ready.load() == 0) {
    if (header().abort.load() != 0) return false;
    futex_wait(header().exchange_ready, 0, 100);
  }
  *id = header().exchange_id;
  return true;
}

bool JobMemory::wait_ready(int milliseconds) {
  const int64_t deadline = monotonic_ns() + milliseconds * INT64_C(1'000'000);
  while (header().ready.load() == 0) {
    const int64_t left = (deadline - monotonic_ns()) / 1'000'000;
    if (left <= 0) return false;
    futex_wait(header().ready, 0, static_cast<int>(left));
  }
  if (mapped_ != header().total_bytes) map(header().total_bytes);
  return true;
}

std::string_view JobMemory::manifest() const {
  return {reinterpret_cast<const char*>(base_ + header().manifest), header().manifest_bytes};
}

std::byte* JobMemory::state(int copy) {
  return base_ + header().state + static_cast<uint64_t>(copy) * header().state_bytes;
}

float* JobMemory::gradient_slot(int64_t slot) {
  return reinterpret_cast<float*>(base_ + header().gradients + static_cast<uint64_t>(slot) * header().gradient_bytes);
}

WorkerPulse& JobMemory::pulse(int64_t worker) {
  return reinterpret_cast<WorkerPulse*>(base_ + header().pulses)[worker];
}

uint8_t* JobMemory::presence(int64_t slot) {
  return reinterpret_cast<uint8_t*>(base_ + header().presence) + slot * header().parameters;
}

float* JobMemory::norms() { return reinterpret_cast<float*>(base_ + header().norms); }

std::byte* JobMemory::record(uint32_t sequence) {
  return base_ + header().ring + (sequence % header().ring_records) * header().record_bytes;
}

float* JobMemory::evaluation_losses() { return reinterpret_cast<float*>(base_ + header().evaluation); }

int32_t* JobMemory::evaluation_correct() {
  return reinterpret_cast<int32_t*>(evaluation_losses() + header().evaluation_samples);
}

void JobMemory::release_gradient_slots(int64_t first) {
  const uint64_t offset = header().gradients + static_cast<uint64_t>(first) * header().gradient_bytes;
  const uint64_t end = header().gradients + static_cast<uint64_t>(header().ests) * header().gradient_bytes;
  if (offset < end) {
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(end - offset));
  }
}

}  // namespace estrain::comm
