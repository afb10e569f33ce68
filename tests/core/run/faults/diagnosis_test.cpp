#include "core/run/faults/diagnosis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "core/base/files/files.h"
#include "core/run/faults/fault_rules.h"
#include "tests/contains.h"
#include "tests/core/run/faults/built_in_table.h"
#include "tests/core/run/faults/fault_samples.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::faults {
namespace {

std::string cause_of(const Evidence& evidence) { return table().diagnose(evidence).cause; }

TEST_CASE("each cause is recognised by what it looks like, with class, retry, exit code and evidence") {
  for (const FaultSample& sample : fault_samples()) {
    CAPTURE(sample.cause);
    const Diagnosis found = table().diagnose(sample.evidence);
    CHECK(found.cause == sample.cause);
    CHECK(found.fault_class == sample.fault_class);
    CHECK(found.retry == sample.retry);
    CHECK(found.exit_code == sample.exit_code);
    CHECK(found.evidence == sample.words);
    CHECK_FALSE(found.advice.empty());
    CHECK_FALSE(found.description.empty());
  }
}

TEST_CASE("no cause is without a sample") {
  std::set<std::string> in_table, sampled;
  for (const FaultCause& cause : table().causes()) in_table.insert(cause.id);
  for (const FaultSample& sample : fault_samples()) sampled.insert(sample.cause);
  CHECK(in_table == sampled);
}

TEST_CASE("what the dynamic linker ignores is the cause of nothing") {
  const std::string ignored =
      "ERROR: ld.so: object '/nowhere/libnone.so' from LD_PRELOAD cannot be preloaded (cannot open shared object "
      "file): "
      "ignored.\n";
  Evidence crashed = ended_with(1, ignored + "step 1\n" + ignored);
  crashed.ended->signaled = true;
  crashed.ended->code = SIGSEGV;
  CHECK(cause_of(crashed) == "invalid_memory_access");
  CHECK(cause_of(ended_with(1, ignored)) == "no_signature");
  CHECK(cause_of(ended_with(1, ignored.substr(0, ignored.size() - 1))) == "no_signature");
  CHECK(cause_of(ended_with(1, ignored + "libx.so: cannot open shared object file: No such file or directory\n")) ==
        "cannot_load_libs");
}

TEST_CASE("a line of a log leads to its cause") {
  for (const SampleLine& sample : sample_log_lines()) {
    CAPTURE(sample.line);
    const Diagnosis found = table().diagnose(ended_with(1, "epoch 1\n" + sample.line + "\n"));
    CHECK(found.cause == sample.cause);
    CHECK(contains(found.evidence, "exit status 1; its log says \""));
  }
}

TEST_CASE("no pattern of the table is dead: each fits a line of its cause") {
  for (const FaultCause& cause : table().causes()) {
    for (const Signature& signature : cause.signatures) {
      if (!signature.faults.empty()) continue;  // matches only reports; see the samples
      for (const LinePattern& pattern : signature.text) {
        CAPTURE(cause.id);
        CAPTURE(pattern.text());
        bool fits = false;
        for (const SampleLine& sample : sample_log_lines()) {
          fits |= sample.cause == cause.id && pattern.first_line_in(sample.line).has_value();
        }
        CHECK(fits);
      }
    }
  }
}

TEST_CASE("every failure reason of the Philly study has its cause, and none is made up") {
  const std::set<std::string> reasons = {"CPU out of memory", "Incorrect inputs",      "Semantic error",
                                         "Core dump",         "Invalid memory access", "Model checkpoint error",
                                         "CUDA failure",      "Syntax error",          "Traceback from crash",
                                         "MPI error",         "GPU out of memory",     "MPI runtime failure",
                                         "Permission error",  "Import error",          "Job preempted",
                                         "CUDA init failed",  "Model diverged",        "CUDA version mismatch",
                                         "GPU ECC error",     "Output node error",     "Cannot load libs",
                                         "No signature"};
  std::set<std::string> named;
  for (const FaultCause& cause : table().causes()) {
    if (!cause.study.empty()) CHECK_MESSAGE(named.insert(cause.study).second, cause.study);
  }
  CHECK(named == reasons);
}

TEST_CASE("what is the user's to correct is never tried again") {
  for (const FaultCause& cause : table().causes()) {
    CAPTURE(cause.id);
    CHECK_FALSE((cause.fault_class == FaultClass::user && cause.retry));
  }
}

TEST_CASE("no advice names a script of the source tree, which an installed program lacks") {
  for (const FaultCause& cause : table().causes()) {
    CAPTURE(cause.id);
    CHECK(cause.advice.find("scripts/") == std::string::npos);
  }
}

TEST_CASE("only a suspect device is left out, and only where it is short does the next attempt use less memory") {
  std::set<std::string> device, memory;
  for (const FaultCause& cause : table().causes()) {
    if (cause.other_device) device.insert(cause.id);
    if (cause.less_memory) memory.insert(cause.id);
  }
  CHECK(device == std::set<std::string>{"wrong_results", "gpu_ecc_error", "gpu_lost", "device_missing",
                                        "cuda_init_failed", "device_failed", "illegal_instruction", "host_lost"});
  CHECK(memory == std::set<std::string>{"cpu_out_of_memory", "shared_memory_full", "resource_limit"});
}

TEST_CASE("crashes without a cause outside are made good at once") {
  for (const Evidence& evidence : {ended_by(SIGKILL), ended_by(SIGSEGV), ended_by(SIGABRT), ended_with(1)}) {
    const Diagnosis found = table().diagnose(evidence);
    CHECK(found.retry);
    CHECK(found.backoff_seconds == 0);
  }
  CHECK(table().diagnose(reported(Fault::io, "data/train.bin: Input/output error")).backoff_seconds == 2);
}

TEST_CASE("the root cause is named, not its consequence") {
  SUBCASE("an allocation that failed, not the exception that nobody caught or the abort") {
    CHECK(cause_of(ended_by(SIGABRT,
                            "terminate called after throwing an instance of 'std::bad_alloc'\n"
                            "  what():  std::bad_alloc\n")) == "cpu_out_of_memory");
  }
  SUBCASE("the violation, not the trace that it leaves") {
    const std::string trace = "frame #0: 0x00007f2a in fold(float*)\nframe #1: 0x00007f2b in main\n";
    CHECK(cause_of(ended_by(SIGSEGV, trace)) == "invalid_memory_access");
    CHECK(cause_of(ended_by(SIGABRT, trace)) == "traceback_from_crash");
  }
  SUBCASE("the damaged GPU, not the collective operation that missed it") {
    const std::string log =
        "NVRM: Xid (PCI:0000:65:00): 95, pid=99, Uncontained ECC error\n"
        "CUDA error: unspecified launch failure\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\n"
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n";
    CHECK(cause_of(ended_by(SIGABRT, log)) == "gpu_ecc_error");
    CHECK(cause_of(reported(Fault::bug, "LibTorch: CUDA error: unspecified launch failure", log)) == "gpu_ecc_error");
  }
  SUBCASE("the lost GPU, not the standstill") {
    Evidence evidence;
    evidence.hung = true;
    evidence.log_tail = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n";
    const Diagnosis found = table().diagnose(evidence);
    CHECK(found.cause == "gpu_lost");
    CHECK(contains(found.evidence, "no progress"));
    CHECK(contains(found.evidence, "fallen off the bus"));
  }
  SUBCASE("the full disk, not the checkpoint that did not get onto it") {
    CHECK(cause_of(reported(Fault::io, "checkpoints/step-000000100.h5: No space left on device")) == "disk_full");
    CHECK(cause_of(reported(Fault::io, "checkpoints/step-000000100.h5: Permission denied")) == "permission_error");
  }
  SUBCASE("the disk under this process, not the neighbour that it waited for") {
    CHECK(cause_of(reported(Fault::peer, "EST 4's worker is gone", "read data/train.bin: Input/output error\n")) ==
          "storage_error");
  }
  SUBCASE("memory of the GPU, not the call that met it") {
    CHECK(cause_of(reported(Fault::bug, "LibTorch: CUDA error: out of memory")) == "gpu_out_of_memory");
  }
  SUBCASE("the library below, not the one that needed it") {
    CHECK(cause_of(reported(Fault::io,
                            "cannot load the worker library: libc10.so: cannot open shared object file: No "
                            "such file or directory")) == "cannot_load_libs");
  }
  SUBCASE("what the dynamic linker or LibTorch says, not that the library failed") {
    const auto loading = [](const std::string& words) {
      return cause_of(naming("cannot_load_libs", reported(Fault::io, words)));
    };
    CHECK(loading("cannot load it: libc10.so: file too short") == "cannot_load_libs");
    CHECK(loading("cannot load it: libc10.so: undefined symbol: x") == "semantic_error");
    CHECK(cause_of(naming("torch_exception", reported(Fault::bug, "CUDA error: out of memory"))) ==
          "gpu_out_of_memory");
  }
}

// The sources that name a cause, by the cause: {"user_code": {"core/engine/python/interpreter.cpp"}}.
std::map<std::string, std::set<std::string>> causes_in_sources() {
  const std::regex named(R"re((?:caused_by\(|write_text\()"([a-z_]+)"\))re");
  std::map<std::string, std::set<std::string>> causes;
  for (const char* top : {"core", "cmd"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(ESTRAIN_SOURCE_DIR + std::string("/") + top)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      const std::string text = read_file(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at)
        causes[(*at)[1]].insert(entry.path());
    }
  }
  return causes;
}

TEST_CASE("the causes that errors of estrain name are those of the table which may be named") {
  std::set<std::string> in_table, in_sources;
  for (const FaultCause& cause : table().causes()) {
    if (std::ranges::any_of(cause.signatures, &Signature::named)) in_table.insert(cause.id);
  }
  for (const auto& [cause, sources] : causes_in_sources()) in_sources.insert(cause);
  CHECK(in_table == in_sources);
}

TEST_CASE("a named cause is found whatever the message says") {
  for (const FaultCause& cause : table().causes()) {
    const auto signature = std::ranges::find_if(cause.signatures, &Signature::named);
    if (signature == cause.signatures.end()) continue;
    CAPTURE(cause.id);
    const std::vector<Fault> faults =
        signature->faults.empty() ? std::vector{Fault::device, Fault::mismatch, Fault::bug} : signature->faults;
    for (const Fault fault : faults) {
      for (const char* message : {"it is as it is", "other words"}) {
        Evidence evidence = ended_with(1, "step 3\n");
        evidence.said = Error(fault, message).caused_by(cause.id).within("worker 3").advise("look");
        CHECK(cause_of(evidence) == cause.id);
      }
    }
  }
}

TEST_CASE("a line of the log names a cause at its end; the words for the user leave the name out") {
  const Diagnosis found =
      table().diagnose(ended_by(SIGBUS, "step 1\n a.tar: any words [cause: data_file_shortened]\n"));
  CHECK(found.cause == "data_file_shortened");
  CHECK(contains(found.evidence, "any words\""));
  CHECK(cause_of(ended_by(SIGBUS, "[cause: data_file]\n")) == "shared_memory_full");
  CHECK(cause_of(ended_by(SIGKILL, "a [cause: data_file_shortened]\n")) == "killed");
  CHECK(cause_of(reported(Fault::spec, "no key", "a [cause: data_file_shortened]\n")) == "syntax_error");
}

TEST_CASE("a user's rule comes before the cause that an error names") {
  const ScratchFolder folder;
  write_file_atomically(
      folder / "rules.toml",
      "[[cause]]\nid = \"own\"\nclass = \"engine\"\ndescription = \"d\"\nretry = true\nadvice = \"a\"\n"
      "signatures = [{ text = ['flaky rack'] }]\n");
  const Evidence evidence = naming("host_lost", reported(Fault::peer, "flaky rack"));
  CHECK(cause_of(evidence) == "host_lost");
  CHECK(FaultTable::with_rules(folder / "rules.toml").diagnose(evidence).cause == "own");
}

TEST_CASE("how a process hung is passed on") {
  Evidence evidence;
  evidence.hung = true;
  evidence.hung_how = "made no progress for 7.1 s";
  CHECK(table().diagnose(evidence).evidence == "made no progress for 7.1 s");
}

TEST_CASE("a kill for memory is told from another by the evidence alone") {
  Evidence evidence = ended_by(SIGKILL);
  CHECK(cause_of(evidence) == "killed");
  evidence.job_wide_oom = true;
  CHECK(cause_of(evidence) == "cpu_out_of_memory");
  evidence.ended->code = SIGSEGV;  // that was not the out-of-memory killer
  CHECK(cause_of(evidence) == "invalid_memory_access");
}

TEST_CASE("a process ended from outside did not end by the error of the user's that its log mentions") {
  const std::string log = "warning: loss is nan\nrun/cache: Permission denied\n";
  Evidence hung;
  hung.hung = true;
  hung.log_tail = log;
  CHECK(cause_of(hung) == "hung");
  CHECK(cause_of(ended_by(SIGKILL, log)) == "killed");
  CHECK(cause_of(ended_by(SIGABRT, log)) == "permission_error");
}

TEST_CASE("a reported error of the user's is the last word") {
  const std::string log = "CUDA error: uncorrectable ECC error encountered\nNo space left on device\n";
  for (const Fault fault : {Fault::usage, Fault::spec, Fault::infeasible, Fault::corrupt, Fault::mismatch}) {
    CAPTURE(fault_name(fault));
    const Diagnosis found = table().diagnose(reported(fault, "it is wrong", log));
    CHECK(found.fault_class == FaultClass::user);
    CHECK_FALSE(found.retry);
    CHECK(found.exit_code == exit_code(fault));
  }
  for (const Fault fault : {Fault::usage, Fault::spec, Fault::corrupt, Fault::mismatch}) {
    CAPTURE(fault_name(fault));  // a message may contain the user's own words
    const Diagnosis found = table().diagnose(reported(fault, "job \"No space left on device\" is wrong", log));
    CHECK_FALSE(found.retry);
    CHECK(found.exit_code == exit_code(fault));
  }
  CHECK(cause_of(reported(Fault::infeasible,
                          "[enforce fail] DefaultCPUAllocator: not enough memory: you tried to "
                          "allocate 4000000000 bytes.")) == "cpu_out_of_memory");
}

TEST_CASE("other reported errors are told apart by their kind") {
  CHECK(cause_of(reported(Fault::io, "data/train.bin: it did not work")) == "storage_error");
  CHECK(cause_of(reported(Fault::io, "data/train.bin: no such file, nor data/train.bin.gz")) == "incorrect_inputs");
  CHECK(cause_of(reported(Fault::interrupted, "asked to stop")) == "job_preempted");
  CHECK(cause_of(reported(Fault::device, "it is not there")) == "device_failed");
  CHECK(cause_of(reported(Fault::peer, "it is gone")) == "mpi_runtime_failure");
  CHECK(cause_of(reported(Fault::bug, "it cannot be")) == "engine_bug");
}

TEST_CASE("exit statuses of shells and loaders speak as the signals behind them") {
  const std::pair<int, const char*> statuses[] = {{2, "syntax_error"},
                                                  {75, "job_preempted"},
                                                  {126, "permission_error"},
                                                  {127, "cannot_load_libs"},
                                                  {132, "illegal_instruction"},
                                                  {134, "core_dump"},
                                                  {135, "shared_memory_full"},
                                                  {137, "killed"},
                                                  {139, "invalid_memory_access"},
                                                  {143, "job_preempted"},
                                                  {0, "no_signature"},
                                                  {3, "no_signature"}};
  for (const auto& [status, cause] : statuses) {
    CAPTURE(status);
    CHECK(cause_of(ended_with(status)) == cause);
  }
}

TEST_CASE(
    "a device that is not there is not tried again at a job's start; one that a running job lost is gone without") {
  for (const char* words :
       {"there is no cuda:7: 2 GPUs are visible, counted from cuda:0", "cuda:0: this estrain was built without CUDA",
        "no NVIDIA driver: libcuda.so.1: cannot open shared object file: No such file or directory",
        "the NVIDIA driver finds no GPU (no CUDA-capable device is detected)"}) {
    CAPTURE(words);
    Evidence evidence = naming("device_missing", reported(Fault::device, words));
    const Diagnosis running = table().diagnose(evidence);
    CHECK(running.cause == "device_missing");
    CHECK(running.retry);
    CHECK(running.other_device);
    evidence.at_start = true;
    const Diagnosis starting = table().diagnose(evidence);
    CHECK(starting.cause == "device_missing");
    CHECK_FALSE(starting.retry);
    CHECK(starting.exit_code == exit_code(Fault::device));
  }
}

TEST_CASE("all else that may pass is tried again at a job's start, too") {
  for (const FaultSample& sample : fault_samples()) {
    if (sample.cause == "device_missing") continue;
    CAPTURE(sample.cause);
    Evidence evidence = sample.evidence;
    evidence.at_start = true;
    CHECK(table().diagnose(evidence).retry == sample.retry);
  }
}

TEST_CASE("nothing at all is a diagnosis too") {
  const Diagnosis found = table().diagnose({});
  CHECK(found.cause == "no_signature");
  CHECK(found.evidence == "nothing: no report, no signal, no line in its log");
}

TEST_CASE("a reported error's own advice is passed on, else the table's") {
  Evidence evidence = reported(Fault::io, "disk: No space left on device");
  CHECK(table().diagnose(evidence).advice == cause_called(table(), "disk_full").advice);
  evidence.said = evidence.said->advise("delete run/old");
  CHECK(table().diagnose(evidence).advice == "delete run/old");
}

TEST_CASE("a log may be long, without line ends, and no text at all") {
  const std::string noise(300'000, 'x');
  CHECK(cause_of(ended_with(1, "std::bad_alloc\n" + noise)) == "no_signature");  // too far back
  CHECK(cause_of(ended_with(1, noise + "\nstd::bad_alloc\n" + noise.substr(0, 60'000))) == "cpu_out_of_memory");
  CHECK(cause_of(ended_with(1, noise + " std::bad_alloc")) == "cpu_out_of_memory");
  std::string zeros = "abc";
  zeros += '\0';
  CHECK(cause_of(ended_with(1, zeros + "\nstd::bad_alloc")) == "cpu_out_of_memory");

  const Diagnosis found =
      table().diagnose(ended_with(1, "\x1b[31mstd::bad_alloc \xff\xfe\x80\x01 \xc3\xa4" + noise.substr(0, 60'000)));
  CHECK(contains(found.evidence, "std::bad_alloc"));
  CHECK(contains(found.evidence, "\xc3\xa4"));
  CHECK(found.evidence.size() < 600);
  CHECK_FALSE(contains(found.evidence, "\x1b"));
  CHECK(Json::parse(to_json(found).dump()).at("evidence") == found.evidence);
}

TEST_CASE("a diagnosis as JSON") {
  const Diagnosis found = table().diagnose(fault_samples().at(11).evidence);
  CHECK(to_json(found).dump() ==
        "{\"cause\":\"cpu_out_of_memory\",\"class\":\"engine\","
        "\"description\":\"the host's memory, or the part that the job may use, ran out\",\"retry\":true,"
        "\"backoff_seconds\":1.0,\"other_device\":false,\"less_memory\":true,\"exit_code\":1,"
        "\"evidence\":\"SIGKILL (signal 9), largest resident set 1.9 GB; memory.events: oom_kill 1 (was 0), "
        "memory.max 2.1 GB, memory.peak 2.1 GB\","
        "\"advice\":\"give the job more memory (Slurm: --mem), use fewer workers on this host, lower data.batch, "
        "data.readers or data.prefetch\"}");
}

TEST_CASE("the table of FAULTS.md is that of the rules") {
  const std::string document = read_file(ESTRAIN_SOURCE_DIR "/core/run/faults/FAULTS.md");
  CHECK_MESSAGE(contains(document, "\n" + table().markdown()), table().markdown());
}

}  // namespace
}  // namespace estrain::faults
