// An agent: starts workers on its host as the coordinator's proxies ask, and carries for them (setup.h).

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <list>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/process/watched_signals.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/interface.h"
#include "core/hosts/agents/look_answer.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/commands/command_desk.h"
#include "core/hosts/courier/courier.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/joining/registration.h"
#include "core/hosts/orphan.h"
#include "core/hosts/setup.h"
#include "core/hosts/succession/takeover.h"
#include "core/launch/directory/passed_spec.h"
#include "core/launch/directory/worker_library.h"
#include "core/launch/preflight/devices.h"
#include "core/launch/preflight/start.h"
#include "core/launch/run/processes/processes.h"
#include "core/place/device.h"
#include "core/spec/parsing/parse.h"

namespace estrain::hosts {
namespace {

constexpr int kPatienceWithKillMs = 1500;
constexpr int64_t kPatienceWithAnswersNs = 1'000'000'000;
constexpr int kBetweenLooksMs = 1000;  // for a coordinator that came to grief

Json words_of(const Error& error) { return codec::encode(comm::WorkerReport(comm::Failed(error))); }

// The stage of an order to run; 0: another order.
uint64_t stage_of_order(const Json& order) {
  const Json beyond = order.value("beyond", Json::object());
  return order.value("is", "") == comm::RunStage::name ? beyond.value("stage", uint64_t{0}) : 0;
}

UniqueFd new_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw system_error("cannot create an event descriptor", errno);
  return fd;
}

// One worker of this host, and its proxy's connection.
struct Session {
  std::unique_ptr<MessageLink> proxy;
  launch::WorkerProcess worker;
  std::shared_ptr<net::Loop::Watch> socket, process;
  bool builds = false, closed = false;
  std::optional<Json> order;  // to run in a stage that is not open here yet
};

class Agent {
 public:
  explicit Agent(AgentSetup& setup)
      : setup_(setup),
        directory_(setup.run),
        key_(key_of(setup)),
        library_(::open(launch::worker_library().c_str(), O_RDONLY | O_CLOEXEC)),
        listener_(loop_, key_,
                  {.at = address_of(setup),
                   .own = own_greeting(setup.name, "agent", 0),
                   .accepted = [this](net::ConnectionPtr connection) { on_connection(std::move(connection)); },
                   .refused = [this](const std::string& address, const Error& why) { on_stranger(address, why); }}) {
    begin_anew(0);
    block_signals();
    look_ = loop_.every(kBetweenLooksMs, [this] { look_for_coordinator(); });
    write_host_file(setup.run, setup.name, {listener_.address().text(), !joins()});
    fmt::print("host {}: waits for workers to start on {}\n", setup.name, listener_.address().text());
    std::fflush(stdout);
    if (joins()) join();
  }
  ~Agent() { remove_host_file(setup_.run, setup_.name); }

  void run() {
    loop_.run();
    if (failed_) throw *failed_;
  }

 private:
  using Sessions = std::list<Session>;
  using At = Sessions::iterator;

  bool joins() const { return !setup_.join.empty(); }  // it does not see the run directory

  static net::Key key_of(const AgentSetup& setup) {
    make_folders(setup.run);
    return setup.key.empty() ? net::Key::read_or_make(key_file(setup.run)) : net::Key::read(setup.key);
  }

  static std::string interface_of(const AgentSetup& setup) {
    const std::string spec = launch::RunDirectory(setup.run).spec();
    const bool is_told = !setup.interface.empty() || !setup.address.empty() || !setup.join.empty();
    if (is_told || !std::filesystem::exists(spec)) return setup.interface;
    return spec::parse_file(spec).network.interface;
  }

  static net::Address address_of(const AgentSetup& setup) {
    const std::string interface = interface_of(setup);
    const bool follows_the_way = !setup.join.empty() && interface.empty() && setup.address.empty();
    const std::string text = follows_the_way ? address_toward(net::parse_address(setup.join)) : setup.address;
    return listening_address(text, interface, "--interface eth0, --address 10.0.0.2");
  }

  // Joining by the launcher's address.

  void join() {
    registration_.emplace(loop_, key_,
                          Registration::Options{.to = setup_.join,
                                                .from = listener_.address().host,
                                                .name = setup_.name,
                                                .address = listener_.address().text(),
                                                .joined = [this](int64_t term) { return on_joined(term); },
                                                .refused = [this](const Error& why) { fail(why); },
                                                .ended = [this] { end(0, "the run is over"); }});
  }

