"""The portable kernels on the GPU: their bits against the CPU's, gemm against cuBLAS, and what the sanitizer finds."""

import json
import shutil
import subprocess
from pathlib import Path

from figures import HIGHER
from report import Failed, Skipped

SEEDS = 24
NO_GPU = 77
TARGET, LEAST_SIZE = 0.8, 2048
SPEED_SECONDS, BITS_SECONDS = 30, 55
HOW = "TFLOP/s of the portable gemm in fp32 over those of cuBLAS without TF32, best of 5 times 10 calls each"
# What gpu_check writes, for a dry run.
SAMPLE = {
    "families": [{"family": "gemm", "cases": 1, "differing": 0, "first": "", "seconds": 0.1}],
    "gemm": [{"m": 2048, "n": 2048, "k": 2048, "transposed": "nn", "tflops": 0, "cublas_tflops": 1, "ratio": 0}],
}


def program(machine):
    found = [path for path in (machine.build / "gpu_check", machine.build / "tests/gpu_check") if path.exists()]
    if not found:
        raise Skipped("gpu_check is not here: it was not built, or not packed")
    return found[0]


def take_gemm(report, products):
    for one in products:
        shape = f"{one['m']} x {one['n']} x {one['k']} {one['transposed']}"
        if one["ratio"] is None or min(one["m"], one["n"]) < LEAST_SIZE:
            continue
        note = f"TFLOP/s: {one['tflops']}, cuBLAS {one['cublas_tflops']}"
        report.figure(f"gemm {shape}: over cuBLAS", HIGHER, TARGET, [one["ratio"]], HOW, "", note, one)


def judge(families):
    different = [one for one in families if one["differing"]]
    if different:
        lines = [f"{one['family']}: {one['differing']} of {one['cases']}, first {one['first']}" for one in different]
        raise Failed("\n".join([f"{len(different)} of {len(families)} families differ: {lines[0]}", *lines]))
    return f"{len(families)} families, {sum(one['cases'] for one in families)} cases: equal to the CPU's"


class GpuCheck:
    """A run of gpu_check with these arguments: its exit code (None: took too long), lines and result."""

    def __init__(self, machine, name, seconds, seeds, *more):
        folder = machine.new_folder(name)
        found, log = folder / "found.json", folder / "gpu_check.log"
        with open(log, "w") as output:
            try:
                self.code = subprocess.run(
                    [program(machine), str(seeds), found, *more], env=machine.environment, stdout=output,
                    stderr=subprocess.STDOUT, timeout=seconds,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                self.code = None
        self.lines = log.read_text(errors="replace").splitlines()
        self.result = json.loads(found.read_text()) if self.code in (0, 1) else None

    def require(self):
        if self.result is None:
            ended = "took too long" if self.code is None else f"ended with code {self.code}"
            done = [json.loads(line) for line in self.lines if line.startswith("{") and line.endswith("}")]
            raise Failed("\n".join([f"gpu_check {ended}; {judge(done)} until then", *self.lines[-20:]]))
        return self.result


def kernels(machine, report):
    speed = GpuCheck(machine, "gemm", SPEED_SECONDS, 0)
    if machine.dry_run and speed.code == NO_GPU:
        take_gemm(report, SAMPLE["gemm"])
        return judge(SAMPLE["families"]) + " (a sample: there is no GPU)"
    take_gemm(report, speed.require()["gemm"])
    return judge(GpuCheck(machine, "bits", BITS_SECONDS, SEEDS, "bits").require()["families"])


def sanitizer(tool):
    """compute-sanitizer on one case of each family."""

    def check(machine, _):
        kits = (shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer")
        path = next((path for path in kits if path and Path(path).exists()), None)
        if path is None:
            raise Skipped("compute-sanitizer is not on this machine")
        folder = machine.new_folder(tool)
        log = folder / f"{tool}.log"
        command = [path, "--tool", tool, "--error-exitcode", "9", program(machine), "1", folder / "found.json", "bits"]
        with open(log, "w") as output:
            code = subprocess.run(command, env=machine.environment, stdout=output, stderr=subprocess.STDOUT).returncode
        last = log.read_text(errors="replace").splitlines()[-1:]
        if code != 0:
            raise Failed(f"{tool}: exit code {code}: {last}\n{log.read_text(errors='replace')[-3000:]}")
        return f"{tool}: {last[0] if last else 'nothing found'}"

    return check
