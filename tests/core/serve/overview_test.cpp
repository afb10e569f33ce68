#include "core/serve/overview.h"

#include <doctest/doctest.h>

namespace estrain::serve {
namespace {

TEST_CASE("a trace has a row for each device that was taken, until it was lent again") {
  const std::vector<Line> history = {{100, 1, "admitted", 0, ""},
                                     {110, 0, "take", 2, ""},
                                     {113, 0, "lend", 1, ""},
                                     {115, 0, "lend", 1, ""},
                                     {120, 0, "take", 1, ""}};
  CHECK(trace_of({}, history) ==
        "name,submit_s,ests,devices,most,steps,start_s,step_s_1\n"
        "(taken),10.000,1,1,1,0,3.000,0\n(taken),10.000,1,1,1,0,5.000,0\n");
}

}  // namespace
}  // namespace estrain::serve
