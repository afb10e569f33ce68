#include "core/state/comm/records/nonfinite.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "core/state/comm/job_memory.h"
#include "core/state/comm/stage_control.h"

namespace estrain::comm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<std::string> kNames = {"fc1.weight", "fc2.weight"};

TEST_CASE("what was not finite, in words") {
  using Where = Nonfinite::Where;
  CHECK(in_words({Where::gradient, kNan, kInfinity, 3, 1}, kNames) ==
        "the gradient of fc2.weight is NaN (virtual rank 3; its loss is inf)");
  CHECK(in_words({Where::gradient, -kInfinity, 2.25f, 0, 0}, kNames) ==
        "the gradient of fc1.weight is -inf (virtual rank 0; its loss is 2.25)");
  CHECK(in_words({Where::loss, kInfinity, kInfinity, 7, -1}, kNames) ==
        "the loss of virtual rank 7 is inf, though its gradients are finite");
  CHECK(in_words({Where::norm, kInfinity, 0, -1, -1}, kNames) ==
        "the norm of the gradients is inf, though each EST's are finite");
  CHECK(in_words({Where::update, -kInfinity, 0, -1, 1}, kNames) ==
        "the update makes parameter fc2.weight, or what the optimizer keeps of it, -inf, though each EST's gradient is "
        "finite");
  CHECK(in_words({Where::gradient, kNan, 0, 3, 9}, kNames).find("of ? is") != std::string::npos);
}

TEST_CASE("a record of zeros is one of a step whose numbers are all finite; the mark stays until it is published") {
  UniqueFd fd = JobMemory::create();
  JobMemory memory(fd.get());
  MemoryPlan plan;
  plan.ests = 2;
  plan.ring_records = 4;
  memory.lay_out(plan);
  RecordHead& head = *memory.ring().pending().head;
  CHECK(head.suspect == Nonfinite::Where::nowhere);
  CHECK(head.left_out.where == Nonfinite::Where::nowhere);
  mark_suspect(head, Nonfinite::Where::update);
  CHECK(memory.ring().pending().head->suspect == Nonfinite::Where::update);
  head.left_out.where = Nonfinite::Where::gradient;
  REQUIRE(memory.ring().publish());
  CHECK(memory.ring().pending().head->suspect == Nonfinite::Where::nowhere);
  CHECK(memory.ring().pending().head->left_out.where == Nonfinite::Where::nowhere);
  CHECK(memory.ring().at(0).head->left_out.where == Nonfinite::Where::gradient);
  mark_suspect(*memory.ring().pending().head, Nonfinite::Where::norm);
  StageControl(memory).repair();  // the step is done again
  CHECK(memory.ring().pending().head->suspect == Nonfinite::Where::nowhere);
}

}  // namespace
}  // namespace estrain::comm
