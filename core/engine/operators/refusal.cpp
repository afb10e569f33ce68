#include "core/engine/operators/refusal.h"

#include <utility>

#include "core/engine/operators/scan.h"

namespace estrain::operators {

Refusal::Refusal(const std::string& operator_name, std::string refused, const std::string& advice)
    : Error(Error::make(Fault::infeasible, "the portable kernels do not cover aten::{} {}", operator_name, refused)
                .advise(advice)),
      name(operator_name),
      which(std::move(refused)) {}

namespace {

[[noreturn]] void refuse(const Refusal& refusal) {
  tell_scan(refusal);
  throw Refusal(refusal);
}

}  // namespace

void refuse_type(const char* name, at::ScalarType type) {
  refuse({name, fmt::format("on {}", at::toString(type)),
          "keep the model in float32, or use job.determinism = \"D1\" with job.kernels = \"torch\""});
}

void refuse_case(const char* name, const char* which) {
  refuse({name, fmt::format("with {}", which), "use job.determinism = \"D1\" with job.kernels = \"torch\""});
}

}  // namespace estrain::operators
