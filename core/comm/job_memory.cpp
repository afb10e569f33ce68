#include "core/comm/job_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/comm/memory/futex.h"

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
  words().version = version;
}

JobMemory::JobMemory(int fd) : fd_(fd) {
  map(kHeaderBytes);
  if (words().version != kVersion) {
    ::munmap(base_, mapped_);
    throw Error(Fault::mismatch, "the job's shared memory is of another version of this program")
        .advise("the program was replaced while the job ran: stop the job, and go on with `estrain train --resume`");
  }
  if (words().ready.load() == 1) map(words().total_bytes);
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
  MemoryHeader& h = words();
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
  h.audit_words = static_cast<uint64_t>(plan.audit_words);
  h.audit = regions.take(AuditBoard::kRows * h.audit_words * sizeof(uint64_t));
  h.ests = plan.ests;
  h.parameters = plan.parameters;
  h.digests = plan.digests;
  h.evaluation_samples = plan.evaluation_samples;
  h.total_bytes = regions.end();
  h.stage_end.store(-1);
  h.held_step.store(-1);
  h.evaluated.store(-1);
  h.audit_step.store(-1);
  h.audit_damage.store(-1);
  if (::ftruncate(fd_, static_cast<off_t>(regions.end())) != 0) {
    throw system_error(fmt::format("cannot size shared memory to {} bytes", regions.end()), errno)
        .advise("lower the number of ESTs or raise the file size limit (ulimit -f)");
  }
  map(regions.end());
  std::memcpy(base_ + words().manifest, plan.manifest.data(), plan.manifest.size());
}

void JobMemory::set_ready() {
  words().ready.store(1);
  futex_wake_all(words().ready);
}

bool JobMemory::wait_ready(int milliseconds) {
  const int64_t deadline = monotonic_ns() + milliseconds * INT64_C(1'000'000);
  while (!is_ready()) {
    const int64_t left = (deadline - monotonic_ns()) / 1'000'000;
    if (left <= 0) return false;
    futex_wait(words().ready, 0, static_cast<int>(left));
  }
  if (mapped_ != words().total_bytes) map(words().total_bytes);
  return true;
}

void JobMemory::open_stage() {
  gate().open();
  save_request().clear();
  meetings().open();
  hosts().open();
  audits().open();
  const int64_t now = monotonic_ns();
  clock().note_progress(now);
  for (WorkerRank worker; worker.value < ests(); ++worker) {
    pulse(worker).beat(Activity::idle, now);
    pulse(worker).computing_ns.store(0);
    pulse(worker).mini_batches.store(0);
  }
}

void JobMemory::abort_stage() {
  gate().abort();
  meetings().wake_all();
  hosts().wake_all();
  hold().wake_all();
}

// Another host may have committed the step: its record, complete already, is published if it is not yet. Where the ring
// has no room for it, the step is done again.
void JobMemory::publish_agreed() {
  const Step whole(words().whole.load());
  if (whole != commit().committed().next() || words().agreed.load() != whole.value) return;
  const RecordHead& pending = *ring().pending().head;
  if (pending.kind != RecordKind::step || pending.step != whole || ring().waiting() + 1 >= ring().capacity()) return;
  ring().publish();
}

int64_t JobMemory::repair() {
  publish_agreed();
  std::optional<Step> newest_step;
  if (const auto newest = ring().newest()) {
    if (newest->head->kind == RecordKind::step) newest_step = newest->head->step;
    if (newest->head->kind == RecordKind::evaluation) commit().note_evaluated(newest->head->step);
  }
  const int64_t lost = commit().repair(newest_step);
  ring().clear_pending();
  return lost;
}

std::string_view JobMemory::manifest() const { return {at<const char>(words().manifest), words().manifest_bytes}; }

std::byte* JobMemory::state_of(Step step) const {
  return at<std::byte>(words().state + static_cast<uint64_t>(step.value & 1) * words().state_bytes);
}

GradientSlot JobMemory::gradient_slot(int64_t slot) const {
  const auto number = static_cast<uint64_t>(slot);
  return {at<float>(words().gradients + number * words().gradient_bytes),
          at<uint8_t>(words().presence + number * static_cast<uint64_t>(words().parameters))};
}

WorkerPulse& JobMemory::pulse(WorkerRank worker) const { return at<WorkerPulse>(words().pulses)[worker.value]; }

float* JobMemory::norms() const { return at<float>(words().norms); }

EvaluationResults JobMemory::evaluation() const {
  auto* losses = at<float>(words().evaluation);
  return {words().evaluation_samples, losses, reinterpret_cast<int32_t*>(losses + words().evaluation_samples)};
}

void JobMemory::release_gradient_slots(int64_t first) {
  const uint64_t offset = words().gradients + static_cast<uint64_t>(first) * words().gradient_bytes;
  const uint64_t end = words().gradients + static_cast<uint64_t>(ests()) * words().gradient_bytes;
  if (offset < end) {
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(end - offset));
  }
}

}  // namespace estrain::comm
