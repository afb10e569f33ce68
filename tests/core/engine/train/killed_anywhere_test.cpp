// Kills a worker between any two of its stores to the job's control words. After repair(), the memory holds a complete
// step with its record, and training continues from there as if undisturbed.
//
// No process is killed: while a worker trains, the page of these words is read-only, so each store to it faults, is
// executed by a single step, and the memory is copied after it. A worker killed at this point leaves exactly this copy.

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <tuple>

#include "core/engine/train/stage.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/comm/stage_control.h"
#include "tests/core/engine/train/worker_in_process.h"
#include "tests/core/state/comm/memory_words.h"

namespace estrain::train {
namespace {

constexpr int64_t kRunSteps = 4;
constexpr size_t kMostStores = 2000;
constexpr greg_t kTrapFlag = 0x100;

// Copies of a memory, one after each store of this thread to a page of it.
class StoreWatch {
 public:
  StoreWatch(void* page, size_t page_bytes, std::span<const std::byte> memory)
      : page_(page), page_bytes_(page_bytes), memory_(memory) {
    // Reserves address space in advance, since a signal handler must not allocate; only written pages take memory.
    copies_ = static_cast<std::byte*>(::mmap(nullptr, kMostStores * memory.size(), PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    REQUIRE(copies_ != MAP_FAILED);
    current = this;
    install(SIGSEGV, &StoreWatch::before_store, &old_segv_);
    install(SIGTRAP, &StoreWatch::after_store, &old_trap_);
    REQUIRE(::mprotect(page_, page_bytes_, PROT_READ) == 0);
  }
  ~StoreWatch() {
    stop();
    ::munmap(copies_, kMostStores * memory_.size());
  }
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;

  void stop() {
    if (current == nullptr) return;
    ::mprotect(page_, page_bytes_, PROT_READ | PROT_WRITE);
    ::sigaction(SIGSEGV, &old_segv_, nullptr);
    ::sigaction(SIGTRAP, &old_trap_, nullptr);
    current = nullptr;
  }

  size_t stores() const { return stores_; }
  std::span<const std::byte> after(size_t store) const { return {copies_ + store * memory_.size(), memory_.size()}; }

 private:
  using Handler = void (*)(int, siginfo_t*, void*);
  static void install(int signal, Handler handler, struct sigaction* old) {
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = handler;
    ::sigaction(signal, &action, old);
  }

  static greg_t& flags(void* context) { return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL]; }

  // The store is executed again, and then the processor traps.
  static void before_store(int, siginfo_t* info, void* context) {
    const auto* at = static_cast<const std::byte*>(info->si_addr);
    const auto* page = static_cast<const std::byte*>(current->page_);
    if (at < page || at >= page + current->page_bytes_) {
      ::sigaction(SIGSEGV, &current->old_segv_, nullptr);  // a fault of another kind
      return;
    }
    ::mprotect(current->page_, current->page_bytes_, PROT_READ | PROT_WRITE);
    flags(context) |= kTrapFlag;
  }

  static void after_store(int, siginfo_t*, void* context) {
    flags(context) &= ~kTrapFlag;
    if (current->stores_ < kMostStores) {
      std::byte* copy = current->copies_ + current->stores_ * current->memory_.size();
      std::memcpy(copy, current->memory_.data(), current->memory_.size());
    }
    ++current->stores_;
    ::mprotect(current->page_, current->page_bytes_, PROT_READ);
  }

  static inline StoreWatch* current = nullptr;
  void* const page_;
  const size_t page_bytes_;
  const std::span<const std::byte> memory_;
  std::byte* copies_ = nullptr;
  size_t stores_ = 0;
  struct sigaction old_segv_ {
  }, old_trap_{};
};

spec::JobSpec job_spec(const char* train) {
  return spec::parse_text(fmt::format("[job]\nests = 2\n[model]\nname = \"mlp\"\nhidden = [5]\n"
                                      "[data]\nformat = \"synthetic\"\nshape = [7]\nsamples = 64\nbatch = 2\n"
                                      "[optimizer]\nname = \"adam\"\n[train]\nsteps = {}\neval_every = 2\n{}",
                                      kRunSteps, train),
                          "test");
}

comm::MemoryPlan plan_of(const spec::JobSpec& spec) {
  comm::MemoryPlan plan = WorkerInProcess::plan_of(spec);
  plan.ring_records = 16;  // all of them are kept, and copied often
  return plan;
}

const StageOrder kAlone{WorkerRank(0), {{VirtualRank(0), VirtualRank(2)}}};

// A record without the times that it was made at.
using Record = std::tuple<comm::RecordKind, Step, double, std::vector<float>, std::vector<uint64_t>>;

std::vector<Record> records_of(comm::JobMemory& memory) {
  std::vector<Record> records;
  for (uint32_t i = 0; i < memory.ring().published(); ++i) {
    const comm::RecordView view = memory.ring().at(i);
    std::vector<uint64_t> digests;
    for (int64_t k = 0; k < memory.ring().digests(); ++k) digests.push_back(view.digests[k].load());
    records.emplace_back(view.head->kind, view.head->step, view.head->loss,
                         std::vector<float>(view.est_losses, view.est_losses + memory.ests()), digests);
  }
  return records;
}

std::vector<std::byte> committed_state(WorkerInProcess& worker) {
  const std::byte* state = worker.memory().state_of(worker.memory().commit().committed());
  return {state, state + worker.job().places().bytes};
}

// The results of an undisturbed run.
struct Undisturbed {
  std::vector<Record> records;
  std::vector<std::vector<std::byte>> states;  // by step
};

Undisturbed undisturbed(const spec::JobSpec& spec) {
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker(spec, fd.get(), plan_of(spec));
  Undisturbed run;
  for (int64_t step = 0; step <= kRunSteps; ++step) {
    run.states.push_back(committed_state(worker));
    comm::StageControl(worker.memory()).open();
    worker.memory().gate().ask_pause();  // a stage of one step
    Stage(worker.place(), kAlone).run();
  }
  run.records = records_of(worker.memory());
  return run;
}

UniqueFd memory_with(std::span<const std::byte> bytes) {
  UniqueFd fd(::memfd_create("copy", MFD_CLOEXEC));
  REQUIRE(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return fd;
}

// The records are a prefix of a whole run's records, and match the committed and evaluated steps.
void check_whole(WorkerInProcess& worker, const Undisturbed& expected) {
  const std::vector<Record> records = records_of(worker.memory());
  REQUIRE(records.size() <= expected.records.size());
  Step steps, evaluated(-1);
  for (size_t i = 0; i < records.size(); ++i) {
    CHECK((records[i] == expected.records[i]));
    const bool is_step = std::get<0>(records[i]) == comm::RecordKind::step;
    (is_step ? steps : evaluated) = std::get<1>(records[i]);
  }
  REQUIRE(worker.memory().commit().committed() == steps);
  CHECK(worker.memory().commit().trained() == steps);
  CHECK(worker.memory().commit().evaluated() == evaluated);
  CHECK((committed_state(worker) == expected.states[static_cast<size_t>(steps.value)]));
}

void check_goes_on(WorkerInProcess& worker, const Undisturbed& expected) {
  comm::StageControl(worker.memory()).open();
  CHECK(Stage(worker.place(), kAlone).run() == Stage::Left::finished);
  CHECK((records_of(worker.memory()) == expected.records));
  CHECK((committed_state(worker) == expected.states.back()));
}

// The words for a job's progress: among memories with equal words, only one is trained further.
auto how_far(const comm::MemoryHeader& header) {
  return std::tuple(header.published.load(), header.whole.load(), header.committed.load(), header.trained.load(),
                    header.evaluated.load());
}

void kill_everywhere(const spec::JobSpec& spec) {
  const Undisturbed expected = undisturbed(spec);
  REQUIRE(expected.records.size() == kRunSteps + kRunSteps / 2);
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker(spec, fd.get(), plan_of(spec));
  comm::MemoryHeader& header = words_of(worker.memory());
  static_assert(sizeof(comm::MemoryHeader) <= 4096);
  comm::StageControl(worker.memory()).open();
  StoreWatch watch(&header, 4096, {reinterpret_cast<const std::byte*>(&header), header.total_bytes});
  Stage(worker.place(), kAlone).run();
  watch.stop();
  REQUIRE((records_of(worker.memory()) == expected.records));
  REQUIRE(watch.stores() <= kMostStores);
  std::set<decltype(how_far(header))> seen;
  for (size_t store = 0; store < watch.stores(); ++store) {
    CAPTURE(store);
    const UniqueFd copy = memory_with(watch.after(store));
    WorkerInProcess next(spec, copy.get());
    const bool is_new = seen.insert(how_far(words_of(next.memory()))).second;
    comm::StageControl(next.memory()).repair();
    check_whole(next, expected);
    if (is_new) check_goes_on(next, expected);
  }
  // Each step stores whole, published, committed and trained; an evaluation stores published and evaluated.
  CHECK(seen.size() >= 4 * kRunSteps + 2 * kRunSteps / 2);
}

TEST_CASE("a worker that is killed after any of its stores leaves a whole step, on record once") {
  kill_everywhere(job_spec(""));
}

TEST_CASE("the same where gradients are clipped") { kill_everywhere(job_spec("clip_grad_norm = 0.5\n")); }

}  // namespace
}  // namespace estrain::train
