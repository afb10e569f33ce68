#include "cmd/users_python.h"

#include <estrain/version.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cmd/worker_library.h"
#include "core/base/error.h"
#include "core/base/files/memory_file.h"
#include "core/base/json/codec.h"
#include "core/base/json/json_text.h"
#include "core/base/process/child_process.h"
#include "core/base/process/fork_server.h"
#include "core/job/spec/parsing/parse.h"
#include "core/planning/profile/profile_store.h"
#include "core/state/algorithms/pinning.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::cmd {
namespace {

constexpr const char* host_code =
#include <estrain/python_host.inc>
    ;

constexpr const char* kAdvice = "name a Python with model.python, such as \"venv/bin/python\"";

bool can_run(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) && ::access(path.c_str(), X_OK) == 0;
}

// Finds python3 of the environment as a shell does.
std::string python_of_path() {
  std::istringstream folders(environment_variable("PATH").value_or("/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string python = (folder.empty() ? "." : folder) + "/python3";
    if (can_run(python)) return python;
  }
  throw Error(Fault::spec, "model.python: there is no python3 in PATH").advise(kAdvice);
}

struct UsersPython {
  std::string program;
  const char* setting = "model.python";  // named by messages: the key or variable that `program` comes from
};

// ESTRAIN_PYTHON comes from the command `estrain` of a wheel (scripts/packages/wheel/__init__.py): the Python that pip
// installed estrain into.
UsersPython python_of(const spec::ModelSection& model) {
  UsersPython python{model.python};
  if (python.program.empty()) python = {environment_variable("ESTRAIN_PYTHON").value_or(""), "ESTRAIN_PYTHON"};
  if (python.program.empty()) return {python_of_path()};
  if (can_run(python.program)) return python;
  throw Error::make(Fault::spec, "{}: {} is no program", python.setting, python.program).advise(kAdvice);
}

// Asks for a number that only Python knows. Takes 10 ms.
void require_python(const UsersPython& python) {
  const UniqueFd answer = memory_file("estrain-answer", "");
  ChildOptions options;
  options.arguments = {python.program, "-S", "-c", "print(6**13)"};
  options.output_descriptor = answer.get();
  ChildProcess::start(options).wait();
  if (read_memory_file(answer.get()) == "13060694016\n") return;
  throw Error::make(Fault::spec, "{}: {} is no Python", python.setting, python.program).advise(kAdvice);
}

// Returns the number of a file in memory, open for the next program.
int passed_file(const char* name, const std::string& text) {
  UniqueFd fd = memory_file(name, text);
  ::fcntl(fd.get(), F_SETFD, 0);
  return fd.release();
}

// In the form of base/process/build_id.h.
uint64_t build_of_libtorch() {
  const std::string digits = ESTRAIN_LIBTORCH_BUILD;
  std::array<unsigned char, sizeof(uint64_t)> bytes{};
  for (size_t i = 0; i < bytes.size() && 2 * i + 2 <= digits.size(); ++i)
    bytes[i] = static_cast<unsigned char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  uint64_t build;
  std::memcpy(&build, bytes.data(), sizeof build);
  return build;
}

std::string algorithm_store() { return algorithms::store_beside(profile::default_store_path(own_environment())); }

}  // namespace

comm::PythonWorker python_worker(const comm::WorkerArguments& arguments) {
  return comm::python_worker(arguments, algorithm_store());
}

comm::PythonServer python_server(int orders) { return {.orders = orders, .algorithm_store = algorithm_store()}; }

void become_users_python(const spec::JobSpec& spec, const comm::PythonTask& task, int library) {
  const UsersPython users = python_of(spec.model);
  require_python(users);
  const std::string& python = users.program;
  Json job = codec::encode(task, comm::kPythonTask);
  job.update(codec::fields_of(comm::PythonSetting{spec::to_toml(spec), library_folder(), build_of_libtorch()}));
  // For core/engine/python/host.py.
  job["refusal"] = codec::encode(std::variant<comm::Failed>(comm::Failed(Error(Fault::mismatch, ""))));
  job["portable"] = spec.job.kernels == spec::Kernels::portable;
  job["file"] = spec.model.code_file();
  job["function"] = spec.model.function();
  job["library"] = worker_library_path(library);
  job["torch"] = ESTRAIN_LIBTORCH_VERSION;
  const std::string code = fmt::format("/proc/self/fd/{}", passed_file("estrain-host", host_code));
  const std::string passed = std::to_string(passed_file("estrain-job", json_text(job)));
  const std::string runs = job.at(std::string(comm::kPythonTask));  // for readers of the list of processes
  std::vector<std::string> arguments = {python, code, passed, runs};
  if (std::holds_alternative<comm::PythonServer>(task)) arguments.emplace_back(kRoomForTitle, ' ');
  replace_program(python, arguments);
}

}  // namespace estrain::cmd
