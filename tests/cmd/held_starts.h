#pragma once
// Stops workers at their start: a test can act while workers start, however quick the workers are.

#include <filesystem>
#include <string>
#include <vector>

#include "command.h"
#include "setting.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {

// Concerns jobs that begin during the object's life. Their workers are stopped from begin() to end()
// (preload/holds_starts.cpp).
class HeldStarts {
 public:
  void begin() { folder_.write("hold", ""); }
  void end() { std::filesystem::remove(folder_ / "hold"); }

  // Waits for the next worker that is held. The worker stays stopped (SIGSTOP).
  pid_t next() {
    wait_until("a worker that starts", [&] { return !held().empty(); });
    const std::string name = held().at(0);
    std::filesystem::remove(folder_ / name);
    return std::stoi(name);
  }

 private:
  std::vector<std::string> held() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      if (const std::string name = file.path().filename(); name != "hold") names.push_back(name);
    }
    return names;
  }

  ScratchFolder folder_;
  const Setting preload_{"LD_PRELOAD", ESTRAIN_HOLDS_STARTS}, where_{"ESTRAIN_TEST_HELD", folder_.path()};
};

}  // namespace estrain::testing
