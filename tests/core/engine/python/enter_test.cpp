#include "core/engine/python/enter.h"

#include <doctest/doctest.h>

#include <variant>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/base/process/build_id.h"
#include "core/state/comm/messages/probe_messages.h"
#include "core/state/comm/messages/python_tasks.h"
#include "core/state/comm/messages/worker_messages.h"

namespace estrain::python {
namespace {

std::string job_text(const comm::PythonTask& task, const comm::PythonSetting& setting) {
  Json job = codec::fields_of(setting);
  job.update(codec::encode(task, comm::kPythonTask));
  return job.dump();
}

comm::PythonSetting setting_of(uint64_t libtorch, const char* spec = "") {
  comm::PythonSetting setting;
  setting.spec = spec;
  setting.libtorch = libtorch;
  return setting;
}

int run(const comm::PythonTask& task, const comm::PythonSetting& setting) {
  return estrain_python_run([](int, int64_t) { return 1; }, job_text(task, setting).c_str(), 0);
}

comm::Failed failure_of_worker(const comm::PythonSetting& setting, Fault exit, const char* device = "cpu") {
  auto [launchers, workers] = comm::MessageSocket::pair();
  comm::PythonWorker task;
  task.options.device = device;
  task.socket = ::dup(workers.descriptor());
  CHECK(run(task, setting) == exit_code(exit));
  comm::WorkerChannel channel(std::move(launchers));
  comm::WorkerReport report;
  REQUIRE(channel.receive(&report, 0ms) == comm::Received::message);
  REQUIRE(std::holds_alternative<comm::Failed>(report));
  return std::get<comm::Failed>(report);
}

TEST_CASE("a worker in a Python with another LibTorch tells the launcher, and does not train") {
  const uint64_t here = build_id_of_library("libtorch_cpu.so");
  const comm::Failed failed = failure_of_worker(setting_of(here + 1), Fault::mismatch);
  CHECK(failed.error().fault() == Fault::mismatch);
  CHECK(failed.message.find("is another build") != failed.message.npos);
  CHECK(failed.advice.find("model.python") != failed.advice.npos);
}

TEST_CASE("a GPU's worker also compares LibTorch's part for CUDA, which this process has not loaded") {
  comm::PythonSetting setting = setting_of(build_id_of_library("libtorch_cpu.so"), "no spec");
  setting.libtorch_cuda = 5;
  const comm::Failed failed = failure_of_worker(setting, Fault::mismatch, "cuda:0");
  CHECK(failed.message.find("libtorch_cuda.so is another build (build id 0000000000000000)") != failed.message.npos);
  failure_of_worker(setting, Fault::spec, "cpu:avx2");
}

TEST_CASE("a worker whose spec cannot be read tells the launcher why") {
  const comm::PythonSetting setting = setting_of(build_id_of_library("libtorch_cpu.so"), "[job]\nests = \"two\"\n");
  const comm::Failed failed = failure_of_worker(setting, Fault::spec);
  CHECK(failed.message.find("the job's spec") != failed.message.npos);
}

TEST_CASE("a probe in a Python with another LibTorch answers with that") {
  auto [askers, probes] = comm::MessageSocket::pair();
  comm::PythonProbe task;
  task.socket = ::dup(probes.descriptor());
  CHECK(run(task, setting_of(build_id_of_library("libtorch_cpu.so") + 1)) == 0);
  comm::ProbeChannel channel(std::move(askers));
  comm::ProbeAnswer answer;
  REQUIRE(channel.receive(&answer, 0ms) == comm::Received::message);
  REQUIRE(std::holds_alternative<comm::Failed>(answer));
  CHECK(std::get<comm::Failed>(answer).error().fault() == Fault::mismatch);
}

TEST_CASE("a fork server runs nothing itself, and one that cannot serve says so by no job") {
  CHECK(run(comm::PythonServer(), setting_of(0)) == exit_code(Fault::bug));
  CHECK(estrain_python_serve(job_text(comm::PythonServer(), setting_of(0, "no spec")).c_str()) == nullptr);
  CHECK(estrain_python_serve("no JSON") == nullptr);
}

}  // namespace
}  // namespace estrain::python
