// estrain: elastic, bit-exact training. One verb per file; see commands.h.

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>

#include "cmd/commands.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/launch/control_socket.h"
#include "core/spec/closest.h"

namespace {

using namespace estrain;

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 failed; 2 bad usage or bad spec; 3 runs differ (verify); 75 stopped early but resumable.";

// On stderr in words; for whoever asked for JSON on stdout, too.
int report(const Error& error, bool as_json) {
  if (as_json) fmt::print("{}\n", json_text(launch::error_answer(error)));
  std::fprintf(stderr, "estrain: %s\n", error.message().c_str());
  if (!error.advice().empty()) std::fprintf(stderr, "%s\n", error.advice().c_str());
  return error.exit_code();
}

// Whoever starts this program may have closed these; a file that is opened later must not get their numbers.
void open_standard_files() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) ::close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

// What CLI11 would call a missing subcommand.
void refuse_unknown_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_name() == word) return;
    if (!verb->get_group().empty()) verbs.push_back(verb->get_name());
  }
  const std::optional<std::string> meant = spec::closest(word, verbs);
  throw Error::make(Fault::usage, "unknown command \"{}\"; {}", word,
                    meant ? fmt::format("did you mean \"{}\"?", *meant) : "known are " + spec::quoted_list(verbs));
}

int run(int argc, char** argv, bool as_json) {
  CLI::App app{"Trains on whatever devices are free; the result does not depend on which they were."};
  app.set_version_flag("--version", "estrain " ESTRAIN_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  cmd::Action chosen;
  for (auto add : {cmd::add_train, cmd::add_resize, cmd::add_offer, cmd::add_reclaim, cmd::add_verify, cmd::add_status,
                   cmd::add_report, cmd::add_stop, cmd::add_check, cmd::add_plan, cmd::add_simulate, cmd::add_export,
                   cmd::add_init, cmd::add_agent, cmd::add_probe, cmd::add_worker, cmd::add_scribe, cmd::add_courier,
                   cmd::add_proxy}) {
    add(app, chosen);
  }
  for (CLI::App* verb : app.get_subcommands(nullptr)) verb->footer(kFooter);
  if (argc > 1 && argv[1][0] != '-') refuse_unknown_verb(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    if (as_json) return report(Error(Fault::usage, error.what()), as_json);
    app.exit(error);
    return exit_code(Fault::usage);
  }
  return chosen();
}

int run_or_report(int argc, char** argv) {
  const bool as_json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
  try {
    return run(argc, argv, as_json);
  } catch (const Error& error) {
    return report(error, as_json);
  } catch (const std::exception& error) {
    return report(Error(Fault::bug, error.what()), as_json);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  // The kernel names a process by the file that it executed, which for a child is /proc/self/exe.
  ::prctl(PR_SET_NAME, program_invocation_short_name);
  try {
    return run_or_report(argc, argv);
  } catch (const std::exception& error) {  // of the report: nobody reads stdout any more, or memory is out
    std::fprintf(stderr, "estrain: %s\n", error.what());
    return exit_code(Fault::bug);
  }
}
