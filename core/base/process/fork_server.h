#pragma once
// A fork server: a process that has loaded its libraries and starts copies of itself on request. A copy begins within
// milliseconds, where exec would load and relocate the libraries anew (LibTorch: tenths of a second of processor time).
// Copies share the pages that loading has written.
//
// A copy is a child of the process that asks, not of the server (CLONE_PARENT). Its parent waits for it and signals it
// as if exec had started it.

#include <optional>
#include <string>
#include <vector>

#include "core/base/process/child_process.h"

namespace estrain {

// Bytes among the server's arguments in which its copies show theirs: it has an argument of so many spaces.
inline constexpr size_t kRoomForTitle = 1024;

// The end of a process that asks for copies. Use it from the main thread only, as ChildProcess::start.
class ForkServer {
 public:
  ForkServer() = default;
  // Starts the program of `options`, which is to call serve_forks() with the descriptor behind "--socket". Throws
  // Fault::io if it cannot be executed.
  static ForkServer start(ChildOptions options);

  // False: the server has ended, is still loading after `milliseconds`, or cannot make copies.
  bool wait_until_ready(int milliseconds);

  // A copy with these arguments, descriptors, output and signals; `environment` and `same_program` play no part.
  // Nothing if the server is not ready or does not answer within a second; it is ended then. Throws Fault::io where
  // this process has no descriptor left.
  std::optional<ChildProcess> fork(const ChildOptions& options);

  // Takes the server over an exec of this process, with the socket left open.
  struct Note {
    int pid = 0, socket = -1;
    bool ready = false;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit&& visit) {
      visit("pid", self.pid);
      visit("socket", self.socket);
      visit("ready", self.ready);
    }
  };
  // Nothing if the server has ended.
  std::optional<Note> note() const {
    return process_.running() ? std::optional<Note>({process_.pid(), socket_.get(), ready_}) : std::nullopt;
  }
  static ForkServer adopt(const Note& note);

 private:
  // Ends the server: it is of no more use.
  void give_up();

  ChildProcess process_;
  UniqueFd socket_;
  bool ready_ = false;
};

// In the server, with its libraries loaded and no thread but the main one. Returns in each copy, with its arguments.
// Never returns in the server, which exits when nobody can ask any more.
std::vector<std::string> serve_forks(int socket);

}  // namespace estrain
