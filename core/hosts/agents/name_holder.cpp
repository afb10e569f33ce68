#include "core/hosts/agents/name_holder.h"

#include <optional>
#include <utility>

#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/own_greeting.h"

namespace estrain::hosts {

void ask_who_listens(net::Loop& loop, const net::SharedKey& key, const std::string& run, const std::string& name,
                     const std::string& address, std::function<void(bool it_does)> done) {
  const net::OutgoingCall call = {
      .to = net::parse_address(address), .host = name, .own = own_greeting(name_of_run(run), "", "look", 0)};
  net::connect(loop, key, call, [done = std::move(done)](const net::ConnectionPtr& connection, const Error*) {
    if (connection) connection->close();
    done(connection != nullptr);
  });
}

Error name_is_taken(const std::string& name, const std::string& address) {
  return Error::make(Fault::usage, "another agent of this run has the name {}: it listens on {}", name, address)
      .advise("give this agent another name: --name");
}

void require_free_name(net::Loop& loop, const net::SharedKey& key, const std::string& run, const std::string& name) {
  const std::optional<HostFile> file = read_host_file_if_sound(run, name);
  if (!file) return;
  bool is_taken = false;
  ask_who_listens(loop, key, run, name, file->address, [&](bool it_does) {
    is_taken = it_does;
    loop.stop();
  });
  loop.run();
  loop.restart();
  if (is_taken) throw name_is_taken(name, file->address);
}

}  // namespace estrain::hosts
