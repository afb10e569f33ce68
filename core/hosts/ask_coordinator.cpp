// A command's request to a coordinator on another host, by way of any agent of the run (commands/commands.h).

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/process/host_name.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/commands/command_messages.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/setup.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kPatience = 6s;  // while another host takes over
constexpr Nanoseconds kBetweenRounds = 300ms;
constexpr Nanoseconds kPatienceWithAgent = 2s;

// Asks one agent after another until an agent has a coordinator.
class Asking {
 public:
  Asking(net::Loop& loop, AskSetup& setup)
      : loop_(loop), setup_(setup), key_(net::SharedKey::read(key_file(setup.run))), begin_(MonotonicClock::now()) {
    if (setup.limit)
      limit_ = loop.once(*setup.limit, [this] {
        const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(*setup_.limit);
        end(Error::make(Fault::peer, "{}: the coordinator did not answer in {} s", setup_.run,
                        static_cast<double>(waited.count()) / 1000.0));
      });
    begin_round();
  }
  Asking(const Asking&) = delete;

  const std::optional<Error>& failed() const { return failed_; }

 private:
  // This host's own agent comes first: it is the nearest.
  void begin_round() {
    names_ = names_of_host_files(setup_.run);
    std::stable_partition(names_.begin(), names_.end(), [](const std::string& name) { return name != host_name(); });
    why_.clear();
    try_next();
  }

  void try_next() {
    link_.reset();
    asked_ = false;
    if (names_.empty()) return end_round();
    const std::string name = names_.back();
    names_.pop_back();
    patience_ = loop_.once(kPatienceWithAgent, [this, name] {
      if (!asked_) pass_on(name, "it does not answer");
    });
    const auto turn = ++turn_;
    try {
      net::connect(loop_, key_,
                   {.to = net::parse_address(read_host_file(setup_.run, name).address),
                    .host = name,
                    .own = own_greeting(name_of_run(setup_.run), "", "command", 0)},
                   [this, name, turn](net::ConnectionPtr connection, const Error* why) {
                     if (turn != turn_) return;
                     if (why != nullptr) return pass_on(name, why->message());
                     ask(name, std::move(connection));
                   });
    } catch (const Error& error) {
      pass_on(name, error.message());
    }
  }

  void ask(const std::string& name, net::ConnectionPtr connection) {
    link_ = std::make_unique<MessageLink<CommandQuestion, CommandReply>>(
        std::move(connection), [this, name](const CommandReply& said) { hear(name, said); },
        [this, name](const Error& lost) {
          end(Error::make(Fault::peer, "the connection to the agent of {} was lost before the answer was here: {}",
                          name, lost.message())
                  .advise("whether it was done: see `estrain status` and events.jsonl of the run"));
        });
    asked_ = true;
    link_->send(CommandRequest{setup_.request});
  }

  void hear(const std::string& name, const CommandReply& said) {
    if (const auto* none = std::get_if<NoCoordinator>(&said)) return pass_on(name, none->why);
    setup_.answer = std::get<CommandAnswer>(said).answer;
    loop_.stop();
  }

  // A moment later: the link may be calling back.
  void pass_on(const std::string& name, const std::string& why) {
    why_ += fmt::format("{}{}: {}", why_.empty() ? "" : "; ", name, why);
    ++turn_;
    loop_.post([this] { try_next(); });
  }

  void end_round() {
    if (MonotonicClock::now() - begin_ < kPatience) {
      patience_ = loop_.once(kBetweenRounds, [this] { begin_round(); });
      return;
    }
    end(Error::make(Fault::peer, "{}: no coordinator is reachable from here by an agent of the run ({})", setup_.run,
                    why_.empty() ? "there is none" : why_)
            .advise("start one on this host: estrain agent --run " + setup_.run + "; " + setup_.advice));
  }

  void end(Error why) {
    failed_ = std::move(why);
    loop_.stop();
  }

  net::Loop& loop_;
  AskSetup& setup_;
  const net::SharedKey key_;
  const MonotonicTime begin_;
  std::vector<std::string> names_;  // still to be asked, from the end
  std::string why_;
  std::unique_ptr<MessageLink<CommandQuestion, CommandReply>> link_;
  std::shared_ptr<net::Loop::Timer> limit_, patience_;
  uint64_t turn_ = 0;
  bool asked_ = false;
  std::optional<Error> failed_;
};

}  // namespace
}  // namespace estrain::hosts

void estrain_ask_coordinator(estrain::hosts::AskSetup* setup) {
  estrain::net::Loop loop;
  estrain::hosts::Asking asking(loop, *setup);
  loop.run();
  if (asking.failed()) throw estrain::Error(*asking.failed());
}
