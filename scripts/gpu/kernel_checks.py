"""The portable kernels on the GPU: their bits against the CPU's, gemm against cuBLAS, and what the sanitizer finds; and
the pinned algorithms of cuDNN and cuBLASLt."""

import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from figures import HIGHER
from process_tree import end_tree
from report import Failed, Skipped

SEEDS = 240  # 24 missed a rounding of cuDNN that 12 in 400 shapes have
ERRORS_STAY, NO_GPU = 3, 77  # exit codes of gpu_check
WHOLE = (0, 1, NO_GPU)  # those of a run that came to its end
PINNED, SPEED, NO_TF32 = "pinned_", "speed", ", TF32 forbidden"
BITS_SECONDS, PINNED_SECONDS, PART_SECONDS, SPEED_SECONDS, SANITIZER_SECONDS, FAMILY_SECONDS = 120, 70, 12, 50, 115, 60
SILENT_SECONDS = PART_SECONDS + 15  # a part that has told of nothing for so long hangs
LEFT_OUT = "did not get to it"
SANITIZERS = 4  # side by side
TARGET, LEAST_SIZE = 0.8, 2048
HOW = "TFLOP/s of the portable gemm in fp32 over those of cuBLAS without TF32, best of 5 times 10 calls each"
# A report of gpu_check, for a dry run.
SAMPLE = [
    {"part": "gemm", "cases": 1, "differing": 0, "first": "", "seconds": 0.1},
    {"part": "pinned_product", "cases": 1, "without": 0, "algorithms": 9, "unfit": 0, "failing": 0, "first": "",
     "each": [9]},
]
SAMPLE_SPEED = [{"part": "speed", "m": 2048, "n": 2048, "k": 2048, "transposed": "nn", "tflops": 0, "cublas_tflops": 1,
                 "ratio": 0}]  # fmt: skip


def program(machine):
    found = [path for path in (machine.build / "gpu_check", machine.build / "tests/gpu_check") if path.exists()]
    if not found:
        raise Skipped("gpu_check is not here: it was not built, or not packed")
    return found[0]


