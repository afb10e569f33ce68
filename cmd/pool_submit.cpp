#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/pool.h"
#include "cmd/validators.h"
#include "core/base/json/json_text.h"
#include "core/base/visible_text.h"
#include "core/job/spec/parsing/parse.h"
#include "core/pool/pool_request.h"

namespace estrain::cmd {
namespace {

struct SubmitArguments {
  std::string directory, spec, user;
  std::vector<std::string> overrides;
  int64_t least = 0, priority = 0;
  std::optional<int64_t> most;
  std::optional<double> deadline;
  bool alone = false, background = false, json = false;
};

int submit(const SubmitArguments& arguments) {
  const pool::SubmitReply reply =
      pool::ask_pool(arguments.directory,
                     pool::SubmitRequest{.spec = spec::to_toml(spec::parse_file(arguments.spec, arguments.overrides)),
                                         .user = arguments.user,
                                         .least = arguments.least,
                                         .most = arguments.most,
                                         .deadline = arguments.deadline,
                                         .priority = arguments.priority,
                                         .alone = arguments.alone,
                                         .background = arguments.background});
  if (arguments.json) {
    fmt::print("{}\n", json_text(pool::encode_reply(reply)));
  } else {
    fmt::print("job {}, run directory {}\n", reply.job, visible_in_line(reply.run));
  }
  return 0;
}

}  // namespace

void add_pool_submit(CLI::App& pool, Action& chosen) {
  CLI::App* verb = pool.add_subcommand("submit", "Put a job into the queue");
  auto arguments = std::make_shared<SubmitArguments>();
  verb->add_option("DIR", arguments->directory, "Folder of the pool")->required();
  verb->add_option("SPEC", arguments->spec,
                   "Job spec (TOML). Its resources.devices says how many devices policies with gangs give it")
      ->required();
  verb->add_option("--set", arguments->overrides, "Override a key of the spec: --set data.batch=16")
      ->take_all()
      ->expected(1);
  verb->add_option("--min", arguments->least, "Devices that it keeps once it runs (default 0: it may be stopped)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  verb->add_option("--max", arguments->most, "Devices that it may have (default: its ESTs)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  verb->add_option("--deadline", arguments->deadline, "When it should be done, from now: 30min, 4h, 2d")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}},
                                        CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
      ->check(seconds_from(0.001));
  verb->add_option("--priority", arguments->priority, "From -20 to 20; jobs of a higher one come first (default 0)")
      ->check(CLI::Range(-20, 20));
  verb->add_flag("--alone", arguments->alone, "Keep other jobs off the hosts that it has devices on");
  verb->add_flag(
      "--background", arguments->background,
      "Submit a guest: on free CPUs, else on one CPU beside a job, as long as the guest does not slow the job. "
      "The guest leaves at once when another job needs the device");
  verb->add_option(
          "--user", arguments->user,
          "User whose job it is, and whose fair share it counts against (default: who submits it); only the pool's "
          "owner submits for others")
      ->check(not_empty());
  verb->add_flag("--json", arguments->json, "Print as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return submit(*arguments); }; });
}

}  // namespace estrain::cmd
