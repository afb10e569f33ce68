#include "core/hosts/agents/look_answer.h"

#include <exception>
#include <system_error>
#include <utility>

#include "core/base/clock.h"
#include "core/data/files/identity.h"
#include "core/data/job_data.h"
#include "core/hosts/exchange/message_link.h"
#include "core/job/resources/allocation.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::hosts {

std::variant<DataDigests, NoData> digests_or_reason(const std::function<DataDigests()>& read) {
  try {
    return read();
  } catch (const Error& error) {
    return NoData{error.message(), error.advice()};
  } catch (const std::exception& error) {  // for example, out of memory
    return NoData{error.what(), ""};
  }
}

std::variant<DataDigests, NoData> data_digests_of(const std::string& spec) {
  return digests_or_reason([&spec] {
    const auto files = data::open_files(data::job_file_names(spec::parse_text(spec, "the job's spec")));
    DataDigests all;
    for (const data::FileIdentity& file : data::identify(files).files)
      all.files.push_back({file.what, file.size, file.sampled});
    return all;
  });
}

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
  std::visit([this](const auto& asked) { answer(asked); }, read_message<LookQuestion>(text_));
}

void LookAnswer::answer(const AskFacts&) {
  send_message(*connection_, LookReply(HostFacts{resources::current_resources().cores, wall_seconds()}));
}

// The loop has workers to hear meanwhile.
void LookAnswer::answer(const AskData& asked) {
  if (std::exchange(reads_, true)) return;
  try {
    reader_ = std::jthread([this, spec = asked.spec] {
      loop_.post([this, digests = data_digests_of(spec)] {
        reads_ = false;
        if (lost_) return closed_();
        send_message(*connection_, digests);
      });
    });
  } catch (const std::system_error& error) {
    reads_ = false;
    send_message(*connection_, LookReply(NoData{std::string("cannot start a thread to read the data: ") + error.what(),
                                                "see the limit on processes there: ulimit -u"}));
  }
}

}  // namespace estrain::hosts
