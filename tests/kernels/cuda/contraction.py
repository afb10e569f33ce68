#!/usr/bin/env python3
"""Checks the PTX that nvcc generates for the CUDA kernels: contraction.py BUILD_DIR

Compiles every file of kernels/cuda to PTX with the build's command. The PTX may contain only floating-point operations
with IEEE 754 rounding to nearest and subnormal numbers. Its fused multiply-adds must be those of the source, in fused()
of kernels/cuda/value.h, which are marked here. ptxas does not fuse instructions that specify their rounding, but may
fuse others.

Also tests that the check can fail: it must detect a * b + c compiled without -fmad=false. Exit code 77: a build without
CUDA. """

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKIPPED = 77
SIDE_BY_SIDE = 2

# Calls of __builtin_fmaf in the source become inline assembly, which nvcc encloses in marks.
MARKS = """#pragma once
__host__ __device__ inline float stated_multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  float sum;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
  return sum;
#else
  return __builtin_fmaf(a, b, c);
#endif
}
#define __builtin_fmaf stated_multiply_add
"""
STATED = re.compile(r"// begin inline asm\s+fma\.rn\.f32 [^;]*;\s+// end inline asm")

PROBE = """__global__ void probe(float* x, double* y) {
  x[0] = x[1] * x[2] + x[3];
  x[4] = __builtin_fmaf(x[5], x[6], x[7]);
  y[0] = y[1] * y[2] - y[3];  // left to what comes after the PTX
}
"""

ARITHMETIC = re.compile(r"^\s*(?:@!?%p\d+\s+)?((\w+)\.[\w.]*\bb?f(?:16|16x2|32|64)\b[\w.]*)", re.MULTILINE)
ROUNDED = {"add", "sub", "mul", "div", "sqrt", "rcp"}  # must specify rounding to nearest
FUSED = {"fma", "mad"}
EXACT = {"abs", "neg", "min", "max", "copysign", "set", "setp", "selp", "slct", "testp", "mov", "ld", "st", "ldu", "shfl",
         "cvt", "cp", "prefetch", "atom", "red"}  # fmt: skip


def faults_of(ptx):
    """Counts of forbidden instructions."""
    faults = Counter()
    for instruction, name in ARITHMETIC.findall(STATED.sub("", ptx)):
        parts = instruction.split(".")
        if name in FUSED:
            faults[f"{instruction} that the source does not state"] += 1
        elif name in ROUNDED and "rn" not in parts:
            faults[f"{instruction}, which does not say that it is rounded to nearest"] += 1
        elif name not in ROUNDED | EXACT:
            faults[f"{instruction}, which is none of IEEE 754"] += 1
        elif name in ("atom", "red") and "add" in parts:
            faults[f"{instruction}, a sum in the order of arrival"] += 1
        if "ftz" in parts or "approx" in parts:
            faults[f"{instruction}, which flushes or approximates"] += 1
    return faults


def stated_in(ptx):
    return len(STATED.findall(ptx))


def source_folder(build):
    cache = (build / "CMakeCache.txt").read_text()
    return Path(re.search(r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$", cache, re.MULTILINE)[1])


def nvcc_commands(build):
    """{file: command} for all files that nvcc compiles for kernels/cuda."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        at = next((i for i, word in enumerate(words) if Path(word).name == "nvcc"), None)  # after a launcher, if any
        file = Path(entry["file"])
        if at is not None and file.suffix == ".cu":
            commands[file] = (words[at:], entry["directory"])
    return commands


def to_ptx(command, file, marks, folder, without=()):
    """The PTX for GPUs unknown to the build; other GPUs' PTX differs only in the target."""
    words, directory = command
    kept, skip = [], False
    for word in words:
        if skip or word in ("-c", *without) or word.startswith(("-gencode", "--generate-code")):
            skip = False
            continue
        if word == "-o":
            skip = True
            continue
        kept.append(str(file) if word.endswith(".cu") else word)
    ptx = folder / f"{file.stem}{'-' if without else ''}.ptx"
    done = subprocess.run([*kept, "-include", str(marks), "-arch=compute_75", "-ptx", "-o", str(ptx)], cwd=directory,
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"nvcc fails at {file}:\n{done.stderr}")
    return ptx.read_text()


def check_probe(command, marks, folder):
    """Tests the check: it passes with the build's flags and must fail without them."""
    probe = folder / "probe.cu"
    probe.write_text(PROBE)
    kept = to_ptx(command, probe, marks, folder)
    assert not faults_of(kept) and stated_in(kept) == 1 and "mul.rn.f32" in kept and "add.rn.f32" in kept, kept
    fused = to_ptx(command, probe, marks, folder, without=("-fmad=false",))
    found = faults_of(fused)
    assert found["fma.rn.f32 that the source does not state"] == 1, (found, fused)
    assert found["mul.f64, which does not say that it is rounded to nearest"] == 1, (found, fused)
    assert stated_in(fused) == 1, fused
    in_assembly = "// begin inline asm\nex2.approx.f32 %f1, %f2;\n// end inline asm"
    for line in (in_assembly, "mul.f32 %f1, %f2, %f3;", "@%p1 add.ftz.rn.f32 %f1, %f2, %f3;", "rsqrt.approx.f32 %f1, %f2;",
                 "div.full.f32 %f1, %f2, %f3;", "red.global.add.f32 [%rd1], %f1;"):  # fmt: skip
        assert faults_of(line), line


def main():
    build = Path(sys.argv[1]).resolve()
    commands = nvcc_commands(build)
    if not commands:
        print("skipped: this build has no nvcc")
        return SKIPPED
    sources = {path for path in (source_folder(build) / "kernels/cuda").glob("*.cu")}
    if missing := sources - set(commands):
        sys.exit(f"nvcc does not compile {', '.join(path.name for path in sorted(missing))}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        marks = folder / "marks.h"
        marks.write_text(MARKS)
        check_probe(commands[min(sources)], marks, folder)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            texts = dict(zip(commands, pool.map(lambda file: to_ptx(commands[file], file, marks, folder), commands)))
    failed = False
    for file, ptx in sorted(texts.items()):
        faults, flags = faults_of(ptx), commands[file][0]
        if "-fmad=false" not in flags:
            faults["command without -fmad=false"] += 1
        rounded = sum(name in ROUNDED for _, name in ARITHMETIC.findall(STATED.sub("", ptx)))
        print(f"{file.name}: {ptx.count('.entry')} kernels, {rounded} rounded operations, {stated_in(ptx)} fused as stated"
              + "".join(f"; {count} x {what}" for what, count in faults.items()))
        failed |= bool(faults)
    stated = sum(stated_in(ptx) for ptx in texts.values())
    print(f"{len(texts)} files, {stated} fused multiply-adds stated, "
          + ("others, or other arithmetic, FOUND" if failed else "no other, and no arithmetic but IEEE 754's"))
    return 1 if failed or stated == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
