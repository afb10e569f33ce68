#include "core/hosts/net/greeting.h"

#include "core/base/error.h"
#include "core/base/json/codec.h"

namespace estrain::net {

std::string Greeting::to_json() const { return codec::fields_of(*this).dump(); }

Greeting Greeting::from_json(std::string_view text) {
  const Json json = parse_json(text, "greeting");
  try {
    Greeting greeting;
    codec::from_field(json, greeting);
    return greeting;
  } catch (const Error& error) {
    throw Error::make(Fault::corrupt, "greeting: {}", error.message());
  }
}

void require_same_program(const Greeting& own, const Greeting& peer) {
  if (peer.version != own.version) {
    throw Error::make(Fault::mismatch, "host {} runs estrain {}, this host {}", peer.host, peer.version, own.version)
        .advise("install the same estrain on all hosts of a job");
  }
  if (peer.build != own.build) {
    throw Error::make(Fault::mismatch, "host {} runs another build of estrain {}, whose bits may differ", peer.host,
                      own.version)
        .advise("run one and the same file on all hosts of a job")
        .caused_by("program_replaced");
  }
}

namespace {

// How a message calls a host.
std::string called(const std::string& host) { return host.empty() ? "the launcher's host" : "host " + host; }

void require_another_host_of_the_run(const Greeting& own, const Greeting& peer) {
  if (peer.host == own.host)
    throw Error::make(Fault::peer, "a connection of {} has come back to it, or another one has its name",
                      called(own.host));
  if (!own.run.empty() && !peer.run.empty() && peer.run != own.run)
    throw Error::make(Fault::peer, "{} belongs to the run {}, this host to the run {}", called(peer.host), peer.run,
                      own.run)
        .advise("two runs have the same key, or a file of hosts/ is of another run");
}

}  // namespace

void require_is_for_us(const Greeting& own, const Greeting& peer) {
  require_another_host_of_the_run(own, peer);
  if (peer.to != own.host)
    throw Error::make(Fault::peer, "a connection from {} to {} has come to {}", called(peer.host), called(peer.to),
                      called(own.host));
}

void require_is_whom_we_want(const Greeting& own, const Greeting& peer) {
  require_another_host_of_the_run(own, peer);
  if (peer.host != own.to) throw Error::make(Fault::peer, "{} answers, not {}", called(peer.host), called(own.to));
}

}  // namespace estrain::net
