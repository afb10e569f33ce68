#include "core/engine/train/workplace/exchange_ahead.h"

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "core/job/spec/parsing/parse.h"
#include "core/state/comm/stage_control.h"
#include "tests/core/engine/train/worker_in_process.h"

namespace estrain::train {
namespace {

using namespace std::chrono_literals;

// Transfers nothing.
class NoTransfers : public device::DeviceExchange {
 public:
  explicit NoTransfers(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~NoTransfers() override { --alive_; }
  bool connect(std::function<void()>) override { return true; }
  void follow() override {}
  void transfer(const device::TransferGroup&) override {}
  void run(const std::function<void()>&) override {}
  std::function<void()> mark() override { return {}; }
  void check() override {}

 private:
  std::atomic<int>& alive_;
};

// Workers meet when the test says so.
class SlowMeeting : public device::CpuDevice {
 public:
  device::ExchangeId new_exchange() override { return {std::byte{7}}; }
  std::unique_ptr<device::DeviceExchange> open_exchange(const device::ExchangeId& id,
                                                        const device::ExchangeParty& party) override {
    CHECK(id[0] == std::byte{7});
    CHECK(party.workers == 3);
    if (fails) throw Error(Fault::device, "no network");
    while (!all_met) {
      if (party.is_aborted()) return nullptr;
      std::this_thread::sleep_for(1ms);
    }
    parties.push_back(party);
    return std::make_unique<NoTransfers>(alive);
  }

  std::atomic<bool> all_met = false, fails = false;
  std::atomic<int> alive = 0;
  std::vector<device::ExchangeParty> parties;  // of the exchanges that were made
};

struct Preparing {
  explicit Preparing(bool used = true) : is_used(used) {}

  const bool is_used;
  const spec::JobSpec spec = spec::parse_text(
      "[job]\nests = 1\n[model]\nname = \"mlp\"\nhidden = [5]\n[data]\nformat = \"synthetic\"\nshape = [7]\n"
      "samples = 64\nbatch = 2\n[train]\nsteps = 9\n",
      "test");
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker{spec, fd.get(), WorkerInProcess::plan_of(spec)};
  comm::JobMemory& memory = worker.memory();
  SlowMeeting device;
  std::vector<comm::ExchangeOrder> waiting;  // orders in the socket, the next one last
  std::mutex mutex;
  std::condition_variable said;
  std::vector<comm::ExchangeReport> reports;
  ExchangeAhead next{device, memory, is_used,
                     [this]() -> std::optional<comm::ExchangeOrder> {
                       if (waiting.empty()) return std::nullopt;
                       const comm::ExchangeOrder order = waiting.back();
                       waiting.pop_back();
                       return order;
                     },
                     [this](const comm::ExchangeReport& report) {
                       const std::lock_guard lock(mutex);
                       reports.push_back(report);
                       said.notify_all();
                     }};

  void ask(int64_t ticket) {
    memory.meetings().ask_exchange(ticket);
    waiting.insert(waiting.begin(), {ticket, 0, 3});
  }
  comm::ExchangeReport report(size_t number) {
    std::unique_lock lock(mutex);
    REQUIRE(said.wait_for(lock, 60s, [&] { return reports.size() > number; }));
    return reports[number];
  }
};

TEST_CASE("an exchange is made beside the stage, and taken once by its ticket") {
  Preparing preparing;
  preparing.next.look();
  preparing.ask(1);
  preparing.next.look();
  preparing.next.look();  // the same one
  CHECK(preparing.reports.empty());
  preparing.device.all_met = true;
  CHECK(preparing.report(0).ticket == 1);
  CHECK(preparing.report(0).made);
  preparing.next.keep_only(1);
  {
    const std::unique_ptr<device::DeviceExchange> exchange = preparing.next.take(1);
    CHECK(exchange);
    CHECK(preparing.device.alive == 1);
    preparing.ask(2);  // while a stage uses the first exchange
    preparing.next.look();
    CHECK(preparing.report(1).made);
    CHECK_FALSE(preparing.device.parties[0].is_aborted());
    CHECK(preparing.next.take(2));
    CHECK(preparing.device.alive == 1);
  }
  CHECK_FALSE(preparing.next.take(1));
  CHECK(preparing.device.alive == 0);
}

TEST_CASE("an exchange that is not wanted any more ends, whether the others have met or not") {
  Preparing preparing;
  const auto end = [&preparing] {
    SUBCASE("the launcher gives it up") {
      preparing.memory.meetings().ask_exchange(0);
      preparing.next.look();
    }
    SUBCASE("the launcher asks for another one") {
      preparing.ask(2);
      preparing.device.fails = true;
      preparing.next.look();
      CHECK_FALSE(preparing.report(1).made);
      CHECK(preparing.report(1).ticket == 2);
    }
    SUBCASE("a stage begins without it") { preparing.next.keep_only(0); }
    SUBCASE("a stage asks for another one") { CHECK_FALSE(preparing.next.take(3)); }
  };
  preparing.ask(1);
  for (const bool met : {false, true}) {
    SUBCASE(met ? "all have met" : "not all have met") {
      preparing.device.all_met = met;
      preparing.next.look();
      if (met) CHECK(preparing.report(0).made);
      end();
      CHECK(preparing.report(0).made == met);
      CHECK(preparing.device.alive == 0);
      CHECK_FALSE(preparing.next.take(1));
    }
  }
}

TEST_CASE("a job whose stages use no exchange prepares none, and says so at once") {
  Preparing preparing(false);
  preparing.ask(1);
  preparing.next.look();
  CHECK_FALSE(preparing.report(0).made);
  CHECK(preparing.report(0).ticket == 1);
  preparing.next.look();
  CHECK_FALSE(preparing.next.take(1));
  CHECK(preparing.reports.size() == 1);
  CHECK(preparing.device.parties.empty());
}

TEST_CASE("an aborted stage ends the meeting; a late order for an exchange that is given up is ignored") {
  Preparing preparing;
  preparing.ask(1);
  preparing.next.look();
  comm::StageControl(preparing.memory).abort();
  CHECK_FALSE(preparing.report(0).made);
  comm::StageControl(preparing.memory).open();
  CHECK(preparing.memory.meetings().exchange_asked() == 0);
  preparing.next.prepare({1, 0, 3});
  CHECK_FALSE(preparing.next.take(1));
  CHECK(preparing.reports.size() == 1);

  preparing.waiting = {{5, 0, 3}, {4, 0, 3}};  // of which 4 was given up before this worker looked
  preparing.memory.meetings().ask_exchange(5);
  preparing.device.all_met = true;
  preparing.next.look();
  CHECK(preparing.report(1).ticket == 5);
  CHECK(preparing.next.take(5));
}

}  // namespace
}  // namespace estrain::train
