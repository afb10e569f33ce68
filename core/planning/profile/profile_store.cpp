#include "core/planning/profile/profile_store.h"

#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"

namespace estrain::profile {
namespace {

constexpr int64_t kPatienceNs = 10'000'000'000;  // a lock that is polled for may go to other processes time and again

std::optional<std::string> value_of(const std::map<std::string, std::string, std::less<>>& environment,
                                    std::string_view name) {
  const auto at = environment.find(name);
  return at == environment.end() || at->second.empty() ? std::nullopt : std::optional(at->second);
}

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

UniqueFd lock(const std::string& path) {
  UniqueFd fd = open_file(path + ".lock", O_RDWR | O_CREAT);
  const int64_t deadline = monotonic_ns() + kPatienceNs;
  while (!take_lock(fd.get(), path + ".lock")) {
    if (monotonic_ns() > deadline)
      throw Error::make(Fault::io, "{}.lock: another process holds it", path)
          .advise("see which with `fuser`, or set ESTRAIN_PROFILES to another file");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

}  // namespace

std::string default_store_path(const std::map<std::string, std::string, std::less<>>& environment) {
  if (const auto path = value_of(environment, "ESTRAIN_PROFILES")) return *path;
  if (const auto cache = value_of(environment, "XDG_CACHE_HOME")) return *cache + "/estrain/profiles.json";
  if (const auto home = value_of(environment, "HOME")) return *home + "/.cache/estrain/profiles.json";
  return "";
}

Profiles ProfileStore::read() const {
  const std::optional<std::string> text = read_file_if_present(path_);
  return text ? Profiles::from_json(parse_json(*text, path_)) : Profiles();
}

Profiles ProfileStore::load() const {
  try {
    return read();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) throw;
  }
  // Another process may have found the damage, too, and already replaced the file.
  try {
    const UniqueFd held = lock(path_);
    return load_locked();
  } catch (const Error& error) {
    warn_(fmt::format("{} is not a readable database of profiles and cannot be renamed ({}); it is ignored", path_,
                      error.message()));
    return {};
  }
}

Profiles ProfileStore::load_locked() const {
  try {
    return read();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) throw;
    const std::string aside = path_ + ".bad";
    std::error_code failure;
    std::filesystem::rename(path_, aside, failure);
    if (failure) throw system_error("cannot rename " + path_, failure.value());
    warn_(fmt::format("{}; renamed to {}, starting a new database of profiles", error.message(), aside));
    return {};
  }
}

void ProfileStore::update(const std::function<void(Profiles&)>& change) const {
  if (path_.empty()) {
    throw Error(Fault::io, "no place for the database of profiles: HOME is not set")
        .advise("set ESTRAIN_PROFILES to a file");
  }
  make_folders(folder_of(path_));
  const UniqueFd held = lock(path_);
  Profiles profiles = load_locked();
  change(profiles);
  write_file_atomically(path_, profiles.to_json().dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace estrain::profile
