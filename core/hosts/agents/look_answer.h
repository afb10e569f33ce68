#pragma once
// An agent's answers to a look (../look.h): over a connection with the purpose "look", a process with the key asks for
// the host's facts, and measures the link to the host (link_meter.h). A look belongs to no stage and no term.
//
//   {"ask": "facts"}                -> {"cores": 8, "clock": seconds since 1970}
//   {"ask": "data", "spec": TOML}   -> {"data": [{"what", "size", "digest"}, …]}, or {"error", "advice"}

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/json/json.h"
#include "core/hosts/agents/link_meter.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

class LookAnswer : public net::FrameSink {
 public:
  // `closed`: called when the peer has gone.
  LookAnswer(net::Loop& loop, net::ConnectionPtr connection, std::function<void()> closed);
  ~LookAnswer() override;
  LookAnswer(const LookAnswer&) = delete;

  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override;
  void received(const net::FrameHead& head) override;

 private:
  void answer(const Json& asked);
  void answer_of_data(std::string spec);

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
