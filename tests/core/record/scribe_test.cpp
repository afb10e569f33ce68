#include "core/record/scribe.h"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "core/comm/job_memory.h"

namespace estrain::record {
namespace {

TEST_CASE("a scribe that waits for the first state says that it lives, again and again") {
  const UniqueFd fd = comm::JobMemory::create();
  comm::JobMemory memory(fd.get());
  auto [launcher, scribes] = comm::MessageSocket::pair();
  ScribeSetup setup;
  setup.memory = fd.get();
  setup.launcher = std::move(scribes);
  auto scribe = std::async(std::launch::async, [&] { run_scribe(setup); });
  int beats = 0;
  for (int64_t last = 0, tries = 0; beats < 3 && tries < 4000; ++tries) {
    const int64_t beat = memory.header().scribe_beat_ns.load();
    beats += std::exchange(last, beat) != beat;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  launcher.send({{"do", "finish"}});
  scribe.get();
  CHECK(beats == 3);
}

}  // namespace
}  // namespace estrain::record
