#pragma once

#include <fcntl.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "core/base/files/files.h"
#include "core/state/comm/job_memory.h"

namespace estrain::testing {

// A job's shared memory, opened through the launcher. The memory shows what each process does at the moment.
inline std::unique_ptr<comm::JobMemory> open_shared_memory(pid_t launcher, UniqueFd* fd) {
  const std::string folder = "/proc/" + std::to_string(launcher) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;
    if (!std::filesystem::read_symlink(entry.path(), gone).string().starts_with("/memfd:estrain ")) continue;
    *fd = open_file(entry.path().string(), O_RDWR);
    return std::make_unique<comm::JobMemory>(fd->get());
  }
  throw std::runtime_error("the launcher holds no shared memory");
}

}  // namespace estrain::testing
