#include "core/pool/hosts/meeting.h"

#include <estrain/version.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"
#include "core/base/json/json.h"
#include "core/base/json/json_text.h"
#include "core/base/process/build_id.h"

namespace estrain::pool {
namespace {

template <typename Message>
std::optional<Message> read(const std::string& path) {
  const Json json = parse_json_if_sound(text_if_readable(path));
  if (!json.is_object()) return std::nullopt;
  try {
    Message message;
    codec::read_fields(json, message);
    return message;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Not synced: a file lost with a host is written again, or the writer is gone too.
void replace(const std::string& path, const Json& json) {
  const std::string temporary = path + ".tmp", text = json_text(json) + "\n";
  {
    const UniqueFd file = create_temporary(temporary);
    if (::fchmod(file.get(), 0600) != 0 || ::write(file.get(), text.data(), text.size()) != std::ssize(text))
      throw system_error("cannot write " + temporary, errno);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw system_error("cannot replace " + path, errno);
}

void make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw system_error("cannot make " + path, errno);
  require_own_folder(path);
}

bool is_own(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

}  // namespace

Build Build::own() { return {ESTRAIN_VERSION, fmt::format("{:016x}", build_id_of_program())}; }

std::vector<std::string> MeetingFolder::hosts() const {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(pool_ + "/hosts", failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->is_directory(failure)) names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::optional<DaemonSign> MeetingFolder::daemon() const { return read<DaemonSign>(pool_ + "/hosts/daemon.json"); }

std::optional<AgentReport> MeetingFolder::report(const std::string& host) const {
  return read<AgentReport>(folder(host) + "/agent.json");
}

std::optional<Orders> MeetingFolder::orders(const std::string& host) const {
  const std::string path = folder(host) + "/orders.json";
  if (!is_own(path)) return std::nullopt;
  return read<Orders>(path);
}

void MeetingFolder::write(const DaemonSign& sign) const {
  make_private_folder(pool_ + "/hosts");
  replace(pool_ + "/hosts/daemon.json", codec::fields_of(sign));
}

void MeetingFolder::write(const std::string& host, const AgentReport& report) const {
  make_private_folder(folder(host));
  replace(folder(host) + "/agent.json", codec::fields_of(report));
}

void MeetingFolder::write(const std::string& host, const Orders& orders) const {
  make_private_folder(folder(host));
  replace(folder(host) + "/orders.json", codec::fields_of(orders));
}

std::string new_life() {
  std::string text = text_if_readable("/proc/sys/kernel/random/uuid");
  std::erase(text, '\n');
  return text.empty() ? fmt::format("{}-{}", ::getpid(), std::chrono::system_clock::now().time_since_epoch().count())
                      : text;
}

}  // namespace estrain::pool
