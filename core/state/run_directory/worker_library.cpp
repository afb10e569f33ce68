#include "core/state/run_directory/worker_library.h"

#include <filesystem>

#include "core/base/process/child_process.h"

namespace estrain::run_directory {

std::string worker_library() {
  return (std::filesystem::path(own_executable()).parent_path() / "libestrain_worker.so").string();
}

}  // namespace estrain::run_directory
