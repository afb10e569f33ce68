#pragma once
// Facts that must be equal on all hosts of a job: layout of the state, steps, data files; below D2, the processor.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/json/json.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

// A data file. A file on another host has another stamp, and may lie elsewhere.
struct DataFact {  // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  std::string what;
  uint64_t size = 0;
  Json whole;  // the digest of all bytes; null: unknown

  bool operator==(const DataFact&) const = default;
  ESTRAIN_FIELDS(what, size, whole)
};

struct JobFacts {
  uint64_t layout = 0;  // digest of the state's layout
  int64_t steps = 0;    // of the whole job
  std::vector<DataFact> data;
  std::string processor;  // Manifest::processor

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(layout, steps, data, processor)
};
JobFacts facts_of(const comm::JobMemory& memory);

// Compares the coordinator's facts with this host's facts. `any_processor`: processors may differ. Throws
// Fault::infeasible for another processor, Fault::mismatch for another job.
void require_same_facts(const JobFacts& coordinators, const JobFacts& own, bool any_processor);

}  // namespace estrain::hosts