  bool on_joined(int64_t term) {
    const PeerAnswer answer = judge_registry(term_, orphan_.has_value(), term);
    if (answer == PeerAnswer::turn_away) return false;
    if (answer == PeerAnswer::begin_anew) begin_anew(term);
    say("has joined at " + setup_.join);
    return true;
  }

  void fail(const Error& why) {
    failed_ = why.within("cannot join at " + setup_.join);
    loop_.stop();
  }

  // An orphan has a patience of its own.
  void look_after_registration() {
    const int64_t now = monotonic_ns();
    const bool is_led = courier_->links().to("") != nullptr || desk_.has_coordinator() || !sessions_.empty();
    if (registration_->is_joined() || is_led || orphan_) attended_ns_ = now;
    if (now - attended_ns_ <= nanoseconds(setup_.patience_seconds)) return;
    if (registration_->was_joined()) return end(75, "no coordinator came back at " + setup_.join);
    fail(registration_->why().advise("is a job at work there, with --listen? Wait longer for it: --patience SECONDS"));
  }

  void block_signals() {
    ::signal(SIGPIPE, SIG_IGN);
    signals_ = watch_signals(std::array{SIGTERM, SIGINT, SIGUSR1, SIGHUP});
    signal_watch_ = loop_.watch(signals_.get(), [this] { end(0, "asked to by a signal"); });
  }

  void say(const std::string& what) const {
    fmt::print("host {}: {}\n", setup_.name, what);
    std::fflush(stdout);
  }

  void end(int code, const std::string& why) {
    say("ends: " + why);
    setup_.exit_code = code;
    loop_.stop();
  }

  // A command that has ended the run still waits for its answer; it closes the connection when it has it.
  void end_after_answers(int64_t latest_ns) {
    if (!desk_.has_clients() || monotonic_ns() > latest_ns) return end(0, "the run is over");
    answers_timer_ = loop_.once(10, [this, latest_ns] { end_after_answers(latest_ns); });
  }

  void on_stranger(const std::string& address, const Error& why) {
    directory_.log_event("refused_connection", {{"host", setup_.name}, {"from", address}, {"why", why.message()}});
  }

  // Drops all that is left of the coordinator before: the new one would not lead if the run's files lacked any of it.
  void begin_anew(int64_t term) {
    for (At at = sessions_.begin(); at != sessions_.end(); ++at) close(at);
    if (courier_) courier_->retire();
    if (courier_) retired_.push_back(std::move(courier_));
    term_ = term;
    orphan_.reset();
    spec_ = {};
    opened_ = never_opened_ = 0;
    memory_ = comm::JobMemory::create();
    doorbell_ = new_doorbell();
    courier_ = std::make_unique<Courier>(
        loop_, Courier::Options{.key = key_,
                                .own = own_greeting(setup_.name, "courier", term),
                                .from = listener_.address().host,
                                .memory = memory_.get(),
                                .doorbell = doorbell_.get(),
                                .tell = [this](const Json& said) { on_courier(said); },
                                .opened = [this](uint64_t stage) { on_opened(stage); },
                                .aborted = [this](uint64_t stage) { on_never_opened(stage); }});
  }

  void on_connection(net::ConnectionPtr connection) {
    const net::Greeting& peer = connection->peer();
    if (peer.purpose == "look") return on_look(std::move(connection));
    if (peer.purpose == "command") return desk_.take_client(std::move(connection));
    if (peer.purpose == "commands") return desk_.take_coordinator(std::move(connection));
    const PeerAnswer answer = judge_peer(term_, orphan_.has_value(), peer.term, peer.host.empty());
    if (answer == PeerAnswer::turn_away) return connection->close();
    if (answer == PeerAnswer::begin_anew) {
      if (orphan_) say("follows the next coordinator");
      begin_anew(peer.term);
    }
    if (peer.host.empty() && !sees_locks_ && !joins()) sees_locks_ = sees_locks(directory_);
    if (connection->peer().purpose == "courier") return courier_->links().take(std::move(connection));
    if (connection->peer().purpose != "worker") return connection->close();
    sessions_.emplace_back();
    const At at = std::prev(sessions_.end());
    at->proxy = std::make_unique<MessageLink>(
        std::move(connection), [this, at](const Json& said) { on_proxy(at, said); },
        [this, at](const Error&) { close(at); });
  }

  void on_look(net::ConnectionPtr connection) {
    looks_.emplace_back();
    const auto at = std::prev(looks_.end());
    at->emplace(loop_, std::move(connection), [this, at] { loop_.post([this, at] { looks_.erase(at); }); });
  }

