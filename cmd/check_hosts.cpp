#include "cmd/check_hosts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cmd/job_hosts.h"
#include "core/base/files/run_files.h"
#include "core/data/job_data.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::cmd {
namespace {

constexpr double kMostClockSeconds = 2;

Finding check_answer(const std::string& check, const Json& row) {
  if (row.contains("error")) {
    const auto fault = static_cast<Fault>(row.value("fault", static_cast<int>(Fault::peer)));
    return Finding::of(check, Error(fault, row.value("error", "")).advise(row.value("advice", "")));
  }
  return Finding::fine(
      check, fmt::format("answers at {}, with this program and key; {} cores, round trip {:.3g} ms, {:.3g} MB/s",
                         row.value("address", ""), row.value("cores", INT64_C(0)),
                         1e3 * row.value("round_trip_seconds", 0.0), 1e-6 * row.value("bytes_per_second", 0.0)));
}

Finding check_clock_of(const std::string& check, const Json& row) {
  const double ahead = row.value("clock_ahead_seconds", 0.0);
  const std::string seen =
      fmt::format("its clock is {:.3g} s {} this one's", std::abs(ahead), ahead < 0 ? "behind" : "ahead of");
  if (std::abs(ahead) <= kMostClockSeconds) return Finding::fine(check, seen);
  return Finding::warn(check, seen,
                       "set both clocks (chrony, ntpd): files on a shared file system are judged by their age");
}

Finding check_data_of(const std::string& check, const Json& row, const Json& own) {
  if (row.contains("data_error"))
    return Finding::user_error(check, row.value("data_error", ""), "all hosts of a job need the same data files");
  std::vector<std::string> others;
  const Json& theirs = row.at("data");
  for (size_t i = 0; i < std::max(own.size(), theirs.size()); ++i) {
    if (i >= own.size() || i >= theirs.size() || own.at(i) != theirs.at(i))
      others.push_back((i < own.size() ? own : theirs).at(i).value("what", ""));
  }
  if (others.empty()) return Finding::fine(check, fmt::format("the same {} data files, by digest", own.size()));
  return Finding::user_error(check, fmt::format("other data than here: {}", fmt::join(others, ", ")),
                             "all hosts of a job need the same data files");
}

// A host that takes over from the launcher needs the run directory. If hosts do not see each other's locks, the host
// also needs a majority of the hosts (core/hosts/PROTOCOL.md).
Finding check_takeover(const Json& rows) {
  std::vector<std::string> apart;
  for (const Json& row : rows) {
    if (!row.value("sees_run", true)) apart.push_back(row.value("host", ""));
  }
  if (!apart.empty() && apart.size() == rows.size())
    return Finding::warn("takeover",
                         "no other host sees the run directory: the loss of the launcher's host stops the run, which "
                         "then goes on from its newest checkpoint",
                         "share the run directory with one of them: estrain agent --run; or write checkpoints often");
  if (!apart.empty())
    return Finding::warn("takeover", fmt::format("{} cannot take the launcher's place", fmt::join(apart, ", ")),
                         "they do not see the run directory; the others can");
  const size_t hosts = rows.size() + 1;
  if (hosts != 2) return Finding::fine("takeover", fmt::format("{} hosts: any one of them may be lost", hosts));
  return Finding::warn("takeover",
                       "of two hosts neither is a majority: where the file system does not show locks between hosts, "
                       "the loss of the launcher's host stops the run",
                       "use three hosts, or a file system with locks (NFS v4, Lustre with flock)");
}

}  // namespace

std::vector<Finding> check_agents(const AgentsCheck& check, const spec::JobSpec& spec) {
  std::vector<Finding> findings;
  try {
    std::vector<std::string> names = named_hosts(check.list);
    std::erase(names, own_host_name());
    const bool has_files = !data::job_file_names(spec).empty();
    const HostsSeen seen = look_at_hosts({.run = check.run,
                                          .names = names,
                                          .seconds = check.seconds,
                                          .listen = check.listen,
                                          .interface = spec.network.interface,
                                          .own = own_host_name(),
                                          .measure = true,
                                          .spec = has_files ? spec::to_toml(spec) : ""});
    findings.push_back(Finding::fine("network key", RunFiles(check.run).network_key() + ": nobody else may read it"));
    for (const Json& row : seen.rows) {
      const std::string host = row.value("host", "");
      findings.push_back(check_answer("host " + host, row));
      if (row.contains("error")) continue;
      findings.push_back(check_clock_of("clock of " + host, row));
      if (has_files) findings.push_back(check_data_of("data of " + host, row, seen.own_data));
    }
    findings.push_back(check_takeover(seen.rows));
  } catch (const Error& error) {
    findings.push_back(Finding::of("hosts", error));
  }
  return findings;
}

}  // namespace estrain::cmd
