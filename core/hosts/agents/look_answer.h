#pragma once
// An agent's answers to a look (../look.h): over a connection with the purpose "look", a process with the key asks for
// the host's facts and data files, and measures the link to the host (look_messages.h, link_meter.h). A look belongs to
// no stage and no term.

#include <functional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "core/hosts/agents/link_meter.h"
#include "core/hosts/agents/look_messages.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

// A job's data files on this host, for comparison with the data files of another host: by purpose, size and digest
// (core/data/files/identity.h). Paths and times may differ. `spec`: TOML.
std::variant<DataDigests, NoData> data_digests_of(const std::string& spec);

// Returns the result of `read`, or the message of the exception that `read` has thrown. In a thread of its own, an
// exception would end the agent.
std::variant<DataDigests, NoData> digests_or_reason(const std::function<DataDigests()>& read);

class LookAnswer : public net::FrameSink {
 public:
  // `closed`: called when the peer has gone.
  LookAnswer(net::Loop& loop, net::ConnectionPtr connection, std::function<void()> closed);
  ~LookAnswer() override;
  LookAnswer(const LookAnswer&) = delete;

  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override;
  void received(const net::FrameHead& head) override;

 private:
  void answer(const AskFacts& asked);
  void answer(const AskData& asked);
  template <typename Meters>
  void answer(const Meters& asked) {
    meter_.answer(*connection_, asked);
  }

  net::Loop& loop_;
  net::ConnectionPtr connection_;
  const std::function<void()> closed_;
  std::string text_;
  std::vector<std::byte> bulk_;
  MeterEnd meter_;
  bool reads_ = false, lost_ = false;  // the peer has gone: this object stays until the files are read
  std::jthread reader_;                // of data files, perhaps for a long time
};

}  // namespace estrain::hosts