  void on_proxy(At at, const Json& said) {
    try {
      if (said.value("do", "") == "start") return start(at, said);
    } catch (const Error& error) {
      at->proxy->send({{"relay", words_of(error)}});
      at->proxy->send({{"ended", {{"code", exit_code(error.fault())}}}});
      return;
    }
    if (!said.contains("relay")) return;
    const Json& order = said.at("relay");
    const uint64_t stage = stage_of_order(order);
    const bool waits = stage != 0 && stage != opened_;
    if (waits && stage == never_opened_) return leave_for(*at);
    if (waits) {
      at->order = order;
    } else {
      at->worker.socket.send(codec::decode<comm::WorkerOrder>(order));
    }
  }

  // Leaves a stage that was aborted before it was open here.
  static void leave_for(Session& session) {
    session.order.reset();
    session.proxy->send({{"relay", codec::encode(comm::WorkerReport(comm::LeftStage{}))}});
  }

  void start(At at, const Json& said) {
    const spec::JobSpec spec = spec::parse_text(said.value("spec", ""), "the job's spec");
    if (!spec_) spec_ = launch::pass_spec(spec);
    launch::WorkerStart start;
    start.id = said.value("id", INT64_C(0));
    codec::from_field(said.at("options"), start.options);
    const std::optional<place::Device> device = place::parse_device(start.options.device);
    if (!device) throw Error::make(Fault::usage, "\"{}\" is no device", start.options.device);
    start.device = *device;
    launch::check_devices({start.device}, {.mixed = true, .oversubscribed = true});
    if (joins()) require_own_algorithms(start.device, spec.job);
    start.job = spec.job;
    const bool stands = comm::JobMemory(memory_.get()).is_ready();
    if (sessions_.size() == 1) asked_.clear();
    asked_.push_back(start.options.device);
    allow_mixed_ = start.options.allow_mixed;
    start.options.builds = !stands && std::ranges::none_of(sessions_, &Session::builds);
    launch::SharedDescriptors shared{memory_.get(), doorbell_.get(), -1, spec_.get(), library_.get()};
    shared.courier = doorbell_.get();
    at->builds = start.options.builds;
    launch::QuickStart quick;  // by a server that is ready: the agent waits for none
    if (launch::starts_by_fork(*device, spec)) {
      fork_servers_.begin(*device, spec.job, shared);
      quick.servers = &fork_servers_;
    }
    at->worker = launch::start_worker(directory_, shared, start, quick);
    at->socket = loop_.watch(at->worker.socket.descriptor(), [this, at] { on_worker(*at); });
    at->process = loop_.watch(at->worker.process.descriptor(), [this, at] { on_worker_end(at); });
  }

  // All workers of a run take them from a file of the run directory.
  static void require_own_algorithms(const place::Device& device, const spec::JobSection& job) {
    if (!device.is_gpu() || job.kernels == spec::Kernels::portable || job.algorithms != spec::Algorithms::measured)
      return;
    throw Error(Fault::infeasible,
                "a host that does not see the run directory does not know the GPU algorithms of the run")
        .advise("set job.algorithms = \"torch\" or job.determinism = \"D2\", or share the run directory: agent --run");
  }

  void on_worker(Session& session) {
    comm::WorkerReport said;
    while (session.worker.socket) {
      const comm::Received received = session.worker.socket.receive(&said, 0);
      if (received == comm::Received::nothing) return;
      if (received == comm::Received::closed) {
        session.socket.reset();  // its end follows
        return;
      }
      session.proxy->send({{"relay", codec::encode(said)}});
    }
  }

  void on_worker_end(At at) {
    on_worker(*at);
    at->socket.reset();
    at->process.reset();
    at->builds = false;
    const ChildEnd ended = at->worker.process.wait();
    at->proxy->send(
        {{"ended",
          {{"signaled", ended.signaled}, {"code", ended.code}, {"peak_memory_bytes", ended.peak_memory_bytes}}}});
  }

  // The proxy has ended, as the worker did or before it: the launcher takes the worker for ended.
  void close(At at) {
    if (std::exchange(at->closed, true)) return;
    at->socket.reset();
    at->process.reset();
    if (at->worker.process.running()) {
      at->worker.process.signal(SIGKILL);
      at->worker.process.wait_for(kPatienceWithKillMs);
    }
    loop_.post([this, at] { sessions_.erase(at); });
  }

