#pragma once
// Writes checkpoints one after another in a separate thread, in parallel with the scribe's other work.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/base/json.h"
#include "core/checkpoint/directory.h"
#include "core/checkpoint/manifest.h"
#include "core/record/stage_history.h"
#include "core/spec/job_spec.h"

namespace estrain::record {

class Saver {
 public:
  Saver(const spec::JobSpec& spec, const std::string& run, const checkpoint::Manifest& manifest);
  ~Saver() { wait(); }

  int64_t last_saved() const { return last_saved_; }
  bool busy() const { return busy_; }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  // Copies the state, calls `copied`, then writes the copy asynchronously; calls `done` with the result, in the saver's
  // thread if one could be started.
  void save(const std::byte* state, int64_t step, double lr, const std::function<void()>& copied,
            const std::function<void(Json)>& done);

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Json write(int64_t step, double lr);
  checkpoint::CheckpointMeta meta(int64_t step, double lr);
  // Keeps the previous content if a file is unreadable: saving the state is more important.
  void read_what_changed();

  const spec::JobSpec& spec_;
  const std::string run_;
  const checkpoint::Manifest& manifest_;
  checkpoint::CheckpointDirectory directory_;
  StageHistory stages_;
  std::string changes_;
  std::unique_ptr<std::byte, FreeMemory> snapshot_;
  std::thread thread_;
  std::atomic<int64_t> last_saved_{-1};
  std::atomic<bool> busy_{false};  // a snapshot is being written
};

}  // namespace estrain::record
