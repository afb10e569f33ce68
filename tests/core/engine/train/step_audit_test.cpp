// Audits find planted faults, name the worker that is wrong, and give no alarm without a fault. Workers are processes,
// since a random stream belongs to a process. A faulty device flips a bit of a gradient.

#include "core/engine/train/step_audit.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <set>

#include "core/engine/train/stage.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/comm/stage_control.h"
#include "tests/at_length.h"
#include "tests/core/engine/train/worker_in_process.h"

namespace estrain::train {
namespace {

constexpr int64_t kAuditedSteps = 6, kAuditedEsts = 6;
constexpr size_t kHiddenWeight = 5 * 7;  // elements; no other tensor of the model has as many

const std::string kNeverEvaluated = "eval_every = \"never\"\n";

// `more`: the rest of [train], and further sections.
spec::JobSpec audited_job(int64_t every, const std::string& more = kNeverEvaluated) {
  return spec::parse_text(fmt::format("[job]\nests = {}\n[model]\nname = \"mlp\"\nhidden = [5]\ndropout = 0.2\n"
                                      "[data]\nformat = \"synthetic\"\nshape = [7]\nsamples = 96\nbatch = 2\n"
                                      "[optimizer]\nname = \"adam\"\n[audit]\nevery = {}\n"
                                      "[train]\nsteps = {}\n{}",
                                      kAuditedEsts, every, kAuditedSteps, more),
                          "test");
}

// The mini-batches of a worker that have a wrong gradient, counted in the order in which it computes them.
struct Plant {
  int64_t worker = -1;  // none
  int64_t from = 0, to = std::numeric_limits<int64_t>::max();
};

class FaultyCpu : public device::CpuDevice {
 public:
  explicit FaultyCpu(const Plant& plant) : plant_(plant) {}

  void read(const at::Tensor& values, Reader reader) override {
    const auto elements = static_cast<size_t>(values.numel());
    const int64_t number = elements == kHiddenWeight ? count_++ : -1;
    if (number < plant_.from || number >= plant_.to) return CpuDevice::read(values, reader);
    std::vector<float> wrong(values.const_data_ptr<float>(), values.const_data_ptr<float>() + elements);
    uint32_t bits = 0;
    std::memcpy(&bits, &wrong[3], sizeof bits);
    bits ^= 1u << 12;
    std::memcpy(&wrong[3], &bits, sizeof bits);
    reader(wrong.data());
  }

 private:
  const Plant plant_;
  int64_t count_ = 0;
};

// How a worker ended.
struct End {
  bool finished = false;
  char error[500] = "";
};

struct Outcome {
  std::vector<End> workers;
  int64_t committed = 0, passed = 0;
  std::vector<std::vector<uint64_t>> digests;  // of each step on record

