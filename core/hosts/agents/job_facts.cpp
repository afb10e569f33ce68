#include "core/hosts/agents/job_facts.h"

#include <string>

#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/state/checkpoint/state/manifest.h"
#include "kernels/digest.h"

namespace estrain::hosts {

JobFacts facts_of(const comm::JobMemory& memory) {
  const auto manifest = checkpoint::Manifest::from_json(memory.manifest());
  JobFacts facts;
  if (!manifest.data.empty()) codec::from_field(parse_json(manifest.data, "identity of the data"), facts.data);
  const std::string layout = manifest.layout.to_json();
  facts.layout = kernels::digest(layout.data(), layout.size());
  facts.steps = manifest.total_steps;
  facts.processor = manifest.processor;
  return facts;
}

void require_same_facts(const JobFacts& coordinators, const JobFacts& own, bool any_processor) {
  const auto require_same = [](std::string_view fact, bool is_same) {
    if (is_same) return;
    throw Error::make(Fault::mismatch, "its job is another one than the coordinator's: the {} differs", fact)
        .advise("all hosts of a job need the same data files");
  };
  require_same("layout", coordinators.layout == own.layout);
  require_same("steps", coordinators.steps == own.steps);
  require_same("data", coordinators.data == own.data);
  if (any_processor || coordinators.processor == own.processor) return;
  throw Error::make(Fault::infeasible, "its processor is \"{}\", the coordinator's \"{}\": other bits below D2",
                    own.processor, coordinators.processor)
      .advise("use hosts of one kind, or job.determinism = \"D2\", or accept other bits with --allow-mixed");
}

}  // namespace estrain::hosts
