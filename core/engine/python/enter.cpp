#include "core/engine/python/enter.h"

#include <exception>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/base/json/json_text.h"
#include "core/base/process/build_id.h"
#include "core/base/process/fork_server.h"
#include "core/data/job_data.h"
#include "core/engine/model/torch_error.h"
#include "core/engine/train/probe.h"
#include "core/engine/train/worker.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/comm/messages/probe_messages.h"
#include "core/state/comm/messages/python_tasks.h"
#include "core/state/comm/messages/worker_arguments.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::python {
namespace {

// `wanted`: the build id of the library that estrain was linked with.
void require_same_library(const char* library, uint64_t wanted) {
  const uint64_t here = build_id_of_library(library);
  if (here == wanted) return;
  throw Error::make(Fault::mismatch,
                    "this Python's {} is another build (build id {:016x}) than the one that estrain is built with "
                    "({:016x})",
                    library, here, wanted)
      .advise("install PyPI's wheel of torch, or name another Python: model.python");
}

// LibTorch decides bits, so all processes of a run need the same LibTorch. libestrain_cuda.so, loaded later, computes
// with the libtorch_cuda.so of Python.
void require_same_libtorch(const comm::PythonSetting& setting, const std::string& device) {
  require_same_library("libtorch_cpu.so", setting.libtorch);
  if (device.starts_with("cuda")) require_same_library("libtorch_cuda.so", setting.libtorch_cuda);
}

std::future<data::DataPair> open_data(const spec::JobSpec& spec) {
  return std::async(std::launch::async, [&spec] { return data::open_job(spec); });
}

int run(HostInterpreter& interpreter, const comm::PythonSetting& setting, const comm::PythonWorker& task) {
  train::WorkerSetup setup;
  setup.launcher = comm::WorkersOwnChannel(comm::MessageSocket(UniqueFd(task.socket)));
  const auto report = [&](const Error& error) {
    setup.launcher.send(comm::Failed(error));
    comm::print_last_error(error);
    return exit_code(error.fault());
  };
  try {
    require_same_libtorch(setting, task.options.device);
    setup.spec = spec::parse_text(setting.spec, "the job's spec");
    setup.options = task.options;
    setup.options.checkpoint = task.checkpoint.path;
    if (setup.options.less_memory) setup.spec.data.readers = setup.spec.data.prefetch = 1;
    setup.data = open_data(setup.spec);
    setup.memory = task.memory;
    setup.doorbell = task.doorbell;
    setup.courier = task.courier;
    setup.libraries = setting.libraries.path;
    const run_directory::RunDirectory run(task.run.path);
    setup.algorithms = run.algorithms();
    setup.algorithm_store = task.algorithm_store.path;
    setup.traces = run.traces();
    setup.outputs = run.outputs();
    setup.rows = run.rows();
    setup.interpreter = &interpreter;
    estrain_run_worker(&setup);
  } catch (const Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    return report(Error(Fault::bug, error.what()));
  }
  return 0;
}

// Only copies of a fork server run a job, as workers.
int run(HostInterpreter&, const comm::PythonSetting&, const comm::PythonServer&) { return exit_code(Fault::bug); }

int run(HostInterpreter& interpreter, const comm::PythonSetting& setting, const comm::PythonProbe& task) {
  comm::ProbesOwnChannel asker{comm::MessageSocket(UniqueFd(task.socket))};
  comm::answer_with(asker, [&]() -> comm::ProbeAnswer {
    require_same_libtorch(setting, task.device);
    train::ProbeSetup setup;
    setup.spec = spec::parse_text(setting.spec, "the job's spec");
    setup.data = open_data(setup.spec);
    setup.measures = task.measures;
    setup.foretells = task.foretells;
    setup.one_sample = task.one_sample;
    setup.device = task.device;
    setup.libraries = setting.libraries.path;
    setup.interpreter = &interpreter;
    if (task.seconds) {
      setup.seconds = *task.seconds;
      comm::BlockTimes times;
      estrain_time_blocks(&setup, &times);
      return times;
    }
    comm::ProbeReport report;
    estrain_probe(&setup, &report);
    return report;
  });
  return 0;
}

std::string serve(Json job) {
  comm::PythonSetting setting;
  codec::from_field(job, setting);
  const auto server = std::get<comm::PythonServer>(codec::decode<comm::PythonTask>(job, comm::kPythonTask));
  data::keep_decompressed(data::job_file_names(spec::parse_text(setting.spec, "the job's spec")));
  const auto arguments = comm::WorkerArguments::parse(serve_forks(server.orders));
  job.update(codec::encode(comm::PythonTask(python_worker(arguments, server.algorithm_store.path)), comm::kPythonTask));
  return json_text(job);
}

}  // namespace
}  // namespace estrain::python

void estrain_python_prepare() { estrain::python::define_operators(); }

const char* estrain_python_serve(const char* job) {
  static std::string worker;  // outlives the call
  try {
    worker = estrain::python::serve(estrain::parse_json(job, "the job"));
    return worker.c_str();
  } catch (const estrain::Error&) {  // the workers start by exec, and report the error
    return nullptr;
  }
}

int estrain_python_run(estrain::python::Callback call, const char* job_text, size_t stream_bytes) {
  estrain::python::HostInterpreter interpreter(call, stream_bytes);
  const estrain::Json job = estrain::parse_json(job_text, "the job");
  estrain::comm::PythonSetting setting;
  estrain::codec::from_field(job, setting);
  const int code = std::visit([&](const auto& task) { return estrain::python::run(interpreter, setting, task); },
                              estrain::codec::decode<estrain::comm::PythonTask>(job, estrain::comm::kPythonTask));
  std::fflush(nullptr);
  return code;
}
