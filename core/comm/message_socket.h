#pragma once
// JSON messages between the launcher and its own processes over a socket pair that keeps message boundaries
// (SOCK_SEQPACKET). One message is at most 128 KiB.

#include <optional>
#include <string>
#include <utility>

#include "core/base/json.h"
#include "core/base/unique_fd.h"

namespace estrain::comm {

class MessageSocket {
 public:
  MessageSocket() = default;
  explicit MessageSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  static std::pair<MessageSocket, MessageSocket> pair();

  int descriptor() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  // False if the other side is gone. Never raises SIGPIPE.
  bool send(const Json& message);
  // Waits for at most `milliseconds` (-1: no limit, 0: only what is there).
  enum class Received { message, nothing, closed };
  Received receive(Json* message, int milliseconds);

 private:
  UniqueFd fd_;
};

}  // namespace estrain::comm
