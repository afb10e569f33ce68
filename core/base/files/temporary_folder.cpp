#include "core/base/files/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"

namespace estrain {

TemporaryFolder::TemporaryFolder(std::string_view purpose)
    : path_((std::filesystem::temp_directory_path() / fmt::format("estrain-{}-XXXXXX", purpose)).string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw system_error("cannot create folder " + path_, errno);
}

TemporaryFolder::~TemporaryFolder() {
  if (is_kept_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace estrain
