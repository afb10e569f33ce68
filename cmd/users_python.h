#pragma once
// The user's Python: the interpreter with the torch of estrain's release. If the model of a job is a module in Python,
// a worker's process, or a fork server's, becomes the user's Python by exec, and the launcher watches the same process
// as before. The Python runs core/engine/python/host.py, which loads the worker's library. Commands ask the Python
// about a user's function: the Python runs core/engine/python/export.py.

#include <string>

#include "core/base/json/json.h"
#include "core/base/process/python.h"
#include "core/job/spec/job_spec.h"
#include "core/state/comm/messages/python_tasks.h"
#include "core/state/comm/messages/worker_arguments.h"

namespace estrain::cmd {

// `library`: as for worker_library_path(). Returns only by an exception: Fault::spec if the file is missing, or is
// no Python; Fault::io.
[[noreturn]] void become_users_python(const spec::JobSpec& spec, const comm::PythonTask& task, int library);

// Throws Fault::usage if a path is not UTF-8: a spec is TOML, and questions to Python are JSON.
void require_utf8(const std::string& path);

// The tasks of a worker and of a fork server.
comm::PythonWorker python_worker(const comm::WorkerArguments& arguments);
comm::PythonServer python_server(int orders);

// The function `named` on the command line, such as "net.py:build"; `python`: the option --python. Throws Fault::usage
// if the function has no name, or the file is missing.
spec::ModelSection users_function(const std::string& named, const std::string& python);

// The program for evaluations that an export writes beside the program `trained`: net-eval.pt2 beside net.pt2.
std::string evaluation_program(const std::string& trained);

// Runs `code` in a child process, as `python CODE DESCRIPTOR`: the descriptor of a file with the question, whose field
// "answer" is the descriptor of the file for the answer. Returns the answer. `named`: what the question is about, for
// messages. Throws Fault::usage if a path in the question is not UTF-8, Fault::peer if the Python ends without an
// answer.
Json ask_python(const UsersPython& python, const char* code, const std::string& named, Json question);

// Runs core/engine/python/export.py over the function in a child process. `named`: the function, for messages.
// `question`: the fields that only this file reads. Returns the answer. Throws as ask_python(); Fault::spec if there is
// no Python; Fault::mismatch without torch of estrain's release; Fault::spec or Fault::infeasible if the function
// cannot be exported.
Json ask_users_python(const spec::ModelSection& model, const std::string& named, Json question);

}  // namespace estrain::cmd
