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
#include "cmd/help/topic.h"
#include "cmd/help/verb.h"
#include "cmd/hosts_library.h"
#include "core/base/error.h"
#include "core/base/exit_codes.h"
#include "core/base/fault_words.h"
#include "core/base/json/json_text.h"
#include "core/base/unknown_word.h"
#include "core/base/visible_text.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/keys.h"
#include "core/run/launch/control/control_socket.h"

namespace {

using namespace estrain;

// The examples of a command, if any, and "Exit codes: 0 done; 1 failed; …".
std::string footer(const std::string& command) {
  std::string text = help::examples_of(command) + "Exit codes:";
  for (const ExitCode& code : exit_codes)
    text += fmt::format("{} {} {}", &code == exit_codes ? "" : ";", code.code, code.brief);
  return text + ".";
}

void add_footers(CLI::App& app, const std::string& name) {
  app.footer(footer(name));
  for (CLI::App* part : app.get_subcommands(nullptr))
    add_footers(*part, name.empty() ? part->get_name() : name + " " + part->get_name());
}

// `--alone=3` is an error, not `--alone`.
void refuse_values_of_flags(CLI::App& app) {
  const auto is_flag = [](const CLI::Option* option) { return option->get_items_expected_max() == 0; };
  for (CLI::Option* option : app.get_options(is_flag)) option->disable_flag_override();
  for (CLI::App* part : app.get_subcommands(nullptr)) refuse_values_of_flags(*part);
}

using AddCommand = void (*)(CLI::App&, cmd::Action&);

struct CommandGroup {
  const char* name;  // empty: hidden from help
  std::vector<AddCommand> commands;
};

// In the order of help.
const std::vector<CommandGroup>& command_groups() {
  static const std::vector<CommandGroup> groups = {
      {"Train", {cmd::add_demo, cmd::add_train, cmd::add_stop, cmd::add_change}},
      {"Change the devices of a job", {cmd::add_resize, cmd::add_offer, cmd::add_reclaim, cmd::add_agent}},
      {"Look at runs",
       {cmd::add_status, cmd::add_report, cmd::add_verify, cmd::add_evaluate, cmd::add_audit, cmd::add_weights}},
      {"Prepare a job", {cmd::add_init, cmd::add_export, cmd::add_convert, cmd::add_check, cmd::add_plan}},
      {"Many jobs", {cmd::add_pool, cmd::add_simulate}},
      {"Help", {cmd::add_help}},
      {"", {cmd::add_probe, cmd::add_worker, cmd::add_fork_server, cmd::add_scribe, cmd::add_courier, cmd::add_relay}}};
  return groups;
}

void add_commands(CLI::App& app, cmd::Action& chosen) {
  for (const CommandGroup& group : command_groups()) {
    for (const AddCommand add : group.commands) {
      add(app, chosen);
      app.get_subcommands(nullptr).back()->group(group.name);
    }
  }
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
  fmt::print(stderr, "estrain: {}\n{}\n", visible(help::with_id(error)), visible(advice));
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

// Returns the subcommand that was chosen last: "submit" of `pool submit`.
const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// Returns the key whose last part is `name`, such as "eval-every", if exactly one key has this last part.
std::string key_called(std::string name) {
  std::ranges::replace(name, '-', '_');
  std::vector<std::string> found;
  for (const auto& key : spec::job_keys()) {
    if (spec::leaf_of(key.name) == name) found.emplace_back(key.name);
  }
  return found.size() == 1 ? found.front() : "";
}

// Returns "--set train.epochs=3" for "--epochs=3" or "--epochs 3", for a command that takes --set.
std::string set_instead_of(const CLI::App& command, const std::string& option, const std::vector<std::string>& words) {
  const size_t equals = option.find('=');
  const std::string key = key_called(option.substr(2, equals - 2));
  if (key.empty() || command.get_option_no_throw("--set") == nullptr) return "";
  std::string value = equals == option.npos ? "VALUE" : option.substr(equals + 1);
  const auto at = std::ranges::find(words, option);
  if (equals == option.npos && at != words.end() && at + 1 != words.end() && !(at + 1)->starts_with("--"))
    value = *(at + 1);
  return fmt::format("--set {}={}", key, value);
}

// Returns the parser's error. For an option that the chosen command lacks, suggests the key of the spec that the option
// names, or else a similar option.
UnknownWord as_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App& command = chosen_command(app);
  const Error usage(Fault::usage, error.what());
  const std::vector<std::string> extras = app.remaining(true);
  const auto unknown = std::ranges::find_if(extras, [](const std::string& word) { return word.starts_with("--"); });
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || &command == &app || unknown == extras.end())
    return {usage, {}};
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  std::optional<std::string> meant = set_instead_of(command, *unknown, words);
  if (meant->empty()) meant = spec::closest(unknown->substr(0, unknown->find('=')), known);
  if (!meant) return {usage, {}};
  return {usage.advise(fmt::format("did you mean {}?", *meant)), {*meant}};
}

int run(int argc, char** argv, bool as_json) {
  CLI::App app{"Trains on whatever devices are free; the result does not depend on which they were.", "estrain"};
  app.set_version_flag("-V,--version", "estrain " ESTRAIN_VERSION, "Print the version, as `estrain version` does");
  app.require_subcommand(1);
  cmd::Action chosen;
  add_commands(app, chosen);
  add_footers(app, "");
  refuse_values_of_flags(app);
  std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  if (!words.empty() && words[0] == "version") words[0] = "--version";
  if (!words.empty() && !words[0].starts_with('-')) refuse_unknown_verb(app, words[0]);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const UnknownWord usage = as_error(app, error, words);
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
