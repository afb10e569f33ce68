#pragma once
// The change of a worker's process, or a fork server's, into the user's Python, for a job whose model is a module in
// Python: by exec, so the launcher still watches the process that it started. The Python runs
// core/engine/python/host.py, which loads the worker's library.

#include "core/job/spec/job_spec.h"
#include "core/state/comm/messages/python_tasks.h"
#include "core/state/comm/messages/worker_arguments.h"

namespace estrain::cmd {

// `library`: as for worker_library_path(). Returns only by an exception: Fault::spec if the file is missing, or is
// no Python; Fault::io.
[[noreturn]] void become_users_python(const spec::JobSpec& spec, const comm::PythonTask& task, int library);

// The tasks of a worker and of a fork server.
comm::PythonWorker python_worker(const comm::WorkerArguments& arguments);
comm::PythonServer python_server(int orders);

}  // namespace estrain::cmd