def parts_of(machine):
    return subprocess.run(
        [program(machine), "--list"], env=machine.environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()


def take_gemm(report, products):
    for one in products:
        shape = f"{one['m']} x {one['n']} x {one['k']} {one['transposed']}"
        if one["ratio"] is None or min(one["m"], one["n"]) < LEAST_SIZE:
            continue
        note = f"TFLOP/s: {one['tflops']}, cuBLAS {one['cublas_tflops']}"
        report.figure(f"gemm {shape}: over cuBLAS", HIGHER, TARGET, [one["ratio"]], HOW, "", note, one)


def fault_of(one):
    """The fault of a part in words; "": it has none."""
    part = one["part"]
    if "ended" in one:
        return "" if one["ended"].startswith(LEFT_OUT) else f"{part}: gpu_check {one['ended']}"
    if not part.startswith(PINNED):
        return f"{part}: {one['differing']} of {one['cases']} differ, first {one['first']}" if one["differing"] else ""
    if one["failing"]:
        return f"{part}: {one['failing']} of {one['cases']} shapes fail, first {one['first']}"
    return "" if one["algorithms"] else f"{part}: no algorithm was found for any of {one['cases']} shapes"


def judge(found):
    """The findings of all parts in words. Throws Failed where one of them is wrong."""
    faults = [fault for one in found if (fault := fault_of(one))]
    families = [one for one in found if not one["part"].startswith(PINNED) and "ended" not in one]
    words = [f"{len(families)} families, {sum(one['cases'] for one in families)} cases: equal to the CPU's"]
    for one in found:
        if one["part"].startswith(PINNED) and "ended" not in one:
            words.append(
                f"{one['part']}: {one['algorithms']} algorithms for {one['cases']} shapes, {one['without']} without, "
                f"{one['unfit']} unfit"
            )
    late = [one["part"] for one in found if one.get("ended", "").startswith(LEFT_OUT)]
    words += [f"not in time: {', '.join(late)}"] * bool(late)
    if faults or len(late) == len(found):
        first = faults[0] if faults else words[-1]
        raise Failed("\n".join([f"{len(faults)} of {len(found)} parts are wrong: {first}", *faults, *words[1:]]))
    return "; ".join(words)


class GpuCheck:
    """Runs of gpu_check until all of these parts are done or time is over. One that ends before that is begun again
    behind the part that it was at. `lines`: what it tells of, and {"part", "ended": how} of those parts; time that is
    over is no fault of theirs, a part that has told of nothing for long hangs. `settings`: of its environment, besides
    the machine's."""

    def __init__(self, machine, name, parts, seconds, *options, settings=()):
        self.machine, self.log = machine, machine.new_folder(name) / "gpu_check.log"
        self.environment = {**machine.environment, **dict(settings)}
        self.command = [program(machine), *map(str, options)]
        self.lines, self.code, self.is_silent = [], None, False
        until, waiting = time.monotonic() + machine.patience(seconds), list(parts)
        while waiting and (left := until - time.monotonic()) > 0:
            told = self._run(waiting, left)
            self.lines += told
            waiting = [part for part in waiting if part not in {one["part"] for one in told}]
            if self.code in WHOLE:
                break
            if self.code == ERRORS_STAY and told:
                self.lines.append({"part": told[-1]["part"], "ended": "left the GPU with errors"})
            elif waiting and (self.code is not None or self.is_silent):
                ended = "hangs" if self.is_silent else f"ended with code {self.code}"
                self.lines.append({"part": waiting.pop(0), "ended": ended})
        self.lines += [{"part": part, "ended": f"{LEFT_OUT}, code {self.code}"} for part in waiting]

    def _run(self, parts, seconds):
        with open(self.log, "ab") as output:
            begin = output.tell()
            process = subprocess.Popen(
                [*self.command, *parts], env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
            self.code = self._wait(process, seconds)
        text = self.log.read_bytes()[begin:].decode(errors="replace")
        lines = [line for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        return [told for told in map(json.loads, lines) if "part" in told]

    def _wait(self, process, seconds):
        """Its exit code; None where it was ended: after so long, or as it is silent, told of nothing any more."""
        until, length = time.monotonic() + seconds, -1
        while process.poll() is None:
            now, size = time.monotonic(), self.log.stat().st_size
            if size != length:
                length, silent_until = size, now + self.machine.patience(SILENT_SECONDS)
            self.is_silent = now > silent_until
            if self.is_silent or now > until:
                end_tree(process)
                return None
            time.sleep(0.05)
        return process.returncode


def require_gpu(run):
    if run.code == NO_GPU:
        raise Failed(f"gpu_check found no GPU: {run.log.read_text(errors='replace').strip().splitlines()[-1:]}")


def tell_all(report, lines):
    for one in lines:
        report.found(json.dumps(one))


def kernels(machine, report):
    """Bits; portable families first, which need no library of NVIDIA's. Pinned algorithms twice: what libraries suggest
    depends on whether TF32 is forbidden, as it is for a worker unless its job asks for it."""
    parts = [part for part in parts_of(machine) if part != SPEED]
    pinned = [part for part in parts if part.startswith(PINNED)]
    options = ("--seeds", SEEDS, "--seconds", PART_SECONDS)
    run = GpuCheck(machine, "bits", parts, BITS_SECONDS, *options)
    if machine.dry_run and run.code == NO_GPU:
        return judge(SAMPLE) + " (a sample: there is no GPU)"
    require_gpu(run)
    tell_all(report, run.lines)
    settings = {"NVIDIA_TF32_OVERRIDE": "0"}
    without = GpuCheck(machine, "bits-no-tf32", pinned, PINNED_SECONDS, *options, settings=settings)
    for one in without.lines:
        one["part"] += NO_TF32
    tell_all(report, without.lines)
    words = judge(run.lines + without.lines)
    for run in (run, without):
        if run.code not in (0, None):  # None: out of time
            raise Failed(f"gpu_check ended with code {run.code}; {words}")
    return words


def gemm(machine, report):
    run = GpuCheck(machine, "speed", [SPEED], SPEED_SECONDS)
    if machine.dry_run and run.code == NO_GPU:
        take_gemm(report, SAMPLE_SPEED)
        return "a sample: there is no GPU"
    require_gpu(run)
    products = [one for one in run.lines if "ended" not in one]
    take_gemm(report, products)
    if run.code != 0:
        raise Failed(f"{len(products)} products, then gpu_check ended with code {run.code} (None: took too long)")
    return f"{len(products)} products"


def sanitizer(tool):
    """compute-sanitizer on one case of each portable family; without cuDNN and cuBLASLt, which would take very long."""

    def check(machine, report):
        kits = (shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer")
        path = next((path for path in kits if path and Path(path).exists()), None)
        if path is None:
            raise Skipped("compute-sanitizer is not on this machine")
        families = [part for part in parts_of(machine) if part != SPEED and not part.startswith(PINNED)]
        folder, end = machine.new_folder(tool), time.monotonic() + SANITIZER_SECONDS

        def try_family(family):
            """How it ended, where it should not; "" else. None: not in time."""
            log, seconds = folder / f"{family}.log", min(FAMILY_SECONDS, end - time.monotonic())
            command = [path, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "9", program(machine)]
            if seconds <= 0:
                return None
            with open(log, "w") as output:
                process = subprocess.Popen(
                    [*command, "--seeds", "1", family], env=machine.environment, stdout=output, stderr=subprocess.STDOUT
                )
                try:
                    code = process.wait(seconds)
                except subprocess.TimeoutExpired:
                    end_tree(process)
                    return None
            return f"{family}: exit code {code}\n{log.read_text(errors='replace')[-3000:]}" if code != 0 else ""

        with ThreadPoolExecutor(max(1, min(SANITIZERS, (os.cpu_count() or 1) // 2))) as pool:
            ended = dict(zip(families, pool.map(try_family, families)))
        done = [family for family, words in ended.items() if words is not None]
        late = [family for family, words in ended.items() if words is None]
        words = f"{tool}: {len(done)} of {len(families)} families" + (f"; not in time: {', '.join(late)}" * bool(late))
        wrong = [words for words in ended.values() if words]
        if wrong:
            raise Failed("\n".join([f"{words}; {len(wrong)} with errors: {wrong[0].splitlines()[0]}", *wrong]))
        if not done:
            raise Failed(words)
        return words + ", nothing found"

    return check
