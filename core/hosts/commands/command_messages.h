#pragma once
// The messages of commands from other hosts. A request and an answer are JSON of the control socket
// (core/run/launch/control/control_request.h): neither the desk nor the bridge reads them.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/json/fields.h"
#include "core/base/json/json.h"

namespace estrain::hosts {

// Between a command and an agent's desk (commands.h): one request in a connection.
struct CommandRequest {
  static constexpr std::string_view name = "request";
  Json request;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(request)
};
struct CommandAnswer {
  static constexpr std::string_view name = "answer";
  Json answer;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(answer)
};
struct NoCoordinator {  // no coordinator has heard the request
  static constexpr std::string_view name = "no_coordinator";
  std::string why;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(why)
};

// Between the desk and the coordinator's bridge (commands.h). `client`: the desk's number of the command.
struct ClientRequest {
  static constexpr std::string_view name = "client_request";
  int64_t client = 0;
  Json request;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(client, request)
};
struct ClientGone {
  static constexpr std::string_view name = "client_gone";
  int64_t client = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(client)
};
struct ClientAnswer {
  static constexpr std::string_view name = "client_answer";
  int64_t client = 0;
  Json answer;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(client, answer)
};
struct BridgeStands : codec::NoFields {  // once a second
  static constexpr std::string_view name = "bridge_stands";
};

using CommandQuestion = std::variant<CommandRequest>;
using CommandReply = std::variant<CommandAnswer, NoCoordinator>;
using DeskMessage = std::variant<ClientRequest, ClientGone>;
using BridgeMessage = std::variant<ClientAnswer, BridgeStands>;

}  // namespace estrain::hosts
