#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "cmd/job_hosts.h"
#include "cmd/pool.h"
#include "cmd/validators.h"
#include "core/base/clock.h"
#include "core/base/json/json_text.h"
#include "core/pool/hosts/meeting.h"
#include "core/pool/ledger/ledger.h"
#include "core/pool/overview.h"
#include "core/pool/pool_request.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::cmd {
namespace {

struct DeviceArguments {
  std::string directory, devices;
  std::optional<double> within;
  bool json = false;
};

int list_devices(const DeviceArguments& arguments) {
  const pool::PoolDirectory pool(arguments.directory);
  pool.require_pool();
  const auto sign = pool::MeetingFolder(arguments.directory).daemon();
  const Json devices =
      pool::devices_json(pool::Ledger::open(pool.database()).load(), sign ? sign->host : own_host_name());
  fmt::print("{}", arguments.json ? json_text(devices) + "\n" : pool::format_devices(devices, wall_seconds()));
  return 0;
}

template <typename Request>
concept Withdraws = std::is_same_v<typename Request::Reply, pool::FreeReply>;

template <typename Request>
int ask_for(const DeviceArguments& arguments) {
  launch::parse_devices(arguments.devices);  // reports a bad list without asking the daemon
  Request request;
  request.devices = arguments.devices;
  if constexpr (Withdraws<Request>) request.within = arguments.within;
  const auto reply = pool::ask_pool(arguments.directory, request);
  if (arguments.json) fmt::print("{}\n", json_text(pool::encode_reply(reply)));
  if constexpr (Withdraws<Request>) {
    if (!arguments.json) fmt::print("{} free after {:.2f} s\n", arguments.devices, reply.seconds);
  }
  return 0;
}

template <typename Request>
void add_verb(CLI::App& parent, const char* about, Action& chosen) {
  CLI::App* verb = parent.add_subcommand(std::string(Request::name), about);
  auto arguments = std::make_shared<DeviceArguments>();
  verb->add_option("DIR", arguments->directory, "Folder of the pool")->required();
  verb->add_option("LIST", arguments->devices, "A number of CPU devices, or a list as for train")->required();
  verb->add_flag("--json", arguments->json, "Print as JSON");
  if constexpr (Withdraws<Request>) {
    constexpr bool takes = std::is_same_v<Request, pool::TakeRequest>;
    if (takes) arguments->within = 2;
    verb->add_option("--within", arguments->within,
                     takes ? "Time within which they must be free: 500ms, 5s, 2min (default 2s)"
                           : "The same (default: when the jobs on them have let go)")
        ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"min", 60}},
                                          CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
        ->check(seconds_from(0.001));
  }
  verb->callback([arguments, &chosen] { chosen = [arguments] { return ask_for<Request>(*arguments); }; });
}

}  // namespace

void add_pool_devices(CLI::App& pool, Action& chosen) {
  CLI::App* devices = pool.add_subcommand(
      "devices", "The pool's devices: who uses them, and since when; add and remove change which there are");
  devices->require_subcommand(0, 1);
  auto arguments = std::make_shared<DeviceArguments>();
  devices->add_option("DIR", arguments->directory, "Folder of the pool, whose devices are listed");
  devices->add_flag("--json", arguments->json, "Print as JSON");
  devices->callback([arguments, devices, &chosen] {
    if (!devices->get_subcommands().empty()) return;
    if (arguments->directory.empty()) throw CLI::RequiredError("DIR, add or remove");
    chosen = [arguments] { return list_devices(*arguments); };
  });
  add_verb<pool::AddRequest>(*devices, "Devices that the pool has from now on", chosen);
  add_verb<pool::RemoveRequest>(*devices, "Devices that leave the pool, as soon as jobs have let go of them", chosen);
  add_verb<pool::TakeRequest>(
      pool, "Take devices for a while, by a higher right: jobs shrink in time, and lose nothing", chosen);
  add_verb<pool::LendRequest>(pool, "Let the pool use devices that were taken", chosen);
}

}  // namespace estrain::cmd
