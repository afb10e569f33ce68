#include "tests/core/run/faults/fault_samples.h"

#include <csignal>
#include <utility>

namespace estrain::faults {
namespace {

using enum FaultClass;

Evidence killed_for_memory() {
  Evidence evidence = ended_by(SIGKILL);
  evidence.ended->peak_memory_bytes = 1'900'000'000;
  evidence.job_wide_oom = true;
  evidence.oom_text = "memory.events: oom_kill 1 (was 0), memory.max 2.1 GB, memory.peak 2.1 GB";
  return evidence;
}

Evidence killed_by_somebody() {
  Evidence evidence = ended_by(SIGKILL);
  evidence.ended->peak_memory_bytes = 512'000'000;
  evidence.oom_text = "memory.events: oom_kill 0, memory.max 2.1 GB, memory.peak 0.9 GB";
  return evidence;
}

Evidence hung() {
  Evidence evidence;
  evidence.hung = true;
  return evidence;
}

}  // namespace

Evidence ended_by(int signal, std::string log) {
  Evidence evidence;
  evidence.ended = ChildEnd{true, signal, 0};
  evidence.log_tail = std::move(log);
  return evidence;
}

Evidence ended_with(int exit_status, std::string log) {
  Evidence evidence;
  evidence.ended = ChildEnd{false, exit_status, 0};
  evidence.log_tail = std::move(log);
  return evidence;
}

Evidence naming(std::string cause, Evidence evidence) {
  evidence.said = evidence.said->caused_by(std::move(cause));
  return evidence;
}

Evidence reported(Fault fault, std::string message, std::string log) {
  Evidence evidence = ended_with(exit_code(fault), std::move(log));
  evidence.said = Error(fault, std::move(message));
  return evidence;
}

std::vector<FaultSample> fault_samples() {
  return {
      {"wrong_results",
       naming("wrong_results",
              reported(Fault::device,
                       "wrong results in the audit of step 25: the gradient of fc.weight of virtual rank 0 differs "
                       "from the result of two others; no audit vouches for what this device computed after "
                       "step 24")),
       infrastructure, true, 1,
       "exit status 1; it reported \"wrong results in the audit of step 25: the gradient of fc.weight of virtual rank "
       "0 differs from "
       "the "
       "result of two others; no audit vouches for what this device computed after step 24\""},
      {"audit_undecided",
       naming("audit_undecided",
              reported(Fault::device,
                       "the audit of step 8 cannot tell which device is wrong: worker 0 (cpu) and worker 1 (cpu)")),
       infrastructure, false, 1,
       "exit status 1; it reported \"the audit of step 8 cannot tell which device is wrong: worker 0 (cpu) and worker "
       "1 (cpu)\""},
      {"damaged_state",
       naming("damaged_state",
              reported(Fault::corrupt,
                       "the audit of step 9 found the state damaged in memory: fc.weight is not what was written")),
       infrastructure, false, 75,
       "exit status 1; it reported \"the audit of step 9 found the state damaged in memory: fc.weight is not what was "
       "written\""},
      {"gpu_ecc_error",
       ended_by(SIGABRT, "step 812\nCUDA error: uncorrectable ECC error encountered\nterminate called\n"),
       infrastructure, true, 1, "SIGABRT (signal 6); its log says \"CUDA error: uncorrectable ECC error encountered\""},
      {"gpu_lost", ended_with(1, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"),
       infrastructure, true, 1,
       "exit status 1; its log says \"NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\""},
      {"host_lost", naming("host_lost", reported(Fault::peer, "host nodeB is lost: connection lost: End of file")),
       infrastructure, true, 1, "exit status 1; it reported \"host nodeB is lost: connection lost: End of file\""},
      {"cuda_version_mismatch",
       reported(Fault::bug, "LibTorch: CUDA driver version is insufficient for CUDA runtime version"), user, false, 1,
       "exit status 1; it reported \"LibTorch: CUDA driver version is insufficient for CUDA runtime version\""},
      {"gpu_out_of_memory",
       reported(Fault::infeasible, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 80 GiB"), user, false, 1,
       "exit status 2; it reported \"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 80 GiB\""},
      {"device_missing",
       naming("device_missing",
              reported(Fault::device, "there is no cuda:99: 1 GPU is visible, counted from cuda:0", "CUDA error: x\n")),
       infrastructure, true, 1,
       "exit status 1; it reported \"there is no cuda:99: 1 GPU is visible, counted from cuda:0\""},
      {"cuda_init_failed", reported(Fault::bug, "LibTorch: CUDA error: no CUDA-capable device is detected"),
       infrastructure, true, 1,
       "exit status 1; it reported \"LibTorch: CUDA error: no CUDA-capable device is detected\""},
      {"invalid_memory_access", ended_by(SIGSEGV), engine, true, 1, "SIGSEGV (signal 11)"},
      {"cpu_out_of_memory", killed_for_memory(), engine, true, 1,
       "SIGKILL (signal 9), largest resident set 1.9 GB; memory.events: oom_kill 1 (was 0), memory.max 2.1 GB, "
       "memory.peak 2.1 GB"},
      {"data_file_shortened",
       ended_by(SIGBUS, "data file /data/2.tar became shorter while it was in use [cause: data_file_shortened]\n"),
       user, false, 1, "SIGBUS (signal 7); its log says \"data file /data/2.tar became shorter while it was in use\""},
      {"shared_memory_full", ended_by(SIGBUS), infrastructure, true, 1, "SIGBUS (signal 7)"},
      {"disk_full", reported(Fault::io, "write checkpoint run/checkpoints/step-000000100.h5: No space left on device"),
       infrastructure, true, 1,
       "exit status 1; it reported \"write checkpoint run/checkpoints/step-000000100.h5: No space left on device\""},
      {"resource_limit", reported(Fault::io, "cannot open data/train.h5: Too many open files"), infrastructure, true, 1,
       "exit status 1; it reported \"cannot open data/train.h5: Too many open files\""},
      {"job_preempted", ended_by(SIGTERM), infrastructure, true, 75, "SIGTERM (signal 15)"},
      {"permission_error", reported(Fault::io, "cannot open data/train.h5: Permission denied"), user, false, 1,
       "exit status 1; it reported \"cannot open data/train.h5: Permission denied\""},
      {"user_code",
       naming(
           "user_code",
           reported(
               Fault::spec,
               "the model's Python code raised ImportError: no\nTraceback (most recent call last):\nImportError: no")),
       user, false, 1, "exit status 2; it reported \"the model's Python code raised ImportError: no\""},
      {"data_worker_lost",
       naming(
           "data_worker_lost",
           reported(Fault::peer,
                    "data: data.py:train: sample 3: the data worker that read the sample ended: SIGKILL (signal 9)")),
       infrastructure, true, 1,
       "exit status 1; it reported \"data: data.py:train: sample 3: the data worker that read the sample ended: "
       "SIGKILL "
       "(signal 9)\""},
      {"data_worker_hung",
       naming("data_worker_hung",
              reported(Fault::peer,
                       "data.py:train: sample 3: the data worker has not read the sample in 60 s\nThread 0x1:\n")),
       infrastructure, true, 1,
       "exit status 1; it reported \"data.py:train: sample 3: the data worker has not read the sample in 60 s\""},
      {"semantic_error",
       reported(Fault::io,
                "cannot load the worker library: bin/libestrain_worker.so: undefined symbol: _ZN3c105ErrorC1ESs"),
       user, false, 1,
       "exit status 1; it reported \"cannot load the worker library: bin/libestrain_worker.so: undefined symbol: "
       "_ZN3c105ErrorC1ESs\""},
      {"program_replaced",
       naming(
           "program_replaced",
           reported(Fault::mismatch, "this worker runs another build of estrain or LibTorch than the run's first one")),
       user, false, 1,
       "exit status 1; it reported \"this worker runs another build of estrain or LibTorch than the run's first one\""},
      {"import_error",
       reported(Fault::io,
                "cannot load the worker library: bin/libestrain_worker.so: cannot open shared object file: No such "
                "file or directory"),
       user, false, 1,
       "exit status 1; it reported \"cannot load the worker library: bin/libestrain_worker.so: cannot open shared "
       "object file: No such file or directory\""},
      {"cannot_load_libs",
       ended_with(127,
                  "estrain: error while loading shared libraries: libhdf5.so.103: cannot open shared object file: No "
                  "such file or directory\n"),
       user, false, 1,
       "exit status 127; its log says \"estrain: error while loading shared libraries: libhdf5.so.103: cannot open "
       "shared object file: No such file or directory\""},
      {"data_changed",
       naming("data_changed",
              reported(Fault::mismatch,
                       "the data have changed since the run began: /x/no such dataset.txt: 9 bytes, were 5")),
       user, false, 1,
       "exit status 1; it reported \"the data have changed since the run began: /x/no such dataset.txt: 9 bytes, were "
       "5\""},
      {"output_node_error",
       naming("output_node_error", reported(Fault::mismatch, "model.h5: no such dataset: /fc.weight")), user, false, 1,
       "exit status 1; it reported \"model.h5: no such dataset: /fc.weight\""},
      {"model_checkpoint_error",
       reported(Fault::io, "write checkpoint run/checkpoints/step-000000100.h5: Input/output error"), infrastructure,
       true, 1,
       "exit status 1; it reported \"write checkpoint run/checkpoints/step-000000100.h5: Input/output error\""},
      {"incorrect_inputs",
       reported(Fault::corrupt, "train-images.gz: decompression failed after 4096 of 9912422 bytes"), user, false, 1,
       "exit status 1; it reported \"train-images.gz: decompression failed after 4096 of 9912422 bytes\""},
      {"storage_error", reported(Fault::io, "cannot read data/train.bin: Stale file handle"), infrastructure, true, 1,
       "exit status 1; it reported \"cannot read data/train.bin: Stale file handle\""},
      {"mpi_error", ended_with(1, "NCCL error in: comm.cpp:77, ncclInternalError: Internal check failed.\n"), engine,
       true, 1,
       "exit status 1; its log says \"NCCL error in: comm.cpp:77, ncclInternalError: Internal check failed.\""},
      {"mpi_runtime_failure", reported(Fault::peer, "the worker that builds the state did not become ready"),
       infrastructure, true, 1, "exit status 1; it reported \"the worker that builds the state did not become ready\""},
      {"cuda_failure", reported(Fault::bug, "LibTorch: CUDA error: unspecified launch failure"), engine, true, 1,
       "exit status 1; it reported \"LibTorch: CUDA error: unspecified launch failure\""},
      {"model_diverged", reported(Fault::infeasible, "step 41: the loss of EST 3 is nan"), user, false, 1,
       "exit status 2; it reported \"step 41: the loss of EST 3 is nan\""},
      {"infeasible", reported(Fault::infeasible, "5 workers for 4 ESTs"), user, false, 2,
       "exit status 2; it reported \"5 workers for 4 ESTs\""},
      {"syntax_error", reported(Fault::spec, "job.toml:3:1: data.bach: unknown key"), user, false, 2,
       "exit status 2; it reported \"job.toml:3:1: data.bach: unknown key\""},
      {"device_failed", reported(Fault::device, "device \"cpu:avx512\": this machine has no such instructions"),
       infrastructure, true, 1,
       "exit status 1; it reported \"device \"cpu:avx512\": this machine has no such instructions\""},
      {"no_deterministic_kernel",
       naming("torch_exception", reported(Fault::bug,
                                          "LibTorch: index_reduce_cuda does not have a deterministic "
                                          "implementation, but you set it")),
       user, false, 1,
       "exit status 1; it reported \"LibTorch: index_reduce_cuda does not have a deterministic implementation, but you "
       "set it\""},
      {"torch_exception", naming("torch_exception", reported(Fault::bug, "LibTorch: could not create a primitive")),
       engine, true, 1, "exit status 1; it reported \"LibTorch: could not create a primitive\""},
      {"engine_bug", reported(Fault::bug, "reduction tree too deep"), engine, true, 1,
       "exit status 1; it reported \"reduction tree too deep\""},
      {"hung", hung(), infrastructure, true, 1, "it made no progress and was killed"},
      {"illegal_instruction", ended_by(SIGILL), infrastructure, true, 1, "SIGILL (signal 4)"},
      {"traceback_from_crash",
       ended_by(SIGABRT,
                "terminate called after throwing an instance of 'std::runtime_error'\n  what():  queue closed\n"),
       engine, true, 1, "SIGABRT (signal 6); its log says \"what():  queue closed\""},
      {"core_dump", ended_by(SIGABRT), engine, true, 1, "SIGABRT (signal 6)"},
      {"killed", killed_by_somebody(), infrastructure, true, 1,
       "SIGKILL (signal 9), largest resident set 512 MB; memory.events: oom_kill 0, memory.max 2.1 GB, memory.peak 0.9 "
       "GB"},
      {"no_signature", ended_with(1), engine, true, 1, "exit status 1"},
  };
}

std::vector<SampleLine> sample_log_lines() {
  return {
      {"gpu_ecc_error", "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
      {"gpu_ecc_error", "NVRM: Xid (PCI:0000:65:00): 48, pid='<unknown>', DBE (double bit error) detected"},
      {"gpu_ecc_error", "GPU 3: double-bit ECC count 2"},
      {"gpu_ecc_error", "cudaErrorECCUncorrectable"},
      {"gpu_ecc_error", "NVRM: Xid (PCI:0000:65:00): 64, pid='N/A', Row Remapper: Failed to remap row"},
      {"gpu_lost", "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."},
      {"gpu_lost", "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost. Reboot the system"},
      {"gpu_lost", "NVRM: Xid (PCI:0000:3b:00): 119, pid=77, Timeout after 6s of waiting for RPC response from GSP"},
      {"gpu_lost", "cudaErrorDevicesUnavailable"},
      {"gpu_lost", "CUDA error: uncorrectable NVLink error detected during the execution"},
      {"cuda_version_mismatch", "CUDA driver version is insufficient for CUDA runtime version"},
      {"cuda_version_mismatch", "The NVIDIA driver on your system is too old (found version 11040)."},
      {"cuda_version_mismatch", "CUDA error: no kernel image is available for execution on the device"},
      {"cuda_version_mismatch", "CUDA error: forward compatibility was attempted on non supported HW"},
      {"cuda_version_mismatch", "Failed to initialize NVML: Driver/library version mismatch"},
      {"cuda_version_mismatch", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver"},
      {"cuda_version_mismatch", "cuDNN version incompatibility: compiled against (9, 1, 0) but found (8, 9, 7)"},
      {"gpu_out_of_memory", "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity)"},
      {"gpu_out_of_memory", "CUDA error: out of memory"},
      {"gpu_out_of_memory", "CUDA_ERROR_OUT_OF_MEMORY: out of memory"},
      {"gpu_out_of_memory", "cudaErrorMemoryAllocation"},
      {"gpu_out_of_memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
      {"gpu_out_of_memory", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"},
      {"cuda_init_failed", "CUDA error: no CUDA-capable device is detected"},
      {"cuda_init_failed", "RuntimeError: No CUDA GPUs are available"},
      {"cuda_init_failed", "CUDA error: initialization error"},
      {"cuda_init_failed", "CUDA error: system not yet initialized"},
      {"cuda_init_failed", "CUDA initialization: Unexpected error from cudaGetDeviceCount()"},
      {"cuda_init_failed", "CUDA error: CUDA-capable device(s) is/are busy or unavailable"},
      {"cuda_init_failed", "CUDA_ERROR_NOT_INITIALIZED: initialization error"},
      {"cuda_init_failed", "CUDA error: invalid device ordinal"},
      {"cuda_init_failed", "CUDA unknown error - this may be due to an incorrectly set up environment"},
      {"invalid_memory_access", "CUDA error: an illegal memory access was encountered"},
      {"invalid_memory_access", "CUDA error: misaligned address"},
      {"invalid_memory_access", "NVRM: Xid (PCI:0000:65:00): 31, pid=99, Ch 00000008, MMU Fault: ENGINE GRAPHICS"},
      {"invalid_memory_access", "==77==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010"},
      {"invalid_memory_access", "free(): invalid pointer"},
      {"invalid_memory_access", "double free or corruption (out)"},
      {"invalid_memory_access", "malloc(): corrupted top size"},
      {"invalid_memory_access", "corrupted size vs. prev_size"},
      {"invalid_memory_access", "*** stack smashing detected ***: terminated"},
      {"invalid_memory_access", "*** buffer overflow detected ***: terminated"},
      {"invalid_memory_access", "run.sh: line 3: 4711 Segmentation fault      (core dumped) estrain worker"},
      {"cpu_out_of_memory", "terminate called after throwing an instance of 'std::bad_alloc'"},
      {"cpu_out_of_memory", "mmap failed: Cannot allocate memory"},
      {"cpu_out_of_memory", "libtorch_cpu.so: failed to map segment from shared object"},
      {"cpu_out_of_memory",
       "Error in GnuTLS initialization: ASN1 parser: Element was not found.\nterminate called without an active "
       "exception"},
      {"cpu_out_of_memory", "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"},
      {"cpu_out_of_memory", "Out of memory: Killed process 4711 (estrain) total-vm:9884kB, anon-rss:8000kB"},
      {"cpu_out_of_memory", "Memory cgroup out of memory: Killed process 4711 (estrain)"},
      {"cpu_out_of_memory", "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0."},
      {"cpu_out_of_memory", "slurmstepd: error: Exceeded job memory limit"},
      {"data_file_shortened",
       "data file /data/train/2.tar became shorter while it was in use [cause: data_file_shortened]"},
      {"shared_memory_full", "write: No space left on device: /dev/shm/torch_77"},
      {"shared_memory_full", "/dev/shm/torch_77: No space left on device"},
      {"shared_memory_full", "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Xk1 (size 9637888)"},
      {"shared_memory_full", "run.sh: line 3: 4711 Bus error               (core dumped) estrain worker"},
      {"shared_memory_full", "RuntimeError: unable to mmap shared memory of 4096 bytes"},
      {"disk_full", "run/metrics.jsonl: No space left on device"},
      {"disk_full", "run/metrics.jsonl: Disk quota exceeded"},
      {"disk_full", "error: disk full"},
      {"resource_limit", "accept: Too many open files"},
      {"resource_limit", "what():  Resource temporarily unavailable"},
      {"resource_limit", "OMP: Error #34: pthread_create failed"},
      {"resource_limit", "cannot create thread"},
      {"resource_limit", "File size limit exceeded"},
      {"resource_limit", "CPU time limit exceeded"},
      {"job_preempted",
       "slurmstepd: error: *** STEP 42.0 ON n1 CANCELLED AT 2024-05-01T10:00:00 DUE TO PREEMPTION ***"},
      {"job_preempted", "task 42 ended DUE TO PREEMPTION"},
      {"job_preempted", "slurmstepd: error: *** JOB 42 ON n1 CANCELLED AT 2024-05-01T10:00:00 ***"},
      {"permission_error", "run/worker-0.log: Permission denied"},
      {"permission_error", "sched_setaffinity: Operation not permitted"},
      {"semantic_error", "libtorch_cpu.so: undefined symbol: _ZN2at4_ops5empty"},
      {"semantic_error", "estrain: symbol lookup error: libx.so: no such version"},
      {"semantic_error", "estrain: libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by estrain)"},
      {"semantic_error", "mat1 and mat2 shapes cannot be multiplied (32x784 and 1024x10)"},
      {"semantic_error", "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"},
      {"semantic_error", "Expected input batch_size (32) but got 31"},
      {"semantic_error", "size mismatch for fc.weight"},
      {"import_error", "bin/libestrain_worker.so: cannot open shared object file: No such file or directory"},
      {"import_error", "ModuleNotFoundError: torch"},
      {"import_error", "ImportError: DLL"},
      {"import_error", "python3: No module named numpy"},
      {"cannot_load_libs", "estrain: error while loading shared libraries: libhdf5.so.103"},
      {"cannot_load_libs", "libmkl_rt.so: cannot open shared object file: No such file or directory"},
      {"cannot_load_libs", "libc10.so: invalid ELF header"},
      {"output_node_error", "output node 'softmax' not found in the graph"},
      {"model_checkpoint_error", "writing the checkpoint of step 100 failed"},
      {"model_checkpoint_error", "could not write checkpoint of step 100"},
      {"storage_error", "read: Input/output error"},
      {"storage_error", "open: Stale NFS file handle"},
      {"storage_error", "read: Remote I/O error"},
      {"storage_error", "stat: Transport endpoint is not connected"},
      {"storage_error", "open: Read-only file system"},
      {"storage_error", "readdir: Structure needs cleaning"},
      {"storage_error", "nfs: Host is down"},
      {"mpi_error", "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."},
      {"mpi_error", "ncclInternalError: Internal check failed."},
      {"mpi_error", "ncclUnhandledCudaError: Call to a driver function failed."},
      {"mpi_error", "ncclGroupEnd: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"},
      {"mpi_error", "NCCL: internal error - please report this issue to the NCCL developers"},
      {"mpi_error", "ncclSend: invalid argument (run with NCCL_DEBUG=WARN for details)"},
      {"mpi_error", "n1:77:77 [0] NCCL WARN Mismatched collective detected"},
      {"mpi_error", "*** MPI_ERR_TRUNCATE: message truncated"},
      {"mpi_error", "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD"},
      {"mpi_runtime_failure", "ncclSystemError: System call (e.g. socket, malloc) or external library call failed"},
      {"mpi_runtime_failure", "ncclRemoteError: A call failed possibly due to a network error"},
      {"mpi_runtime_failure", "ncclCommInitRankConfig: unhandled system error (run with NCCL_DEBUG=INFO for details)"},
      {"mpi_runtime_failure", "NCCL: remote process exited or there was a network error"},
      {"mpi_runtime_failure", "NCCL WARN socketProgressOpt: connect to 10.0.0.2 timed out"},
      {"mpi_runtime_failure", "recv: Connection reset by peer"},
      {"mpi_runtime_failure", "write: Broken pipe"},
      {"mpi_runtime_failure", "connect: No route to host"},
      {"mpi_runtime_failure", "connect: Network is unreachable"},
      {"mpi_runtime_failure", "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"},
      {"mpi_runtime_failure", "IBV_WC_RETRY_EXC_ERR: transport retry counter exceeded"},
      {"mpi_runtime_failure", "NET/IB : got completion with error 12, opcode 0"},
      {"cuda_failure", "CUDA error: unspecified launch failure"},
      {"cuda_failure", "Test CUDA failure common.cu:894 'invalid argument'"},
      {"cuda_failure", "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"},
      {"cuda_failure", "cudaErrorLaunchTimeout"},
      {"cuda_failure", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"},
      {"cuda_failure", "NVRM: Xid (PCI:0000:65:00): 13, pid=99, Graphics SM Warp Exception"},
      {"model_diverged", "step 41: loss is NaN"},
      {"model_diverged", "infinite values in the gradients of fc.weight"},
      {"model_diverged", "fc.weight holds what is not a finite number"},
      {"model_diverged", "model diverged at step 41"},
      {"syntax_error", "job.toml:3:7: not valid TOML: expected a value"},
      {"syntax_error", "SyntaxError: invalid syntax"},
      {"syntax_error", "IndentationError: unexpected indent"},
      {"no_deterministic_kernel", "RuntimeError: put_ does not have a deterministic implementation, but you set"},
      {"torch_exception", "terminate called after throwing an instance of 'c10::Error'"},
      {"torch_exception", "false INTERNAL ASSERT FAILED at \"../aten/src/ATen/MapAllocator.cpp\":323"},
      {"engine_bug", "estrain: core/state/comm/meetings/barrier.cpp:31: void arrive(): Assertion `count > 0' failed."},
      {"illegal_instruction", "run.sh: line 3: 4711 Illegal instruction     (core dumped) estrain worker"},
      {"traceback_from_crash", "  what():  queue closed"},
      {"traceback_from_crash", "terminate called without an active exception"},
      {"traceback_from_crash", "ZeroDivisionError: division by zero"},
      {"traceback_from_crash", "Traceback (most recent call last):"},
      {"traceback_from_crash", "frame #3: 0x00007f2a in clone from /lib/x86_64-linux-gnu/libc.so.6"},
  };
}

}  // namespace estrain::faults
