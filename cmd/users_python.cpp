#include "cmd/users_python.h"

#include <estrain/version.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "cmd/worker_library.h"
#include "core/base/error.h"
#include "core/base/files/memory_file.h"
#include "core/base/json/codec.h"
#include "core/base/json/json_text.h"
#include "core/base/process/child_process.h"
#include "core/base/process/fork_server.h"
#include "core/base/process/python.h"
#include "core/base/visible_text.h"
#include "core/job/spec/parsing/parse.h"
#include "core/planning/profile/profile_store.h"
#include "core/state/algorithms/pinning.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::cmd {
namespace {

constexpr const char* host_code =
#include <estrain/python_host.inc>
    ;

constexpr const char* export_code =
#include <estrain/python_export.inc>
    ;

// Asks for a number that only Python knows. Takes 10 ms.
void require_python(const UsersPython& python) {
  const UniqueFd answer = memory_file("estrain-answer", "");
  ChildOptions options;
  options.arguments = {python.program, "-S", "-c", "print(6**13)"};
  options.output_descriptor = answer.get();
  ChildProcess::start(options).wait();
  if (read_memory_file(answer.get()) == "13060694016\n") return;
  throw python.unfit(python.program + " is no Python");
}

// In the form of base/process/build_id.h.
uint64_t build_of(const std::string& digits) {
  std::array<unsigned char, sizeof(uint64_t)> bytes{};
  for (size_t i = 0; i < bytes.size() && 2 * i + 2 <= digits.size(); ++i)
    bytes[i] = static_cast<unsigned char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  uint64_t build;
  std::memcpy(&build, bytes.data(), sizeof build);
  return build;
}

// The job of core/engine/python/begin.py.
Json job_of(const spec::ModelSection& model, const UsersPython& python) {
  return {{"file", model.code_file()},
          {"function", model.function()},
          {"torch", ESTRAIN_LIBTORCH_VERSION},
          {"setting", python.setting},
          {"refusal", codec::encode(std::variant<comm::Failed>(comm::Failed(Error(Fault::mismatch, ""))))},
          {"portable", false}};
}

// The user's Python with code and job in files in memory. `kept`: descriptors of the files.
struct PythonCommand {
  std::vector<std::string> arguments;
  std::vector<UniqueFd> kept;
};

// Throws Fault::usage for a path that is not UTF-8: by the text in JSON, Python would look for another file.
PythonCommand python_command(const UsersPython& python, const char* code, const Json& job) {
  const Json flat = job.flatten();
  for (const auto& [place, value] : flat.items())
    if (value.is_string()) require_utf8(value.get<std::string>());
  PythonCommand command;
  command.kept.push_back(memory_file("estrain-code", code));
  command.kept.push_back(memory_file("estrain-job", json_text(job)));
  command.arguments = {python.program, fmt::format("/proc/self/fd/{}", command.kept[0].get()),
                       std::to_string(command.kept[1].get())};
  return command;
}

std::string algorithm_store() { return algorithms::store_beside(profile::default_store_path(own_environment())); }

}  // namespace

void require_utf8(const std::string& path) {
  if (is_utf8(path)) return;
  throw Error::make(Fault::usage, "{}: this path is not UTF-8, so neither a spec nor Python can be told the path", path)
      .advise("rename the file or folder");
}

comm::PythonWorker python_worker(const comm::WorkerArguments& arguments) {
  return comm::python_worker(arguments, algorithm_store());
}

comm::PythonServer python_server(int orders) { return {.orders = orders, .algorithm_store = {algorithm_store()}}; }

void become_users_python(const spec::JobSpec& spec, const comm::PythonTask& task, int library) {
  const UsersPython python = find_python(spec.model.python, "model.python");
  require_python(python);
  Json job = codec::encode(task, comm::kPythonTask);
  job.update(codec::fields_of(comm::PythonSetting{.spec = spec::to_toml(spec),
                                                  .libraries = {library_folder()},
                                                  .libtorch = build_of(ESTRAIN_LIBTORCH_BUILD),
                                                  .libtorch_cuda = build_of(ESTRAIN_LIBTORCH_CUDA_BUILD)}));
  job.update(job_of(spec.model, python));
  job["portable"] = spec.job.kernels == spec::Kernels::portable;
  job["terms"] = spec.train.terms;
  job["metrics"] = spec.train.metrics;
  job["library"] = worker_library_path(library);
  PythonCommand command = python_command(python, host_code, job);
  for (const UniqueFd& file : command.kept) ::fcntl(file.get(), F_SETFD, 0);  // stay open for the next program
  command.arguments.push_back(job.at(std::string(comm::kPythonTask)));        // for readers of the list of processes
  if (std::holds_alternative<comm::PythonServer>(task)) command.arguments.emplace_back(kRoomForTitle, ' ');
  replace_program(python.program, command.arguments);
}

spec::ModelSection users_function(const std::string& named, const std::string& python) {
  spec::ModelSection model;
  model.name = "python", model.file = named, model.python = python;
  if (model.function().empty())
    throw Error::make(Fault::usage, "{}: names no function", named)
        .advise("give a file and the function in it that returns the module, such as net.py:build");
  if (!std::filesystem::is_regular_file(model.code_file()))
    throw Error::make(Fault::usage, "{}: there is no file {}", named, model.code_file());
  model.file = std::filesystem::absolute(named).lexically_normal();
  return model;
}

std::string evaluation_program(const std::string& trained) {
  const std::filesystem::path path = trained;
  return path.parent_path() / (path.stem().string() + "-eval.pt2");
}

Json ask_python(const UsersPython& python, const char* code, const std::string& named, Json question) {
  const UniqueFd answer = memory_file("estrain-answer", "");
  question["answer"] = answer.get();
  const PythonCommand command = python_command(python, code, question);
  ChildOptions options;
  options.arguments = command.arguments;
  options.inherited = {answer.get(), command.kept[0].get(), command.kept[1].get()};
  const ChildEnd end = ChildProcess::start(options).wait();
  Json told = Json::parse(read_memory_file(answer.get()), nullptr, false);
  if (told.is_discarded()) {
    const bool was_killed = end.signaled && end.code == SIGKILL;
    throw Error::make(Fault::peer, "{}: {} ended with {} before it was done", named, python.program, end.text())
        .advise(was_killed ? "SIGKILL is what a machine does that is out of memory: free memory"
                           : "its last lines of output, if any, say why");
  }
  return told;
}

Json ask_users_python(const spec::ModelSection& model, const std::string& named, Json question) {
  const UsersPython python = find_python(model.python, "--python");
  require_python(python);
  question.update(job_of(model, python));
  question["named"] = named;
  question["faults"] = {{"spec", static_cast<int>(Fault::spec)},
                        {"infeasible", static_cast<int>(Fault::infeasible)},
                        {"peer", static_cast<int>(Fault::peer)}};
  Json told = ask_python(python, export_code, named, std::move(question));
  if (!told.contains("refusal")) return told;
  comm::Failed failed;
  codec::read_fields(told.at("refusal"), failed);
  throw failed.cause.empty() ? failed.error() : failed.error().exiting_with(1);
}

}  // namespace estrain::cmd
