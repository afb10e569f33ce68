#pragma once
// The arguments of a worker's program: `estrain worker --run RUN --spec 5 …`. A copy of a fork server
// (base/process/fork_server.h) gets the same words.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/fields.h"
#include "core/state/comm/messages/python_tasks.h"

namespace estrain::comm {

struct WorkerArguments {
  std::string run, options, checkpoint;  // options: WorkerOptions as JSON; checkpoint: theirs
  int spec = -1, library = -1, memory = -1, socket = -1, doorbell = -1, courier = -1;  // descriptors

  ESTRAIN_FIELDS(run, spec, library, memory, socket, doorbell, courier, options, checkpoint)

  // `options` read, with the checkpoint. Throws Fault::corrupt.
  WorkerOptions worker_options() const;
  // Returns the words behind the program's name: "worker", then "--run", the run directory and so on, for given fields.
  std::vector<std::string> words() const;
  // Parses from the program's name on. Throws Fault::bug for words which `words` would not give.
  static WorkerArguments parse(const std::vector<std::string>& words);
};

// The same as a task of a user's Python. Throws as worker_options().
PythonWorker python_worker(const WorkerArguments& arguments, std::string algorithm_store);

}  // namespace estrain::comm
