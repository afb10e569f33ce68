#include "core/pool/daemon/requests.h"

#include <doctest/doctest.h>

#include <chrono>
#include <future>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "tests/core/pool/daemon/resting_pool.h"
#include "tests/error_of.h"

namespace estrain::pool {
namespace {

constexpr const char* kSpec = R"(
[job]
ests = 4
[model]
name = "mlp"
[data]
shape = [7]
[train]
steps = 50
)";

struct Asking : RestingPool {
  explicit Asking(dispatch::State state) : RestingPool(std::move(state)) { dispatcher.tell(dispatch::TimePassed{}); }

  std::future<Json> ask(const Json& request) {
    return std::async(std::launch::async,
                      [path = hosts.directory.path(), request] { return launch::ask_server(path, request, 20s); });
  }
  void serve_once() {
    std::vector<pollfd> polled = server.polled(MonotonicClock::now());
    ::poll(polled.data(), polled.size(), 10);
    server.serve_objects(
        polled,
        [this](launch::ClientId client, const Json& request) {
          ++heard;
          if (const std::optional<Json> answer = requests.answer(client, request)) server.reply(client, *answer);
        },
        MonotonicClock::now());
  }
  static bool is_answered(const std::future<Json>& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  Json answer_to(const Json& request) {
    std::future<Json> answer = ask(request);
    while (!is_answered(answer)) serve_once();
    return answer.get();
  }

  int heard = 0;
  Chronicle chronicle{Ledger::open(hosts.directory.database())};
  launch::ControlServer server{hosts.directory.path()};
  PoolRequests requests{dispatcher, hosts, chronicle};
};

Json submission() { return {{"do", "submit"}, {"spec", kSpec}, {"user", "ann"}, {"most", 8}}; }

TEST_CASE("a job whose submission was answered is on the disk, with its spec") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  CHECK(at.answer_to(submission()).at("job") == 2);
  const dispatch::State saved = Ledger::open(at.hosts.directory.database()).load();
  REQUIRE(saved.jobs.contains(2));
  CHECK(saved.jobs.at(2).request.user == "ann");
  CHECK(saved.jobs.at(2).request.most == 4);
  CHECK(saved.jobs.at(2).request.total_steps == 50);
  CHECK(bytes_of(at.hosts.directory.spec(2)) == kSpec);
}

TEST_CASE("a background job is a guest, and what no guest can have is refused by name") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  Json guest = submission();
  guest["background"] = true;
  guest["least"] = 1;
  CHECK(error_of([&] { at.answer_to(guest); }).message().starts_with("--background: --min"));
  guest["least"] = 0;
  CHECK(at.answer_to(guest).at("job") == 2);
  CHECK(at.dispatcher.state().jobs.at(2).request.background);
}

TEST_CASE("a job that cannot be written down is not taken") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  auto other = sqlite::Database::open(at.hosts.directory.database(), sqlite::Access::read_write);
  other.execute("CREATE TRIGGER full BEFORE INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'no room'); END");
  const Error error = error_of([&] { at.answer_to(submission()); });
  CHECK(error.message().find("the job was not taken") != std::string::npos);
  CHECK(at.dispatcher.state().jobs.size() == 1);
  CHECK(at.hosts.directory.jobs() == std::vector<dispatch::JobId>{1});
}

TEST_CASE("a job gets a folder that none had before it, and a refused one leaves none") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  make_folders(at.hosts.directory.run(2));
  make_folders(at.hosts.directory.run(3));
  Json wrong = submission();
  wrong["least"] = 9;
  CHECK(error_of([&] { at.answer_to(wrong); }).fault() == Fault::usage);
  CHECK(at.hosts.directory.jobs() == std::vector<dispatch::JobId>{1, 2, 3});
  const Json answer = at.answer_to(submission());
  const dispatch::JobId id = answer.at("job");
  CHECK(id > 3);
  CHECK(answer.at("run") == at.hosts.directory.run(id));
  CHECK(bytes_of(at.hosts.directory.spec(id)) == kSpec);
  CHECK(Ledger::open(at.hosts.directory.database()).load().jobs.contains(id));
}

TEST_CASE("a request that a pool does not know, a wrong spec and a wrong policy are refused, and change nothing") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  CHECK(error_of([&] { at.answer_to({{"do", "dance"}}); }).fault() == Fault::usage);
  CHECK(error_of([&] { at.answer_to({{"do", "policy"}, {"policy", "lifo"}}); }).fault() == Fault::usage);
  Json wrong = submission();
  wrong["spec"] = "[job]\nestss = 4\n";
  CHECK(error_of([&] { at.answer_to(wrong); }).fault() == Fault::spec);
  CHECK(at.dispatcher.state().jobs.size() == 1);
  CHECK(at.dispatcher.state().policy == "fifo");
}

TEST_CASE("devices of another host join only as far as its agent offers them") {
  Asking at(state_with_job(Phase::done, {"nodeB/cpu"}));
  CHECK(error_of([&] { at.answer_to({{"do", "add"}, {"devices", "nodeC/cpu"}}); }).fault() == Fault::usage);
  CHECK(error_of([&] { at.answer_to({{"do", "add"}, {"devices", "nodeB/cpu*2"}}); }).fault() == Fault::usage);
  CHECK(at.answer_to({{"do", "add"}, {"devices", "nodeB/cpu"}}).at("ok") == true);
  CHECK(at.dispatcher.state().slots.size() == 2);
}

TEST_CASE("who takes devices hears of it when they are free") {
  Asking at(state_with_job(Phase::running, {"cpu", "cpu"}));
  at.processes.launchers[1] = {};
  std::future<Json> answer = at.ask({{"do", "take"}, {"devices", "cpu"}, {"within", 60}});
  while (at.heard == 0) at.serve_once();
  at.serve_once();
  CHECK(at.job().phase == Phase::changing);
  const auto release = [&] {
    size_t released = 0;
    for (const dispatch::Action& action : at.dispatcher.take_actions()) {
      if (const auto* one = std::get_if<dispatch::Released>(&action))
        at.server.reply(one->client, reply_to(*one)), ++released;
    }
    return released;
  };
  CHECK(release() == 0);
  CHECK_FALSE(Asking::is_answered(answer));
  at.dispatcher.tell(dispatch::DevicesChanged{1, {"cpu"}});
  CHECK(release() == 1);
  while (!Asking::is_answered(answer)) at.serve_once();
  CHECK(answer.get().at("devices") == Json::array({"cpu"}));
}

TEST_CASE("devices that are lent again are the pool's again") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  std::future<Json> taken = at.ask({{"do", "take"}, {"devices", "cpu"}});
  while (at.heard == 0) at.serve_once();
  for (const dispatch::Action& action : at.dispatcher.take_actions()) {
    if (const auto* one = std::get_if<dispatch::Released>(&action)) at.server.reply(one->client, reply_to(*one));
  }
  while (!Asking::is_answered(taken)) at.serve_once();
  CHECK(at.dispatcher.state().slots[0].state == dispatch::Slot::State::away);
  at.answer_to({{"do", "lend"}, {"devices", "cpu"}});
  CHECK(at.dispatcher.state().slots[0].state == dispatch::Slot::State::present);
}

}  // namespace
}  // namespace estrain::pool
