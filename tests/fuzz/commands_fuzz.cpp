// Commands from other hosts: what commands, agents and coordinators say to an agent's desk and to the coordinator's
// bridge, in any order, with connections that are lost on the way. The input is a sequence of texts, each ended by a
// zero byte; the first byte of each says who speaks. A message that is none ends its connection. A command hears no
// more answers than it has asked for; whoever asks the bridge where no launcher is hears a refusal.
#include <array>
#include <set>

#include "core/hosts/commands/commands.h"
#include "tests/core/hosts/pretended_connection.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

using hosts::Pretended;
using Connection = std::shared_ptr<Pretended>;

bool is_object(std::string_view text) {
  Json json;
  return accepts([&] { json = parse_json(std::string(text), "input"); }) && json.is_object();
}

class Scene {
 public:
  explicit Scene(const Folder& folder) : bridge_(loop_, net::SharedKey({}), folder.path(), 1) {}

  void play(char who, std::string_view text) {
    switch (who) {
      case 'n':
        desk_.take_coordinator(coordinator_ = std::make_shared<Pretended>(text.empty() ? 0 : text[0]));
        break;
      case 'c':
        say(coordinator_, text);
        break;
      case 'C':
        lose(coordinator_);
        break;
      case 'b':
        bridge_.take("a", agent_ = std::make_shared<Pretended>());
        break;
      case 'a':
        ask_bridge(text);
        break;
      case 'A':
        lose(agent_);
        break;
      default:
        play_client(static_cast<size_t>(who) % clients_.size(), static_cast<size_t>(who) / clients_.size() % 3, text);
    }
    check();
  }

 private:
  struct Client {
    Connection connection;
    long asked = 0;
  };

  void play_client(size_t number, size_t what, std::string_view text) {
    Client& client = clients_[number];
    if (what == 0 || !client.connection) {
      lose(client.connection);
      client = {std::make_shared<Pretended>()};
      desk_.take_client(client.connection);
    } else if (what == 1) {
      client.asked += is_object(text);
      say(client.connection, text);
    } else {
      lose(client.connection);
    }
  }

  // Like a connection: an error of its end closes it.
  static void say(Connection& connection, std::string_view text) {
    if (!connection || connection->is_closed) return;
    if (!accepts([&] { connection->says_text(std::string(text)); })) lose(connection);
  }
  static void lose(Connection& connection) {
    if (connection && !connection->is_closed) connection->is_lost();
    connection.reset();
  }

  void ask_bridge(std::string_view text) {
    if (!agent_ || agent_->is_closed) return;
    const size_t before = agent_->heard.size();
    const Connection agent = agent_;
    say(agent_, text);
    for (size_t i = before; i < agent->heard.size(); ++i)
      require(agent->heard[i].at("answer").at("ok") == false, "nobody is there to say yes");
  }

  void check() {
    for (const Client& client : clients_) {
      if (!client.connection) continue;
      const auto answers =
          std::ranges::count_if(client.connection->heard, [](const Json& said) { return said.contains("answer"); });
      require(answers <= client.asked && (client.asked > 0 || client.connection->heard.empty()),
              "an answer to a question");
    }
  }

  net::Loop loop_;
  hosts::CommandDesk desk_{loop_};
  hosts::CommandBridge bridge_;
  Connection coordinator_, agent_;
  std::array<Client, 4> clients_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const estrain::fuzz::Folder folder;
  estrain::fuzz::Scene scene(folder);
  std::string_view input = estrain::fuzz::text_of(data, size);
  while (!input.empty()) {
    const size_t end = std::min(input.find('\0'), input.size());
    const std::string_view text = input.substr(0, end);
    if (!text.empty()) scene.play(text[0], text.substr(1));
    input.remove_prefix(std::min(input.size(), end + 1));
  }
  return 0;
}
