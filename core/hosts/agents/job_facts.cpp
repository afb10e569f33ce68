#include "core/hosts/agents/job_facts.h"

#include <string>

#include "core/base/error.h"
#include "core/state/checkpoint/state/manifest.h"
#include "kernels/digest.h"

namespace estrain::hosts {

Json facts_of(const comm::JobMemory& memory) {
  const auto manifest = checkpoint::Manifest::from_json(memory.manifest());
  Json data = Json::array();  // a file on another host has another stamp, and may lie elsewhere
  if (!manifest.data.empty()) {
    for (const Json& file : parse_json(manifest.data, "identity of the data"))
      data.push_back({file.value("what", ""), file.value("size", 0), file.value("whole", Json())});
  }
  const std::string layout = manifest.layout.to_json();
  return {{"layout", kernels::digest(layout.data(), layout.size())},
          {"steps", manifest.total_steps},
          {"data", data},
          {"processor", manifest.processor}};
}

void require_same_facts(const Json& coordinators, const Json& own, bool any_processor) {
  for (const char* fact : {"layout", "steps", "data", "processor"}) {
    if (any_processor && fact == std::string_view("processor")) continue;
    if (coordinators.value(fact, Json()) == own.at(fact)) continue;
    if (fact == std::string_view("processor")) {
      throw Error::make(Fault::infeasible, "its processor is \"{}\", the coordinator's \"{}\": other bits below D2",
                        own.at(fact).get<std::string>(), coordinators.value(fact, ""))
          .advise("use hosts of one kind, or job.determinism = \"D2\", or accept other bits with --allow-mixed");
    }
    throw Error::make(Fault::mismatch, "its job is another one than the coordinator's: the {} differs", fact)
        .advise("all hosts of a job need the same data files");
  }
}

}  // namespace estrain::hosts
