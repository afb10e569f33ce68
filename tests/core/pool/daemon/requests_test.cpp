#include "core/pool/daemon/requests.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
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

// Users without an account: of the pool's folder, and two others.
constexpr uint32_t kOwner = 70000, kFirst = 70001, kSecond = 70002;

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
          if (const std::optional<Json> answer = requests.answer({client, uid}, request)) server.reply(client, *answer);
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
  Error refusal_of(const Json& request) {
    return error_of([&] { answer_to(request); });
  }

  uint32_t uid = ::geteuid();  // of who asks
  int heard = 0;
  Chronicle chronicle{Ledger::open(hosts.directory.database())};
  launch::ControlServer server{hosts.directory.path()};
  PoolRequests requests{dispatcher, hosts, chronicle, kOwner};
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

Json submission_without_user() {
  Json request = submission();
  request.erase("user");
  return request;
}

TEST_CASE("a user's job is cancelled and released by the user, the pool's owner and root, and by nobody else") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  at.uid = kFirst;
  for (const dispatch::JobId id : {2, 3, 4}) {
    CHECK(at.answer_to(submission_without_user()).at("job") == id);
    CHECK(at.dispatcher.state().jobs.at(id).request.user == "70001");
    CHECK(at.dispatcher.state().jobs.at(id).request.uid == kFirst);
  }
  CHECK(Ledger::open(at.hosts.directory.database()).load().jobs.at(2).request.uid == kFirst);
  const auto cancel = [](dispatch::JobId id) { return Json{{"do", "cancel"}, {"job", id}}; };
  at.uid = kSecond;
  const Error refused = at.refusal_of(cancel(2));
  CHECK(refused.fault() == Fault::usage);
  CHECK(refused.message() == "cancel: job 2 belongs to 70001 (uid 70001), and you are 70002 (uid 70002)");
  CHECK(refused.advice() == "ask 70001, or the pool's owner, 70000 (uid 70000)");
  CHECK(at.refusal_of({{"do", "release"}, {"job", 2}}).message().starts_with("release: job 2 belongs to 70001"));
  CHECK(at.refusal_of(cancel(9)).message() == "there is no job 9");
  for (const dispatch::JobId id : {2, 3, 4}) CHECK(at.dispatcher.state().jobs.at(id).phase == Phase::checking);
  const std::array<uint32_t, 3> users = {kFirst, kOwner, 0};
  for (const dispatch::JobId id : {2, 3, 4}) {
    at.uid = users[static_cast<size_t>(id - 2)];
    CHECK(at.answer_to(cancel(id)).at("ok") == true);
    CHECK(at.dispatcher.state().jobs.at(id).phase == Phase::cancelled);
  }
}

TEST_CASE("only the pool's owner submits jobs for other users: the job is the user's if the host knows the user") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  at.uid = kFirst;
  CHECK(at.refusal_of(submission()).message() ==
        "--user ann: you are 70001 (uid 70001), and only the pool's owner submits jobs for other users");
  CHECK(at.hosts.directory.jobs() == std::vector<dispatch::JobId>{1});
  at.uid = kOwner;
  Json own = submission();
  own["user"] = "no such account";
  CHECK(at.answer_to(own).at("job") == 2);
  CHECK(at.dispatcher.state().jobs.at(2).request.user == "no such account");
  CHECK(at.dispatcher.state().jobs.at(2).request.uid == kOwner);
  own["user"] = "root";
  CHECK(at.answer_to(own).at("job") == 3);
  CHECK(at.dispatcher.state().jobs.at(3).request.uid == 0);
}

TEST_CASE("only the pool's owner changes the policy and the devices") {
  Asking at(state_with_job(Phase::done, {"cpu"}));
  at.uid = kFirst;
  CHECK(at.refusal_of({{"do", "policy"}, {"policy", "srtf"}}).message() ==
        "policy: the pool belongs to 70000 (uid 70000), and you are 70001 (uid 70001)");
  for (const char* verb : {"add", "remove", "take", "lend"}) {
    CAPTURE(verb);
    CHECK(at.refusal_of({{"do", verb}, {"devices", "cpu"}}).message().starts_with(std::string(verb) + ": the pool"));
  }
  CHECK(at.dispatcher.state().slots[0].state == dispatch::Slot::State::present);
  CHECK(at.dispatcher.state().policy == "fifo");
  at.uid = kOwner;
  CHECK(at.answer_to({{"do", "policy"}, {"policy", "srtf"}}).at("ok") == true);
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
