#include "core/hosts/look.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/interface.h"
#include "core/hosts/agents/link_meter.h"
#include "core/hosts/agents/look_answer.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/joining/joining.h"
#include "core/hosts/net/connection.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kBetweenTries = 200ms;
constexpr uint64_t kBulkFrames = 16;  // of most_frame_bytes
constexpr Nanoseconds kPatienceWithLooks = 30s;
constexpr Nanoseconds kPatienceWithPort = 3s;

// A look at one agent: connects, asks one question after another, and has a row.
class Look {
 public:
  Look(net::Loop& loop, const LookSetup& setup, const net::SharedKey& key, std::string name, std::function<void()> done)
      : loop_(loop), setup_(setup), key_(key), done_(std::move(done)), row_{{"host", std::move(name)}} {
    try_to_connect();
  }
  Look(const Look&) = delete;

  bool is_over() const { return over_; }
  bool is_connected() const { return link_ != nullptr; }
  // The row so far.
  Json row() const {
    Json row = row_;
    if (!over_ && !row.contains("error")) note(row, Error(Fault::peer, "it does not answer"));
    return row;
  }

 private:
  static void note(Json& row, const Error& why) {
    row["error"] = why.message();
    row["advice"] = why.advice();
    row["fault"] = static_cast<int>(why.fault());
  }

  void try_to_connect() {
    try {
      const HostFile file = read_host_file(setup_.run, row_.at("host"));
      row_["address"] = file.address;
      row_["sees_run"] = file.sees_run;
      net::connect(loop_, key_,
                   {.to = net::parse_address(file.address),
                    .host = row_.at("host"),
                    .own = own_greeting(name_of_run(setup_.run), "", "look", 0)},
                   [this](net::ConnectionPtr connection, const Error* why) {
                     if (why != nullptr) return fail(*why);
                     meter_.emplace(*connection, setup_.measure ? kBulkFrames : 0);
                     link_ = std::make_unique<MessageLink<LookQuestion, LookReply>>(
                         std::move(connection),
                         [this](const LookReply& said) { std::visit([this](const auto& one) { hear(one); }, said); },
                         [this](const Error& lost) { fail(lost); });
                     ask(AskFacts{});
                   });
    } catch (const Error& error) {
      fail(error);
    }
  }

  // A missing file or a closed port may belong to an agent that still comes; another version or key is final.
  void fail(const Error& why) {
    if (over_) return;
    note(row_, why);
    if (why.fault() == Fault::mismatch || link_) return finish();
    retry_ = loop_.once(kBetweenTries, [this] { try_to_connect(); });
  }

  void finish() {
    over_ = true;
    done_();
  }

  void ask(const LookQuestion& what) {
    asked_ = MonotonicClock::now();
    link_->send(what);
  }

  void hear(const HostFacts& facts) {
    const double took = seconds(MonotonicClock::now() - asked_).count();
    row_["cores"] = facts.cores;
    row_["clock_ahead_seconds"] = facts.clock - (wall_seconds() - took / 2);
    meter_->begin();
  }

  template <typename Metered>
  void hear(const Metered& said) {
    meter_->hear(said);
    if (!meter_->is_done()) return;
    row_["round_trip_seconds"] = meter_->round_trip_seconds();
    if (setup_.measure) row_["bytes_per_second"] = meter_->bytes_per_second();
    setup_.spec.empty() ? finish_well() : ask(AskData{setup_.spec});
  }

  void hear(const DataDigests& data) {
    row_["data"] = codec::to_field(data.files);
    finish_well();
  }

  void hear(const NoData& why) {
    row_["data_error"] = why.error;
    finish_well();
  }

  void finish_well() {
    for (const char* key : {"error", "advice", "fault"}) row_.erase(key);
    finish();
  }

  net::Loop& loop_;
  const LookSetup& setup_;
  const net::SharedKey& key_;
  const std::function<void()> done_;
  Json row_;
  std::unique_ptr<MessageLink<LookQuestion, LookReply>> link_;
  std::shared_ptr<net::Loop::Timer> retry_;
  MonotonicTime asked_{};
  std::optional<LinkMeter> meter_;
  bool over_ = false;
};

// A courier of this run that has just lost its launcher releases the port soon.
void listen(net::Loop& loop, const net::SharedKey& key, const LookSetup& setup,
            std::optional<AgentRegistry>& registry) {
  const MonotonicTime begin = MonotonicClock::now();
  const int64_t term = run_directory::term_of(setup.run).term;
  while (!registry) {
    try {
      registry.emplace(loop, key,
                       AgentRegistry::Options{setup.run, setup.own,
                                              listening_address(setup.listen, setup.interface, listen_example), term});
    } catch (const Error& error) {
      if (error.fault() != Fault::io || MonotonicClock::now() - begin > kPatienceWithPort) throw;
      std::this_thread::sleep_for(kBetweenTries);
    }
  }
}

}  // namespace

Json look_at_agents(const LookSetup& setup) {
  make_folders(setup.run);
  const net::SharedKey key =
      setup.key.empty() ? net::SharedKey::read_or_make(key_file(setup.run)) : net::SharedKey::read(setup.key);
  net::Loop loop;
  std::optional<AgentRegistry> registry;
  if (!setup.listen.empty()) listen(loop, key, setup, registry);
  std::vector<std::unique_ptr<Look>> looks;
  const auto stop_if_all_done = [&] {
    loop.post([&] {
      if (std::ranges::all_of(looks, [](const auto& look) { return look->is_over(); })) loop.stop();
    });
  };
  for (const std::string& name : setup.names)
    looks.push_back(std::make_unique<Look>(loop, setup, key, name, stop_if_all_done));
  std::shared_ptr<net::Loop::Timer> answers;
  const auto end = loop.once(nanoseconds(Seconds(setup.seconds)), [&] {
    const bool hears =
        std::ranges::any_of(looks, [](const auto& look) { return !look->is_over() && look->is_connected(); });
    if (!hears) return loop.stop();
    answers = loop.once(kPatienceWithLooks, [&loop] { loop.stop(); });
  });
  loop.run();
  Json rows = Json::array();
  for (const auto& look : looks) rows.push_back(look->row());
  return rows;
}

}  // namespace estrain::hosts

void estrain_look_at_agents(estrain::hosts::LookSetup* setup) {
  using namespace estrain::hosts;
  if (!setup->spec.empty()) {
    const auto own = data_digests_of(setup->spec);
    if (const auto* none = std::get_if<NoData>(&own))
      throw estrain::Error(estrain::Fault::io, none->error).advise(none->advice);
    setup->own_data = estrain::codec::to_field(std::get<DataDigests>(own).files);
  }
  setup->rows = look_at_agents(*setup);
}
