#include "core/hosts/agents/look_answer.h"

#include <utility>

#include "core/base/clock.h"
#include "core/hosts/agents/data_digests.h"
#include "core/hosts/exchange/message_link.h"
#include "core/job/resources/allocation.h"

namespace estrain::hosts {

LookAnswer::LookAnswer(net::Loop& loop, net::ConnectionPtr connection, std::function<void()> closed)
    : loop_(loop), connection_(std::move(connection)), closed_(std::move(closed)) {
  connection_->start(*this, [this](const Error&) {
    lost_ = true;
    if (!reads_) closed_();
  });
}

LookAnswer::~LookAnswer() { connection_->close(); }

std::optional<std::span<std::byte>> LookAnswer::room_for(const net::FrameHead& head) {
  if (head.kind == bulk) {
    bulk_.resize(net::most_frame_bytes);
    return std::span(bulk_).first(head.bytes);
  }
  if (head.kind != message) throw Error::make(Fault::corrupt, "a frame of kind {} in a look", head.kind);
  text_.resize(head.bytes);
  return std::as_writable_bytes(std::span(text_));
}

void LookAnswer::received(const net::FrameHead& head) {
  if (head.kind == bulk) {
    meter_.count(head.bytes);
    return;
  }
  const Json asked = parse_json(text_, "a look");
  if (!asked.is_object()) throw Error(Fault::corrupt, "a look: not an object");
  answer(asked);
}

void LookAnswer::answer(const Json& asked) {
  if (meter_.answer(*connection_, asked)) return;
  const std::string ask = asked.value("ask", "");
  if (ask == "facts") {
    send_message(*connection_, {{"cores", resources::current_resources().cores}, {"clock", wall_seconds()}});
  } else if (ask == "data") {
    answer_of_data(asked.value("spec", ""));
  }
}

// The loop has workers to hear meanwhile.
void LookAnswer::answer_of_data(std::string spec) {
  if (std::exchange(reads_, true)) return;
  reader_ = std::jthread([this, spec = std::move(spec)] {
    loop_.post([this, digests = data_digests_or_error(spec)] {
      reads_ = false;
      if (lost_) return closed_();
      send_message(*connection_, digests);
    });
  });
}

}  // namespace estrain::hosts
