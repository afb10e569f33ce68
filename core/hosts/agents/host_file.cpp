#include "core/hosts/agents/host_file.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/run_files.h"
#include "core/base/json/codec.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {
namespace {

// The file's JSON.
struct OnDisk {
  std::string address;
  std::optional<bool> sees_run;  // left out: true

  ESTRAIN_FIELDS(address, sees_run)
};

bool may_stand_in_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

}  // namespace

std::string key_file(const std::string& run) { return RunFiles(run).network_key(); }

void require_host_name(const std::string& name) {
  if (!name.empty() && name.size() <= 64 && name[0] != '.' && std::ranges::all_of(name, may_stand_in_a_name)) return;
  throw Error::make(Fault::usage, "\"{}\" is no host's name: letters, digits, '.', '-' and '_', at most 64", name);
}

void write_host_file(const std::string& run, const std::string& name, const HostFile& file) {
  make_folders(RunFiles(run).hosts());
  const OnDisk kept{file.address, file.sees_run ? std::nullopt : std::optional(false)};
  const std::string path = RunFiles(run).host_file(name),
                    beside = path + "." + file.address;  // two agents with one name may write at once
  write_file_atomically(beside, codec::fields_of(kept).dump() + "\n");
  if (::rename(beside.c_str(), path.c_str()) != 0) throw system_error("cannot write " + path, errno);
}

HostFile read_host_file(const std::string& run, const std::string& name) {
  const std::string path = RunFiles(run).host_file(name);
  const std::optional<std::string> text = read_file_if_present(path);
  if (!text) {
    throw Error::make(Fault::peer, "no agent of host {} is there: {} is missing", name, path)
        .advise(fmt::format("start one on that host: estrain agent --run {} --name {}", run, name));
  }
  const Json json = parse_json(*text, path);
  try {
    OnDisk kept;
    codec::from_field(json, kept);
    net::parse_address(kept.address);
    return {kept.address, kept.sees_run.value_or(true)};
  } catch (const Error& error) {
    throw Error::make(Fault::corrupt, "{}: {}", path, error.message());
  }
}

std::optional<HostFile> read_host_file_if_sound(const std::string& run, const std::string& name) {
  try {
    return read_host_file(run, name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void remove_host_file(const std::string& run, const std::string& name, const HostFile& file) {
  if (read_host_file_if_sound(run, name) == file) ::unlink(RunFiles(run).host_file(name).c_str());
}

std::vector<std::string> names_of_host_files(const std::string& run) {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(RunFiles(run).hosts(), failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().extension() == ".json") names.push_back(at->path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace estrain::hosts
