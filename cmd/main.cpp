// estrain: elastic, bit-exact training. One verb per file; see commands.h.

#include <estrain/version.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>

#include "cmd/commands.h"
#include "cmd/hosts_library.h"
#include "core/base/error.h"
#include "core/base/exit_codes.h"
#include "core/base/fault_words.h"
#include "core/base/json/json_text.h"
#include "core/base/unknown_word.h"
#include "core/base/visible_text.h"
#include "core/job/spec/keys/closest.h"
#include "core/run/launch/control/control_socket.h"

namespace {

using namespace estrain;

// "Exit codes: 0 done; 1 failed; …"
std::string footer() {
  std::string text = "Exit codes:";
  for (const ExitCode& code : exit_codes)
    text += fmt::format("{} {} {}", &code == exit_codes ? "" : ";", code.code, code.brief);
  return text + ".";
}

// Prints the error to stderr as text, and with --json also to stdout as JSON. An error without advice gets the advice
// of its kind.
int report(const Error& error, bool as_json, const std::vector<std::string>& similar = {}) {
  const std::string advice = error.advice().empty() ? std::string(words_of(error.fault()).hint) : error.advice();
  if (as_json) {
    Json answer = launch::error_answer(error.advise(advice));
    if (!similar.empty()) answer["similar"] = similar;
    fmt::print("{}\n", json_text(answer));
  }
  fmt::print(stderr, "estrain: {}\n{}\n", visible(error.message()), visible(advice));
  return error.exit_code();
}

// The parent may have closed the standard descriptors. Reopen them, or a file opened later would get their numbers.
void open_standard_files() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) ::close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

// Refuses an unknown verb; CLI11 would report a missing subcommand.
void refuse_unknown_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_name() == word) return;
    if (!verb->get_group().empty()) verbs.push_back(verb->get_name());
  }
  const std::optional<std::string> meant = spec::closest(word, verbs);
  throw UnknownWord(
      Error::make(Fault::usage, "unknown command \"{}\"; {}", word,
                  meant ? fmt::format("did you mean \"{}\"?", *meant) : "known are " + spec::quoted_list(verbs)),
      meant ? std::vector{*meant} : std::vector<std::string>{});
}

// Returns the parser's error. For an option that the chosen command lacks, suggests a similar option.
UnknownWord as_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  std::vector<std::string> known;
  if (extras != nullptr && !chosen.empty()) {
    for (const CLI::Option* option : chosen.front()->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  const std::string words = error.what();
  const std::string first = words.substr(std::min(words.find("--"), words.size()));
  const auto meant = spec::closest(first.substr(0, first.find_first_of(" =")), known);
  const Error usage(Fault::usage, words);
  if (!meant) return {usage, {}};
  return {usage.advise(fmt::format("did you mean {}?", *meant)), {*meant}};
}

int run(int argc, char** argv, bool as_json) {
  CLI::App app{"Trains on whatever devices are free; the result does not depend on which they were.", "estrain"};
  app.set_version_flag("--version", "estrain " ESTRAIN_VERSION);
  app.require_subcommand(1);
  app.footer(footer());
  cmd::Action chosen;
  for (auto add : {cmd::add_train,  cmd::add_resize,      cmd::add_change, cmd::add_offer,    cmd::add_reclaim,
                   cmd::add_verify, cmd::add_audit,       cmd::add_status, cmd::add_report,   cmd::add_stop,
                   cmd::add_check,  cmd::add_plan,        cmd::add_pool,   cmd::add_simulate, cmd::add_weights,
                   cmd::add_export, cmd::add_init,        cmd::add_agent,  cmd::add_help,     cmd::add_probe,
                   cmd::add_worker, cmd::add_fork_server, cmd::add_scribe, cmd::add_courier,  cmd::add_proxy}) {
    add(app, chosen);
  }
  for (CLI::App* verb : app.get_subcommands(nullptr)) verb->footer(footer());
  if (argc > 1 && argv[1][0] != '-') refuse_unknown_verb(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const UnknownWord usage = as_error(app, error);
    return report(usage, as_json, usage.similar);
  }
  cmd::reach_other_hosts();
  return chosen();
}

// Calls of LibTorch and HDF5 need more than a tiny stack; threads get the limit as their size, too.
constexpr rlim_t kLeastStack = rlim_t{1} << 20, kUsualStack = rlim_t{8} << 20;

// Raises a small limit on the stack if the hard limit permits: children inherit the limit.
void require_stack() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeastStack) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(limit.rlim_max, kUsualStack);
  if (limit.rlim_cur >= kLeastStack && ::setrlimit(RLIMIT_STACK, &limit) == 0) return;
  throw Error::make(Fault::infeasible, "the stack may have {} KB here, {} are needed", before / 1024,
                    kLeastStack / 1024)
      .advise("raise the limit: ulimit -s 8192, as root or in the shell that lowered it");
}

int run_or_report(int argc, char** argv) {
  const bool as_json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
  try {
    require_stack();
    return run(argc, argv, as_json);
  } catch (const UnknownWord& error) {
    return report(error, as_json, error.similar);
  } catch (const Error& error) {
    return report(error, as_json);
  } catch (const std::exception& error) {
    return report(Error(Fault::bug, error.what()), as_json);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` is then an error, as on a full disk
  // The kernel names a process after the executed file, which is /proc/self/exe for a child.
  ::prctl(PR_SET_NAME, program_invocation_short_name);
  try {
    return run_or_report(argc, argv);
  } catch (const std::exception& error) {  // the report itself failed: stdout is closed, or memory ran out
    std::fprintf(stderr, "estrain: %s\n", error.what());
    return exit_code(Fault::bug);
  }
}
