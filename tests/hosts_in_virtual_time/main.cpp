// Drives core/hosts/succession through random schedules in virtual time: tests/virtual_time/driver.h has the command
// line.

#include "tests/hosts_in_virtual_time/mistakes.h"
#include "tests/virtual_time/driver.h"

namespace estrain::hosts_in_virtual_time {
namespace {

struct Simulation {
  using Law = hosts_in_virtual_time::Law;
  using Coverage = hosts_in_virtual_time::Coverage;

  static Outcome run(uint64_t seed, std::optional<size_t> mistake, std::FILE* trace) {
    Rules rules;
    if (mistake) mistakes()[*mistake].plant(rules);
    return World(seed, rules, trace).run();
  }
  static std::span<const Mistake> mistakes() { return hosts_in_virtual_time::mistakes(); }

  static bool tell(const Coverage& coverage) {
    static constexpr const char* words[] = {"a kill",
                                            "a cut",
                                            "a one-way cut",
                                            "a pause",
                                            "a leave",
                                            "a join",
                                            "a call to a host that was lost",
                                            "a takeover",
                                            "a coordinator that gave up",
                                            "a takeover without locks that are seen",
                                            "a finished run",
                                            "a first coordinator struck about its first step",
                                            "a takeover beside a host that does not see the run directory",
                                            "a host that registers again",
                                            "a connection that stands at one end alone",
                                            "a host that is set aside, since a stage does not open",
                                            "a host whose system acknowledges nothing",
                                            "an orphan that is linked to a host with a coordinator",
                                            "two hosts that report each other",
                                            "a report about a host for whose report its sender has left"};
    bool all = true;
    for (size_t kind = 0; kind < coverage.hits.size(); ++kind) {
      fmt::print("{:>9} times {}\n", coverage.hits[kind], words[kind]);
      all &= coverage.hits[kind] > 0;
    }
    return all;
  }
};

}  // namespace
}  // namespace estrain::hosts_in_virtual_time

int main(int argc, char** argv) {
  return estrain::virtual_time::drive<estrain::hosts_in_virtual_time::Simulation>(argc, argv);
}
