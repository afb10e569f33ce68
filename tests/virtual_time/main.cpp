// Drives core/run/decisions through random schedules in virtual time: driver.h has the command line.

#include <string>
#include <vector>

#include "tests/virtual_time/driver.h"
#include "tests/virtual_time/mistakes.h"
#include "tests/virtual_time/world.h"

namespace estrain::virtual_time {
namespace {

struct Simulation {
  using Law = virtual_time::Law;
  using Coverage = virtual_time::Coverage;

  static Outcome run(uint64_t seed, std::optional<size_t> mistake, std::FILE* trace) {
    return World(seed, mistake ? Decide(virtual_time::mistakes()[*mistake].decide) : Decide(decisions::decide), trace)
        .run();
  }
  static std::span<const Mistake> mistakes() { return virtual_time::mistakes(); }

  // Prints the events and actions that never happened, and the phases of faults and requests.
  static bool tell(const Coverage& coverage) {
    std::vector<std::string> never;
    for (size_t kind = 0; kind < coverage.events.size(); ++kind) {
      if (coverage.events[kind] == 0) never.push_back("the event " + event_name(kind));
    }
    for (size_t kind = 0; kind < coverage.deeds.size(); ++kind) {
      if (coverage.deeds[kind] == 0) never.push_back("the action " + deed_name(kind));
    }
    for (size_t phase = 0; phase < coverage.faults.size(); ++phase) {
      fmt::print("{:<12}{:>9} faults{:>9} requests\n", phase_name(phase), coverage.faults[phase],
                 coverage.requests[phase]);
      if (coverage.faults[phase] == 0) never.push_back("a fault while " + phase_name(phase));
      if (coverage.requests[phase] == 0) never.push_back("a request while " + phase_name(phase));
    }
    for (const std::string& what : never) fmt::print("never happened: {}\n", what);
    return never.empty();
  }
};

}  // namespace
}  // namespace estrain::virtual_time

int main(int argc, char** argv) { return estrain::virtual_time::drive<estrain::virtual_time::Simulation>(argc, argv); }
