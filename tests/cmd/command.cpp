#include "command.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {
namespace {

// These tests share no measured speeds and algorithms with other jobs.
struct OwnProfiles {
  ScratchFolder folder;
  OwnProfiles() { ::setenv("ESTRAIN_PROFILES", (folder / "profiles.json").c_str(), 1); }
} own_profiles;

std::string fresh_output_file() {
  std::string pattern = (std::filesystem::temp_directory_path() / "estrain-output-XXXXXX").string();
  ::close(::mkstemp(pattern.data()));
  return pattern;
}

// The program under test, or another build named by the environment.
std::string program() {
  const char* named = std::getenv("ESTRAIN_PROGRAM");
  return named != nullptr ? named : ESTRAIN_PROGRAM;
}

ChildProcess start(const Words& arguments, const Command::Options& options, const std::string& output) {
  ChildOptions child;
  if (!options.before.empty()) child.arguments = {"/bin/sh", "-c", options.before + "; exec \"$@\"", "sh"};
  child.arguments.push_back(program());
  child.arguments.insert(child.arguments.end(), arguments.begin(), arguments.end());
  child.output = output;
  return ChildProcess::start(child);
}

ProcessInfo read_process(pid_t pid) {
  ProcessInfo info;
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream stat(folder + "/stat");
  std::string line;
  std::getline(stat, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || line.size() < name_end + 4 || line[name_end + 2] == 'Z') return info;
  info.pid = pid;
  info.parent = std::atoi(line.c_str() + name_end + 4);
  std::ifstream words(folder + "/cmdline", std::ios::binary);
  for (std::string word; std::getline(words, word, '\0');) info.arguments.push_back(word);
  return info;
}

}  // namespace

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string Ended::shown() const { return "exit code " + std::to_string(code) + ", it said:\n" + text; }

Command::Command(const Words& arguments, Options options)
    : output_(fresh_output_file()), process_(start(arguments, options, output_)) {}

Command::~Command() {
  kill();
  if (!output_.empty()) ::unlink(output_.c_str());
}

void Command::kill() {
  if (!process_.running()) return;
  process_.signal(SIGKILL);
  process_.wait();
}

std::string Command::text() const { return read_file(output_); }

bool Command::ended_within(std::chrono::milliseconds limit) {
  if (!process_.running()) return true;
  ChildEnd end;
  if (!process_.wait_for(limit, &end)) return false;
  ended_ = {end.signaled ? 128 + end.code : end.code, text()};
  return true;
}

Ended Command::wait(int seconds) {
  if (ended_within(std::chrono::seconds(seconds))) return ended_;
  kill();
  throw std::runtime_error("a command did not end in " + std::to_string(seconds) + " s; it said:\n" + text());
}

Ended estrain(const Words& arguments) { return Command(arguments).wait(); }

void wait_until(const std::string& what, const std::function<bool()>& holds, int seconds) {
  if (!comes_true(holds, seconds)) throw std::runtime_error("waited in vain: " + what);
}

bool comes_true(const std::function<bool()>& holds, int seconds) {
  const int64_t deadline = monotonic_ns() + seconds * INT64_C(1'000'000'000);
  while (!holds()) {
    if (monotonic_ns() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  return true;
}

std::vector<ProcessInfo> processes() {
  std::vector<ProcessInfo> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    ProcessInfo info = read_process(pid);
    if (info.pid > 0) all.push_back(std::move(info));
  }
  return all;
}

bool process_lives(pid_t pid) { return read_process(pid).pid > 0; }

}  // namespace estrain::testing
