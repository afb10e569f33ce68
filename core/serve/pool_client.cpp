#include "core/serve/pool_client.h"

#include "core/base/error.h"
#include "core/launch/control/control_socket.h"
#include "core/serve/pool_directory.h"

namespace estrain::serve {

bool is_served(const std::string& directory) { return launch::launcher_answers(directory); }

Json ask_pool(const std::string& directory, const Json& request) {
  PoolDirectory(directory).require_pool();
  if (!is_served(directory)) {
    throw Error::make(Fault::usage, "{}: no daemon serves this pool", directory)
        .advise("start it: estrain pool serve " + directory);
  }
  return launch::ask_server(directory, request, -1);
}

}  // namespace estrain::serve
