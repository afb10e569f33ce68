#include "core/pool/pool_client.h"

#include "core/base/error.h"
#include "core/pool/pool_directory.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

bool is_served(const std::string& directory) { return launch::launcher_answers(directory); }

Json ask_pool(const std::string& directory, const Json& request) {
  PoolDirectory(directory).require_pool();
  if (!is_served(directory)) {
    throw Error::make(Fault::usage, "{}: no daemon serves this pool", directory)
        .advise("start it: estrain pool serve " + directory);
  }
  return launch::ask_server(directory, request, -1);
}

}  // namespace estrain::pool
