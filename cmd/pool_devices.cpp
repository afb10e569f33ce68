#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>

#include "cmd/job_hosts.h"
#include "cmd/pool.h"
#include "cmd/validators.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"
#include "core/pool/daemon/daemon.h"
#include "core/pool/hosts/meeting.h"
#include "core/pool/ledger/ledger.h"
#include "core/pool/overview.h"
#include "core/pool/pool_client.h"
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
  const auto sign = pool::Meeting(arguments.directory).daemon();
  const Json devices =
      pool::devices_json(pool::Ledger::open(pool.database()).load(), sign ? sign->host : own_host_name());
  fmt::print("{}", arguments.json ? json_text(devices) + "\n" : pool::format_devices(devices, pool::wall_seconds()));
  return 0;
}

int ask_for(const DeviceArguments& arguments, const std::string& what) {
  launch::parse_devices(arguments.devices);  // reports a bad list without asking the daemon
  Json request = {{"do", what}, {"devices", arguments.devices}};
  if (arguments.within) request["within"] = *arguments.within;
  const Json answer = pool::ask_pool(arguments.directory, request);
  if (arguments.json) {
    fmt::print("{}\n", json_text(answer));
  } else if (const auto seconds = number_in(answer, "seconds")) {
    fmt::print("{} free after {:.2f} s\n", arguments.devices, *seconds);
  }
  return 0;
}

void add_verb(CLI::App& parent, const char* name, const char* about, const std::string& what, Action& chosen) {
  CLI::App* verb = parent.add_subcommand(name, about);
  auto arguments = std::make_shared<DeviceArguments>();
  verb->add_option("DIR", arguments->directory, "Folder of the pool")->required();
  verb->add_option("LIST", arguments->devices, "A number of CPU devices, or a list as for train")->required();
  verb->add_flag("--json", arguments->json, "Print as JSON");
  if (what == "take" || what == "remove") {
    if (what == "take") arguments->within = 2;
    verb->add_option("--within", arguments->within,
                     what == "take" ? "Time within which they must be free: 500ms, 5s, 2min (default 2s)"
                                    : "The same (default: when the jobs on them have let go)")
        ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"min", 60}},
                                          CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
        ->check(seconds_from(0.001));
  }
  verb->callback([arguments, what, &chosen] { chosen = [arguments, what] { return ask_for(*arguments, what); }; });
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
  add_verb(*devices, "add", "Devices that the pool has from now on", "add", chosen);
  add_verb(*devices, "remove", "Devices that leave the pool, as soon as jobs have let go of them", "remove", chosen);
  add_verb(pool, "take", "Take devices for a while, by a higher right: jobs shrink in time, and lose nothing", "take",
           chosen);
  add_verb(pool, "lend", "Let the pool use devices that were taken", "lend", chosen);
}

}  // namespace estrain::cmd
