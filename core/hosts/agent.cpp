// An agent starts workers on its host when the coordinator's relay asks, and runs the host's courier (setup.h).

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/process/watched_signals.h"
#include "core/base/visible_text.h"
#include "core/hosts/agent_workers.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/interface.h"
#include "core/hosts/agents/look_answer.h"
#include "core/hosts/agents/name_holder.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/agents/stranger_log.h"
#include "core/hosts/commands/commands.h"
#include "core/hosts/courier/courier.h"
#include "core/hosts/joining/joining.h"
#include "core/hosts/orphan.h"
#include "core/hosts/setup.h"
#include "core/hosts/succession/takeover.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kPatienceWithAnswers = 1s;
constexpr Nanoseconds kBetweenLooks = 1s;  // for a lost coordinator
constexpr Nanoseconds kOfNewLaunch = 10s;
constexpr Nanoseconds kFarewell = 200ms;
constexpr Nanoseconds kBetweenLookUps = 500ms;

UniqueFd new_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw system_error("cannot create an event descriptor", errno);
  return fd;
}

class Agent {
 public:
  explicit Agent(AgentSetup& setup)
      : setup_(setup),
        directory_(setup.run),
        run_name_(joins() ? "" : name_of_run(setup.run)),
        key_(key_of(setup)),
        workers_(loop_, directory_, setup.name, !joins(), [this](const Error& why) { leave(why); }),
        strangers_(loop_, setup.run, setup.name),
        listener_(
            loop_, key_,
            {.at = address_of(setup),
             .own = own_greeting(run_name_, setup.name, "agent", 0),
             .accepted = [this](net::ConnectionPtr connection) { on_connection(std::move(connection)); },
             .refused = [this](const std::string& address, const Error& why) { strangers_.note(address, why); }}) {
    if (!joins()) require_free_name(loop_, key_, setup.run, setup.name);
    begin_anew(0);
    block_signals();
    look_ = loop_.every(kBetweenLooks, [this] { look_for_coordinator(); });
    write_host_file(setup.run, setup.name, own_file());
    fmt::print("host {}: waits for workers to start on {}\n", setup.name, listener_.address().text());
    std::fflush(stdout);
    if (joins()) join();
    if (!joins()) twins_ = loop_.once(kBetweenLooks, [this] { require_own_file(); });
  }
  ~Agent() { remove_host_file(setup_.run, setup_.name, own_file()); }

  void run() {
    loop_.run();
    if (failed_) throw Error(*failed_);
  }

 private:
  // Everything that this host holds of a run while one coordinator leads the run.
  struct Term {
    int64_t number = 0;
    UniqueFd memory, doorbell;
    std::unique_ptr<Courier> courier;
    std::optional<OrphanHost> orphan;  // while the coordinator is lost
  };

  bool joins() const { return !setup_.join.empty(); }  // the host does not see the run directory
  HostFile own_file() const { return {listener_.address().text(), !joins()}; }

  static net::SharedKey key_of(const AgentSetup& setup) {
    make_folders(setup.run);
    return setup.key.empty() ? net::SharedKey::read_or_make(key_file(setup.run)) : net::SharedKey::read(setup.key);
  }

  static std::string interface_of(const AgentSetup& setup) {
    const std::string spec = run_directory::RunDirectory(setup.run).spec();
    const bool is_told = !setup.interface.empty() || !setup.address.empty() || !setup.join.empty();
    if (is_told || !std::filesystem::exists(spec)) return setup.interface;
    return spec::parse_file(spec).network.interface;
  }

  // The launcher's name may resolve to no address yet, and this host may have no route yet: both may come.
  static std::string address_toward_launcher(const AgentSetup& setup) {
    const net::Address named = net::split_address(setup.join);
    const MonotonicTime deadline = MonotonicClock::now() + nanoseconds(Seconds(setup.patience_seconds));
    Error why(Fault::peer, "");
    do {
      try {
        const Nanoseconds left = std::max(Nanoseconds(0), deadline - MonotonicClock::now());
        for (const net::Address& to : look_up_within(named, left)) {
          if (std::string own = way_to(to, why); !own.empty()) return own;
        }
      } catch (const Error& error) {
        why = error;
      }
      std::this_thread::sleep_for(kBetweenLookUps);
    } while (MonotonicClock::now() < deadline);
    throw why.within("cannot join at " + setup.join).advise("wait longer for it: --patience SECONDS");
  }

  // Returns an empty string if no route leads there.
  static std::string way_to(const net::Address& to, Error& why) {
    try {
      return address_toward(to);
    } catch (const Error& error) {
      why = error;
      return "";
    }
  }

  static net::Address address_of(const AgentSetup& setup) {
    const std::string interface = interface_of(setup);
    const bool follows_the_way = !setup.join.empty() && interface.empty() && setup.address.empty();
    const std::string text = follows_the_way ? address_toward_launcher(setup) : setup.address;
    return listening_address(text, interface, "--interface eth0, --address 10.0.0.2");
  }

  // Joining by the launcher's address.

