#include "core/net/greeting.h"

#include "core/base/error.h"
#include "core/base/json/json.h"

namespace estrain::net {

std::string Greeting::to_json() const {
  return Json{{"protocol", protocol}, {"version", version}, {"build", build}, {"host", host},
              {"purpose", purpose},   {"run", run},         {"term", term},   {"clear", clear}}
      .dump();
}

Greeting Greeting::from_json(std::string_view text) {
  const Json json = parse_json(text, "greeting");
  try {
    Greeting greeting;
    greeting.protocol = json.at("protocol").get<int64_t>();
    greeting.version = json.at("version").get<std::string>();
    greeting.build = json.at("build").get<uint64_t>();
    greeting.host = json.at("host").get<std::string>();
    greeting.purpose = json.at("purpose").get<std::string>();
    greeting.run = json.at("run").get<std::string>();
    greeting.term = json.at("term").get<int64_t>();
    greeting.clear = json.at("clear").get<bool>();
    return greeting;
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "greeting: {}", error.what());
  }
}

void require_same_program(const Greeting& own, const Greeting& peer) {
  if (peer.protocol != own.protocol || peer.version != own.version) {
    throw Error::make(Fault::mismatch, "host {} runs estrain {} (protocol {}), this one {} (protocol {})", peer.host,
                      peer.version, peer.protocol, own.version, own.protocol)
        .advise("install the same estrain on all hosts of a job");
  }
  if (peer.build != own.build) {
    throw Error::make(Fault::mismatch, "host {} runs another build of estrain {}, whose bits may differ", peer.host,
                      own.version)
        .advise("run one and the same file on all hosts of a job");
  }
}

}  // namespace estrain::net
