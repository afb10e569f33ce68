#include "core/state/record/logs/damage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/base/files/files.h"

namespace estrain::record {

Damage put_aside(const std::string& path, const std::string& sound, std::string why) {
  if (!sound.empty() && ::fsync(open_file(sound, O_RDONLY).get()) != 0)
    throw system_error("cannot write " + sound, errno);
  Damage damage{path, "", std::move(why)};
  for (int number = 1;; ++number) {
    damage.kept_as = fmt::format("{}.damaged-{}", path, number);
    if (::link(path.c_str(), damage.kept_as.c_str()) == 0) break;
    if (errno != EEXIST) throw system_error(fmt::format("cannot keep {} as {}", path, damage.kept_as), errno);
  }
  if (sound.empty()) {
    if (::unlink(path.c_str()) != 0) throw system_error("cannot remove " + path, errno);
  } else if (::rename(sound.c_str(), path.c_str()) != 0) {
    throw system_error("cannot rename " + sound, errno);
  }
  sync_folder(std::filesystem::path(path).parent_path().string());
  return damage;
}

Error damaged(const std::string& path, const std::string& why) {
  return Error::make(Fault::corrupt, "{} is damaged: {}", path, why)
      .advise("`estrain train --resume` keeps it under another name and continues with its intact records");
}

}  // namespace estrain::record