  void join() {
    registration_.emplace(
        loop_, key_,
        Registration::Options{.to = setup_.join,
                              .from = listener_.address().host,
                              .name = setup_.name,
                              .address = listener_.address().text(),
                              .joined = [this](const net::Greeting& registry) { return on_joined(registry); },
                              .refused = [this](const Error& why) { fail(why); },
                              .ended = [this] { end(0, "the run is over"); }});
  }

  bool on_joined(const net::Greeting& registry) {
    const PeerAnswer answer = judge_registry(held_.number, held_.orphan.has_value(), registry.term);
    if (answer == PeerAnswer::turn_away) return false;
    run_name_ = registry.run;
    listener_.serve_run(run_name_);
    if (answer == PeerAnswer::begin_anew) begin_anew(registry.term);
    say("has joined at " + setup_.join);
    return true;
  }

  void fail(const Error& why) {
    failed_ = why.within("cannot join at " + setup_.join);
    loop_.stop();
  }

  bool is_led() const {
    return held_.courier->links().to("") != nullptr || desk_.has_coordinator() || !workers_.empty();
  }

  // A host with a lost coordinator waits in OrphanHost, with OrphanHost's own patience.
  void look_after_registration() {
    if (!registration_->is_given_up(is_led() || held_.orphan, nanoseconds(Seconds(setup_.patience_seconds)))) return;
    if (registration_->was_joined()) return end(75, "no coordinator came back at " + setup_.join);
    fail(registration_->why().advise("is a job at work there, with --listen? Wait longer for it: --patience SECONDS"));
  }

  // Two agents with one name that start at the same moment do not find each other: the last writer of the file wins.
  void require_own_file() {
    const auto file = read_host_file_if_sound(setup_.run, setup_.name);
    if (!file || *file == own_file()) return;
    failed_ = name_is_taken(setup_.name, file->address);
    loop_.stop();
  }

  void block_signals() {
    ::signal(SIGPIPE, SIG_IGN);
    const auto signals = std::make_shared<UniqueFd>(watch_signals(std::array{SIGTERM, SIGINT, SIGUSR1, SIGHUP}));
    signals_ = loop_.watch(signals->get(), [this, signals] { end(0, "asked to by a signal"); });
  }

  void say(const std::string& what) const {
    fmt::print("host {}: {}\n", setup_.name, visible_in_line(what));
    std::fflush(stdout);
  }

  void end(int code, const std::string& why) {
    say("ends: " + why);
    setup_.exit_code = code;
    loop_.stop();
  }

  // Drops everything left from the previous coordinator. None of this is needed: the next coordinator leads only if the
  // run's files hold all of it.
  void begin_anew(int64_t term) {
    workers_.kill_all();
    if (held_.courier) {
      held_.courier->retire();
      loop_.drop_later(std::move(held_.courier));
    }
    held_.orphan.reset();
    held_.number = term;
    held_.memory = comm::JobMemory::create();
    held_.doorbell = new_doorbell();
    workers_.begin_anew(held_.memory.get(), held_.doorbell.get());
    held_.courier = std::make_unique<Courier>(
        loop_, Courier::Options{.key = key_,
                                .own = own_greeting(run_name_, setup_.name, "courier", term),
                                .from = listener_.address().host,
                                .memory = held_.memory.get(),
                                .doorbell = held_.doorbell.get(),
                                .tell =
                                    [this](const OwnerMessage& said) {
                                      std::visit([this](const auto& one) { on_courier(one); }, said);
                                    },
                                .opened = [this](uint64_t stage) { workers_.on_opened(stage); },
                                .aborted = [this](uint64_t stage) { workers_.on_never_opened(stage); }});
  }

  void on_connection(net::ConnectionPtr connection) {
    const net::Greeting& peer = connection->peer();
    if (peer.host.empty() && (peer.purpose == "commands" || peer.purpose == "worker" || peer.purpose == "courier"))
      led_ = MonotonicClock::now();
    if (peer.purpose == "look") return on_look(std::move(connection));
    if (peer.purpose == "command") return desk_.take_client(std::move(connection));
    if (peer.purpose == "commands") return desk_.take_coordinator(std::move(connection));
    const PeerAnswer answer = judge_peer(held_.number, held_.orphan.has_value(), peer.term, peer.host.empty());
    if (answer == PeerAnswer::turn_away) return connection->close();
    if (answer == PeerAnswer::begin_anew) {
      if (held_.orphan) say("follows the next coordinator");
      begin_anew(peer.term);
    }
    if (peer.host.empty() && !sees_locks_ && !joins()) sees_locks_ = sees_locks(directory_);
    if (connection->peer().purpose == "courier") return held_.courier->links().take(connection);
    if (connection->peer().purpose != "worker") return connection->close();
    workers_.take(std::move(connection));
  }

  void on_look(net::ConnectionPtr connection) {
    looks_.emplace_back();
    const auto at = std::prev(looks_.end());
    at->emplace(loop_, std::move(connection), [this, at] { loop_.post([this, at] { looks_.erase(at); }); });
  }