  void on_courier(const Json& said) {
    const std::string say = said.value("say", ""), host = said.value("host", "");
    if (say == "end") return end_after_answers(monotonic_ns() + kPatienceWithAnswersNs);
    if (say == "host_lost" && host.empty()) return on_coordinator_lost(said.value("why", ""));
    if (orphan_ && say == "host_lost") orphan_->lose(host);
    if (orphan_ && say == "orphan") orphan_->hear(host, said);
  }

  void on_coordinator_lost(const std::string& why) {
    if (orphan_) return;
    say("the coordinator is lost: " + why);
    courier_->abort_stage();
    for (At at = sessions_.begin(); at != sessions_.end(); ++at) close(at);
    orphan_.emplace(loop_, *courier_, directory_,
                    OrphanHost::Options{.name = setup_.name,
                                        .term = term_,
                                        .sees_run = !joins(),
                                        .sees_locks = sees_locks_,
                                        .patience_ns = nanoseconds(setup_.patience_seconds),
                                        .shared = {memory_.get(), doorbell_.get(), -1, spec_.get(), library_.get()},
                                        .own_devices = own_devices(),
                                        .alone = alone(),
                                        .end = [this](const std::string& reason) {
                                          end(75, reason + "; go on by estrain train --resume" +
                                                      (joins() ? ", where the launcher was" : " --run " + setup_.run));
                                        }});
    if (joins()) registration_->renew();
  }

  // A coordinator may come to grief before this host is in a stage of its term. While no stage of it is open anywhere,
  // the newest checkpoint is all that there is, and any host may go on from it.
  void look_for_coordinator() {
    if (joins()) return look_after_registration();
    const bool waits = sessions_.empty() && !courier_->holding().last_stage() && courier_->links().to("") == nullptr;
    if (orphan_ || asked_.empty() || !sees_locks_ || !waits) return;
    Lease lease = take_lease(directory_, {term_, 0}, true);
    if (lease.answer == LeaseAnswer::over) asked_.clear();
    if (!lease.lock) return;
    const std::string devices = own_devices();
    say("goes on from the newest checkpoint, on " + devices);
    directory_.log_event(
        "takeover",
        {{"step", newest_checkpoint(directory_)}, {"host", setup_.name}, {"devices", devices}, {"saved", true}});
    remove_host_file(setup_.run, setup_.name);
    become_coordinator(directory_, alone(), devices, setup_.name, std::move(*lease.lock));
  }

  std::string own_devices() const { return place::list_of(place::devices_from(asked_)); }

  HostPlan alone() const {
    HostPlan plan;
    plan.allow_mixed = allow_mixed_;
    plan.grace_seconds = launch::StartRequest().grace_seconds;
    return plan;
  }

  void on_opened(uint64_t stage) {
    opened_ = stage;
    for (Session& session : sessions_) {
      if (!session.order || stage_of_order(*session.order) != stage) continue;
      session.worker.socket.send(codec::decode<comm::WorkerOrder>(*std::exchange(session.order, std::nullopt)));
    }
  }

  void on_never_opened(uint64_t stage) {
    never_opened_ = stage;
    for (Session& session : sessions_) {
      if (session.order && stage_of_order(*session.order) == stage) leave_for(session);
    }
  }

  AgentSetup& setup_;
  const launch::RunDirectory directory_;
  const net::Key key_;
  net::Loop loop_;
  UniqueFd memory_, doorbell_, library_, spec_, signals_;
  Sessions sessions_;
  std::list<std::optional<LookAnswer>> looks_;
  CommandDesk desk_{loop_};
  std::shared_ptr<net::Loop::Timer> answers_timer_;
  uint64_t opened_ = 0, never_opened_ = 0;
  int64_t term_ = 0;
  bool sees_locks_ = false;
  std::unique_ptr<Courier> courier_;
  std::vector<std::unique_ptr<Courier>> retired_;  // what is under way may still come to them
  std::optional<OrphanHost> orphan_;               // while the coordinator is lost
  launch::ForkServers fork_servers_;
  std::vector<std::string> asked_;  // devices that a coordinator wanted workers on last
  bool allow_mixed_ = false;
  std::shared_ptr<net::Loop::Timer> look_;
  net::Listener listener_;
  std::optional<Registration> registration_;  // of one that joins
  std::optional<Error> failed_;
  int64_t attended_ns_ = monotonic_ns();
  std::shared_ptr<net::Loop::Watch> signal_watch_;
};

}  // namespace
}  // namespace estrain::hosts

void estrain_run_agent(estrain::hosts::AgentSetup* setup) {
  estrain::hosts::require_host_name(setup->name);
  estrain::hosts::Agent(*setup).run();
}
