#pragma once
// JSON messages between the launcher and its own processes over a socket pair that keeps message boundaries
// (SOCK_SEQPACKET). A message is at most 128 KiB.
//
// Sending never blocks, however long the other side stays stopped (SIGSTOP, a debugger). The kernel holds the first 200
// KB or so (about 250 short messages); further messages are kept here, in order, and sent by later calls of send,
// receive or flush. At most 256 KiB are kept; a message beyond this limit is dropped. Kept messages are lost when the
// process ends or hands the descriptor on.
//
// Many threads may send at once; a single thread receives.

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/files/poll_set.h"
#include "core/base/files/unique_fd.h"
#include "core/base/json/json.h"

namespace estrain::comm {

class MessageSocket {
 public:
  MessageSocket() = default;
  explicit MessageSocket(UniqueFd fd) : fd_(std::move(fd)), outbox_(std::make_unique<Outbox>()) {}
  static std::pair<MessageSocket, MessageSocket> pair();

  int descriptor() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  // Sends the message, now or by a later call. False: the message will not arrive, since the other side has ended, or
  // since the room for messages is full. Never raises SIGPIPE.
  bool send(const Json& message);
  // Sends kept messages, as far as the other side takes messages. False: messages are still kept.
  bool flush();
  size_t bytes_kept() const;

  // Waits for at most `limit`; kForever: without a limit.
  enum class Received { message, nothing, closed };
  Received receive(Json* message, std::chrono::milliseconds limit);

 private:
  struct Outbox {
    std::mutex mutex;
    std::deque<std::string> kept;
    size_t bytes = 0;
  };
  enum class Sent { yes, full, never };
  Sent send_at_once(const std::string& text) const;
  bool flush_locked();

  UniqueFd fd_;
  std::unique_ptr<Outbox> outbox_;
};

}  // namespace estrain::comm