  void on_courier(const RunEnds& said) {
    if (said.goes_on) return await_next_launch();
    // A command that has ended the run still waits for its answer. The command's client closes the connection when the
    // answer has arrived.
    desk_.when_answered(kPatienceWithAnswers, [this] { end(0, "the run is over"); });
  }
  void on_courier(const LostHost& lost) {
    if (lost.host.empty()) return on_coordinator_lost(lost.why);
    if (held_.orphan) held_.orphan->lose(lost.host);
  }
  void on_courier(const ClaimHeard& heard) {
    if (held_.orphan) held_.orphan->hear(heard.host, heard.claim);
  }
  template <typename Other>
  void on_courier(const Other&) {}  // for the launcher

  // The run resumes in a new launch, which leads in the next term from a checkpoint: no state of this launch is needed.
  // If no launch wants workers on this host, the host leaves the run.
  void await_next_launch() {
    say("waits for the run's next launch");
    workers_.forget_wanted();
    loop_.post([this, term = held_.number] {
      if (held_.number == term) begin_anew(term);
    });
  }

  void on_coordinator_lost(const std::string& why) {
    if (held_.orphan) return;
    say("the coordinator is lost: " + why);
    held_.courier->abort_stage();
    workers_.kill_all();
    held_.orphan.emplace(loop_, *held_.courier, directory_,
                         OrphanHost::Options{.name = setup_.name,
                                             .term = held_.number,
                                             .sees_run = !joins(),
                                             .sees_locks = sees_locks_,
                                             .patience = nanoseconds(Seconds(setup_.patience_seconds)),
                                             .shared = workers_.shared(),
                                             .own_file = own_file(),
                                             .own_devices = workers_.wanted_devices(),
                                             .alone = workers_.alone(),
                                             .end = [this](const std::string& reason) {
                                               end(75,
                                                   reason + "; resume with estrain train --resume" +
                                                       (joins() ? ", where the launcher was" : " --run " + setup_.run));
                                             }});
    if (joins()) registration_->renew();
  }

  // A coordinator may be lost before this host is in a stage of its term. If no host has opened a stage of this term,
  // the newest checkpoint is the newest state, and any host may resume from the checkpoint.
  void look_for_coordinator() {
    if (joins()) return look_after_registration();
    const bool may_succeed = held_.orphan && held_.orphan->opened_a_stage();
    if (may_succeed || is_led()) led_ = MonotonicClock::now();
    if (is_over()) return;
    const bool waits =
        workers_.empty() && !held_.courier->holding().last_stage() && held_.courier->links().to("") == nullptr;
    if (held_.orphan || !workers_.were_wanted() || !sees_locks_ || !waits) return;
    Lease lease = take_lease(directory_, {held_.number, 0}, true);
    if (lease.answer == LeaseAnswer::over) workers_.forget_wanted();
    if (!lease.lock) return;
    const std::string devices = workers_.wanted_devices();
    say("continues from the newest checkpoint, on " + devices);
    directory_.log_event(
        "takeover",
        {{"step", newest_checkpoint(directory_)}, {"host", setup_.name}, {"devices", devices}, {"saved", true}});
    remove_host_file(setup_.run, setup_.name, own_file());
    become_coordinator(directory_, workers_.alone(), devices, setup_.name, std::move(*lease.lock));
  }

  // Ends an agent whose run is over although no coordinator has told the agent: the courier was lost, or never came.
  // Between two launches, a run has no owner for a moment.
  bool is_over() {
    const Nanoseconds alone = led_ == kNoTime ? 0ns : MonotonicClock::now() - led_;
    if (alone > kOfNewLaunch && !directory_.owner()) {
      end(0, "the run is over");
      return true;
    }
    if (alone <= nanoseconds(Seconds(setup_.patience_seconds))) return false;
    end(75, "no coordinator came back; resume with estrain train --resume --run " + setup_.run);
    return true;
  }

  // This host can have no worker any more. The coordinator hears the reason before the connections end.
  void leave(const Error& why) {
    if (leaves_) return;
    failed_ = why;
    leaves_ = loop_.once(kFarewell, [this] { loop_.stop(); });
  }

  AgentSetup& setup_;
  const run_directory::RunDirectory directory_;
  std::string run_name_;  // of the run with this key; empty: the agent is about to join and does not know the name yet
  const net::SharedKey key_;
  net::Loop loop_;
  AgentWorkers workers_;
  std::list<std::optional<LookAnswer>> looks_;
  CommandDesk desk_{loop_};
  bool sees_locks_ = false;
  MonotonicTime led_ = kNoTime;  // when a coordinator was last connected; kNoTime: never
  Term held_;
  std::shared_ptr<net::Loop::Timer> look_, leaves_, twins_;
  StrangerLog strangers_;
  net::Listener listener_;
  std::optional<Registration> registration_;  // of a joining agent
  std::optional<Error> failed_;
  std::shared_ptr<net::Loop::Watch> signals_;
};

}  // namespace
}  // namespace estrain::hosts

void estrain_run_agent(estrain::hosts::AgentSetup* setup) {
  estrain::hosts::require_host_name(setup->name);
  estrain::net::allow_many_descriptors();
  estrain::hosts::Agent(*setup).run();
}