  // The worker that the audit found wrong; -1: none.
  int64_t blamed() const {
    for (size_t i = 0; i < workers.size(); ++i) {
      if (std::strstr(workers[i].error, "wrong results in the audit of step") != nullptr)
        return static_cast<int64_t>(i);
    }
    return -1;
  }
};

StageOrder order_of(int64_t workers, int64_t worker) {
  StageOrder order{WorkerRank(worker), {}};
  for (int64_t i = 0; i < workers; ++i)
    order.ranges.push_back({VirtualRank(i * kAuditedEsts / workers), VirtualRank((i + 1) * kAuditedEsts / workers)});
  return order;
}

void work(const spec::JobSpec& spec, int memory, const StageOrder& order, const Plant& plant, End& end) {
  std::unique_ptr<device::ComputeDevice> device = std::make_unique<device::CpuDevice>();
  if (plant.worker == order.worker.value) device = std::make_unique<FaultyCpu>(plant);
  WorkerInProcess worker(spec, memory, {}, std::move(device));
  try {
    end.finished = Stage(worker.place(), order).run() == Stage::Left::finished;
  } catch (const Error& error) {
    std::strncpy(end.error, error.what(), sizeof end.error - 1);
    comm::StageControl(worker.memory()).abort();  // as the launcher does
  }
}

Outcome train(const spec::JobSpec& spec, int64_t workers, const Plant& plant) {
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess builder(spec, fd.get(), WorkerInProcess::plan_of(spec));
  comm::StageControl(builder.memory()).open();
  const size_t bytes = static_cast<size_t>(workers) * sizeof(End);
  auto* ends = static_cast<End*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(ends != MAP_FAILED);
  std::vector<pid_t> children;
  for (int64_t i = 0; i < workers; ++i) {
    new (ends + i) End;
    const pid_t child = ::fork();
    if (child == 0) {
      work(spec, fd.get(), order_of(workers, i), plant, ends[i]);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  Outcome outcome;
  outcome.workers.assign(ends, ends + workers);
  ::munmap(ends, bytes);
  outcome.committed = builder.memory().commit().committed().value;
  outcome.passed = builder.memory().audits().passed();
  comm::RecordRing ring = builder.memory().ring();
  for (uint32_t i = 0; i < ring.published(); ++i) {
    const comm::RecordView record = ring.at(i);
    outcome.digests.emplace_back();
    for (int64_t k = 0; k < builder.memory().ring().digests(); ++k)
      outcome.digests.back().push_back(record.digests[k].load());
  }
  return outcome;
}

Outcome train(int64_t every, int64_t workers, const Plant& plant) { return train(audited_job(every), workers, plant); }

// Whether an audit of every step compares that mini-batch of that worker with another one's.
bool is_compared(int64_t workers, int64_t worker, int64_t number) {
  const audit::Party party{order_of(workers, 0).ranges, std::vector<std::string>(static_cast<size_t>(workers), "cpu"),
                           false};
  int64_t count = 0;
  for (int64_t step = 0; step < kAuditedSteps; ++step) {
    const audit::Roles plan = audit::roles_in(step, party);
    const EstRange own = party.ranges[static_cast<size_t>(worker)];
    for (VirtualRank rank = own.begin; rank < own.end; rank = VirtualRank(rank.value + 1)) {
      if (count++ == number) return plan.owner.value == worker && plan.rank == rank;
    }
    if (plan.auditor.value == worker && count++ == number) return true;
  }
  return false;
}

// They run in a process of their own, since a child of a process with threads may find a lock held for ever.
TEST_SUITE_BEGIN("processes");

TEST_CASE("audits of every step give no alarm without a fault, and leave no trace") {
  const Outcome without = train(0, 3, {});
  CHECK(without.passed == 0);
  REQUIRE(without.digests.size() == kAuditedSteps);
  for (const int64_t workers : {1, 2, 3, 6}) {
    CAPTURE(workers);
    const Outcome audited = train(1, workers, {});
    CHECK(audited.passed == kAuditedSteps);
    CHECK(audited.committed == kAuditedSteps);
    CHECK((audited.digests == without.digests));
    for (const End& worker : audited.workers) CHECK(worker.finished);
  }
  CHECK(train(4, 2, {}).passed == 1);
}

TEST_CASE("averages of the weights, evaluations with metrics and steps without an update give no alarm") {
  const std::string metrics = "eval_every = 2\ntop_k = [2]\nper_class = true\n[ema]\ndecay = 0.9\n";
  CHECK(train(audited_job(1, metrics), 2, {}).passed == kAuditedSteps);
  // A rate with which all losses become NaN.
  for (const std::string& more : {kNeverEvaluated, metrics}) {
    CAPTURE(more);
    spec::JobSpec diverging = audited_job(1, "nonfinite = \"skip\"\n" + more);
    diverging.optimizer.lr = 1e38;
    CHECK(train(diverging, 2, {}).passed == kAuditedSteps);
  }
}

TEST_CASE("a worker that is always wrong is found and named at the first audit in which it takes part") {
  for (int64_t worker = 0; worker < 3; ++worker) {
    CAPTURE(worker);
    const Outcome outcome = train(1, 3, {worker});
    CHECK(outcome.blamed() == worker);
    CHECK(outcome.committed <= 1);  // of three workers two have a part in each audit
    const std::string error = outcome.workers[static_cast<size_t>(worker)].error;
    CHECK(error.find("of virtual rank") != error.npos);
    CHECK(error.find("the gradient of ") != error.npos);
    CHECK(error.find(fmt::format("vouches for what this device computed after step {}", 0)) != error.npos);
    for (const End& end : outcome.workers) CHECK(!end.finished);
  }
}

// At length, all workers.
TEST_CASE("single wrong mini-batches are found exactly if an audit compares them, and the right worker is named") {
  int planted = 0, found = 0;
  const int64_t workers = 3, last = testing::is_at_length() ? workers : 1;
  for (int64_t worker = 0; worker < last; ++worker) {
    for (int64_t number = 0; number < kAuditedSteps * kAuditedEsts / workers + 1; ++number) {
      CAPTURE(worker);
      CAPTURE(number);
      const Outcome outcome = train(1, workers, {worker, number, number + 1});
      const bool expected = is_compared(workers, worker, number);
      CHECK(outcome.blamed() == (expected ? worker : -1));
      CHECK((outcome.committed == kAuditedSteps) == !expected);
      ++planted;
      found += expected ? 1 : 0;
    }
  }
  MESSAGE(planted, " planted, ", found, " of them compared by an audit, and found");
  CHECK(found > 0);
  CHECK(found < planted);
}

TEST_CASE(
    "two workers: one that does not repeat its result is wrong; one that always does cannot be told from the other") {
  const Outcome once = train(1, 2, {0, 0, 1});
  CHECK(once.blamed() == 0);
  CHECK(once.committed == 0);
  const Outcome always = train(1, 2, {1});
  CHECK(always.blamed() == -1);
  CHECK(always.committed == 0);
  const std::string words = always.workers[0].error + std::string(always.workers[1].error);
  CHECK(words.find("cannot tell which device is wrong: worker 0 (cpu) and worker 1 (cpu)") != words.npos);
}

TEST_CASE("one worker is found if it contradicts itself, and not if it is always wrong in the same way") {
  const Outcome once = train(1, 1, {0, 0, 1});
  CHECK(once.blamed() == 0);
  CHECK(std::strstr(once.workers[0].error, "a second result of this device itself") != nullptr);
  const Outcome always = train(1, 1, {0});
  CHECK(always.blamed() == -1);
  CHECK(always.committed == kAuditedSteps);
}

// A stage of one step by one worker; what it throws.
std::string train_a_step(WorkerInProcess& worker) {
  comm::StageControl(worker.memory()).open();
  worker.memory().gate().ask_pause();
  try {
    Stage(worker.place(), order_of(1, 0)).run();
  } catch (const Error& error) {
    comm::StageControl(worker.memory()).repair();
    return error.what();
  }
  return "";
}

TEST_CASE("an audit knows slots of other sizes than their parameter") {
  spec::JobSpec spec = audited_job(1);
  spec.optimizer.name = spec::OptimizerKind::adafactor;
  CHECK(train(spec, 2, {}).passed == kAuditedSteps);
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker(spec, fd.get(), WorkerInProcess::plan_of(spec));
  REQUIRE(train_a_step(worker) == "");
  const OptimizerPlaces& places = worker.job().places().optimizer;
  const size_t last = places.slot_elements(0, 1) - 1;
  places.slot(worker.memory().state_of(Step(1)), 0, 1)[last] *= 2;
  CHECK(train_a_step(worker).find("found the state damaged in memory: ") != std::string::npos);
}

TEST_CASE("a bit that changes in the committed state is found by the audit of the next step, which names the tensor") {
  const spec::JobSpec spec = audited_job(2);
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker(spec, fd.get(), WorkerInProcess::plan_of(spec));
  TrainingJob& job = worker.job();
  REQUIRE(train_a_step(worker) == "");
  std::byte* state = worker.memory().state_of(Step(1));
  const auto& names = job.manifest().digest_names;
  struct Place {
    void* at;
    std::string name;
  };
  const Place places[] = {{job.places().model.parameter(state, 0), names[0]},
                          {job.places().optimizer.slot(state, 1, 0), names[1]},
                          {job.places().optimizer.slot(state, 0, 1), names[0]},
                          {job.places().ests.generator(state, VirtualRank(4)), "est/4/generator"}};
  for (const Place& place : places) {
    CAPTURE(place.name);
    auto* byte = static_cast<unsigned char*>(place.at) + 2;
    *byte ^= 1u;
    const std::string error = train_a_step(worker);
    *byte ^= 1u;
    CHECK(error.find("found the state damaged in memory: " + place.name) != error.npos);
    CHECK(worker.memory().commit().committed() == Step(1));
  }
  CHECK(train_a_step(worker) == "");  // repaired, the job continues
  CHECK(worker.memory().audits().passed() == 1);
  std::byte* next = worker.memory().state_of(Step(2));
  job.places().model.parameter(next, 0)[0] += 1;  // before a step that is not audited
  CHECK(train_a_step(worker) == "");
}

TEST_CASE("a requested audit is of the step after the current one, whatever audit.every says") {
  const spec::JobSpec spec = audited_job(0);
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker(spec, fd.get(), WorkerInProcess::plan_of(spec));
  worker.memory().audits().ask();
  REQUIRE(train_a_step(worker) == "");
  CHECK(worker.memory().audits().passed() == 0);
  REQUIRE(train_a_step(worker) == "");
  CHECK(worker.memory().audits().passed() == 1);
  CHECK(worker.memory().audits().newest() == Step(2));
  REQUIRE(train_a_step(worker) == "");
  CHECK(worker.memory().audits().passed() == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace estrain::train
