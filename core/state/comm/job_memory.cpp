#include "core/state/comm/job_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/state/comm/memory/futex.h"

namespace estrain::comm {
namespace {

// The layout of another version most likely has structs of another size.
constexpr uint64_t kVersion = (sizeof(MemoryHeader) << 40) + (sizeof(WorkerPulse) << 20) + sizeof(RecordHead);
constexpr uint64_t kPage = 4096;
constexpr uint64_t kHeaderBytes = (sizeof(MemoryHeader) + kPage - 1) / kPage * kPage;

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Hands out page-aligned regions, each behind the region before.
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

UniqueFd SharedMapping::create(uint64_t bytes) {
  UniqueFd fd(::memfd_create("estrain", MFD_CLOEXEC));
  if (!fd) throw system_error("cannot create shared memory", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw system_error("cannot size shared memory", errno);
  return fd;
}

SharedMapping::SharedMapping(int fd, uint64_t bytes) : fd_(fd) { map(bytes); }

SharedMapping::~SharedMapping() { unmap(); }

void SharedMapping::unmap() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  base_ = nullptr;
}

void SharedMapping::map(uint64_t bytes) {
  unmap();
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (address == MAP_FAILED) throw system_error(fmt::format("cannot map {} bytes of shared memory", bytes), errno);
  base_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  ::madvise(base_, bytes_, MADV_HUGEPAGE);  // a wish: fewer page faults and misses where the system grants it
}

void SharedMapping::resize(uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
    throw system_error(fmt::format("cannot size shared memory to {} bytes", bytes), errno)
        .advise("lower the number of ESTs or raise the file size limit (ulimit -f)");
  }
  map(bytes);
}

void SharedMapping::release(uint64_t begin, uint64_t end) {
  if (begin < end)
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(end - begin));
}

UniqueFd JobMemory::create() {
  UniqueFd fd = SharedMapping::create(kHeaderBytes);
  const JobMemory fresh(fd.get(), kVersion);
  return fd;
}

JobMemory::JobMemory(int fd, uint64_t version) : memory_(fd, kHeaderBytes) { words().version = version; }

JobMemory::JobMemory(int fd) : memory_(fd, kHeaderBytes) {
  if (words().version != kVersion) {
    throw Error(Fault::mismatch, "the job's shared memory is of another version of this program")
        .advise("the program was replaced while the job ran: stop the job, and resume with `estrain train --resume`")
        .caused_by("program_replaced");
  }
  if (is_ready()) memory_.map(words().total_bytes);
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
  h.row_mark_words = plan.row_mark_words;
  h.row_marks = regions.take(static_cast<uint64_t>(plan.ests) * 2 * plan.row_mark_words * sizeof(uint64_t));
  h.pulses = regions.take(static_cast<uint64_t>(plan.ests) * sizeof(WorkerPulse));
  h.folded = regions.take(static_cast<uint64_t>(plan.ests) * sizeof(FoldedWord));
  h.ring = regions.take(h.record_bytes * h.ring_records);
  h.evaluation = regions.take(plan.evaluation_bytes());
  h.audit_words = static_cast<uint64_t>(plan.audit_words);
  h.audit = regions.take((AuditBoard::kRows + 1) * h.audit_words * sizeof(uint64_t));
  h.ests = plan.ests;
  h.parameters = plan.parameters;
  h.digests = plan.digests;
  h.evaluation_samples = plan.evaluation_samples;
  h.evaluation_columns = plan.evaluation_columns;
  h.evaluation_numbers = plan.evaluation_numbers;
  h.total_bytes = regions.end();
  h.stage_end.store(-1);
  h.held_step.store(-1);
  h.evaluated.store(-1);
  h.audit_step.store(-1);
  h.audit_damage.store(-1);
  memory_.resize(regions.end());
  std::memcpy(memory_.at<char>(words().manifest), plan.manifest.data(), plan.manifest.size());
}

void JobMemory::set_ready() {
  words().ready.store(1);
  futex_wake_all(words().ready);
}

bool JobMemory::wait_ready(std::chrono::milliseconds patience) {
  const MonotonicTime deadline = MonotonicClock::now() + patience;
  while (!is_ready()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - MonotonicClock::now());
    if (left <= 0ms) return false;
    futex_wait(words().ready, 0, left);
  }
  if (memory_.bytes() != words().total_bytes) memory_.map(words().total_bytes);
  return true;
}

std::string_view JobMemory::manifest() const {
  return {memory_.at<const char>(words().manifest), words().manifest_bytes};
}

std::byte* JobMemory::state_of(Step step) const {
  return memory_.at<std::byte>(words().state + static_cast<uint64_t>(step.value & 1) * words().state_bytes);
}

uint64_t* JobMemory::row_marks(WorkerRank worker, Step step) const {
  const uint64_t number = static_cast<uint64_t>(worker.value) * 2 + static_cast<uint64_t>(step.value & 1);
  return memory_.at<uint64_t>(words().row_marks) + number * words().row_mark_words;
}

WorkerPulse& JobMemory::pulse(WorkerRank worker) const { return memory_.at<WorkerPulse>(words().pulses)[worker.value]; }

EvaluationResults JobMemory::evaluation() const {
  const int64_t samples = words().evaluation_samples;
  auto* numbers = memory_.at<double>(words().evaluation);
  auto* losses = reinterpret_cast<float*>(numbers + words().evaluation_numbers);
  auto* correct = reinterpret_cast<int32_t*>(losses + samples);
  return {samples, words().evaluation_columns, losses, correct, correct + samples, losses + 3 * samples, numbers};
}

GradientSlot GradientSlots::operator[](int64_t slot) const {
  const auto number = static_cast<uint64_t>(slot);
  return {memory_.at<float>(words_.gradients + number * words_.gradient_bytes),
          memory_.at<uint8_t>(words_.presence + number * static_cast<uint64_t>(words_.parameters))};
}

void GradientSlots::release(int64_t first, int64_t end) {
  if (first >= end) return;
  const auto offset = [this](int64_t slot) {
    return words_.gradients + static_cast<uint64_t>(slot) * words_.gradient_bytes;
  };
  memory_.release(offset(first), offset(end));
}

void RecordedChanges::add(const batches::BatchChange& change) {
  const uint32_t number = words_.num_changes.load();
  words_.changes[number] = change;
  words_.num_changes.store(number + 1);
}

std::vector<batches::BatchChange> RecordedChanges::all() const {
  return {words_.changes.begin(), words_.changes.begin() + words_.num_changes.load()};
}

void StageGate::open() {
  words_.pause_request.store(0);
  words_.stage_end.store(-1);
  words_.abort.store(0);
  words_.stage_started.store(0);
  words_.stage_started_ns.store(0);
}

}  // namespace estrain::comm
