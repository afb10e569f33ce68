#pragma once
// A fork server is a process with loaded libraries that starts copies of itself on request. A copy begins within
// milliseconds, where exec would load and relocate the libraries anew (LibTorch: tenths of a second of processor time).
// Copies share the pages written by loading.
//
// A copy is a child of the asking process, not of the server (CLONE_PARENT). The parent waits for the copy and signals
// the copy as if exec had started it.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/process/child_process.h"

namespace estrain {

// Bytes in the server's arguments for the arguments of a copy: the server has an argument of as many spaces.
inline constexpr size_t kRoomForTitle = 1024;

// The end of a process that asks for copies. Use this class from the main thread only, as ChildProcess::start.
class ForkServer {
 public:
  ForkServer() = default;
  // Starts the program of `options`, which must call serve_forks() with the descriptor behind "--socket". Throws
  // Fault::io if the program cannot be executed.
  static ForkServer start(ChildOptions options);

  // Returns false if the server has ended, is still loading after `patience`, or cannot make copies.
  bool wait_until_ready(std::chrono::milliseconds patience);

  // Returns a copy with these arguments, descriptors, output and signals; `environment` and `same_program` play no
  // part. Returns nothing if the server is not ready or does not answer within a second; the server is then ended.
  // Throws Fault::io if this process has no descriptor left.
  std::optional<ChildProcess> fork(const ChildOptions& options);

  // Takes the server over an exec of this process, with the socket left open.
  struct Note {
    int pid = 0, socket = -1;
    bool ready = false;

    ESTRAIN_FIELDS(pid, socket, ready)
  };
  // Returns nothing if the server has ended.
  std::optional<Note> note() const {
    return process_.running() ? std::optional<Note>({process_.pid(), socket_.get(), ready_}) : std::nullopt;
  }
  static ForkServer adopt(const Note& note);

 private:
  // Ends the server, which is of no more use.
  void give_up();

  ChildProcess process_;
  UniqueFd socket_;
  bool ready_ = false;
};

// Runs in the server, with its libraries loaded and no thread but the main thread. Returns in each copy, with the
// copy's arguments. Never returns in the server, which exits when no process can ask any more.
std::vector<std::string> serve_forks(int socket);

}  // namespace estrain
