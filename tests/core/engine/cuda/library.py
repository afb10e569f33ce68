#!/usr/bin/env python3
"""Checks the dependencies and exports of libestrain_cuda.so without loading it: library.py CUDA_LIBRARY LIBTORCH
TOOLKIT_LIBRARIES PROGRAM…

It must load LibTorch's CUDA part, whose kernels register themselves, and find every symbol it uses. cuDNN and cuBLASLt,
whose algorithms are pinned, and NCCL must be LibTorch's copies, not the toolkit's. The programs, which run without a
driver, must not depend on CUDA. """

import subprocess
import sys
from pathlib import Path

OPENS = "estrain_open_cuda_device"  # core/engine/device/device.h
OF_CUDA = ("libtorch_cuda", "libc10_cuda", "libcuda.", "libcudart", "libcublas", "libcudnn", "libnccl", "libestrain_cuda")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(file):
    lines = output("readelf", "-d", file).splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def folders_searched(file):
    lines = output("readelf", "-d", file).splitlines()
    paths = [line.split("[")[1].rstrip("]") for line in lines if "(RPATH)" in line or "(RUNPATH)" in line]
    return [Path(folder).resolve() for path in paths for folder in path.split(":")]


def symbols(file, *options):
    """Names of dynamic symbols, without versions: {name: type}."""
    lines = [line.split() for line in output("nm", "-D", *options, file).splitlines()]
    return {line[-1].split("@")[0]: line[-2] for line in lines if len(line) > 1}


def main():
    library, libtorch, toolkit, *programs = map(Path, sys.argv[1:])
    faults = []
    names = needed(library)
    libtorch_s_own = ("libtorch_cuda.so", "libc10_cuda.so", "libtorch_cpu.so")
    for name in (*libtorch_s_own, "libcudnn.so.9", "libcublasLt.so.13", "libnccl.so.2"):
        if name not in names:
            faults.append(f"{library.name} does not load {name}")
    if toolkit.resolve() in folders_searched(library):
        faults.append(f"{library.name} looks for libraries in {toolkit}: they would not be LibTorch's")
    if "libcuda.so.1" in names:
        faults.append(f"{library.name} cannot be loaded without a driver: it needs libcuda.so.1")
    if OPENS not in symbols(library, "--defined-only"):
        faults.append(f"{library.name} does not export {OPENS}")

    defined = {}
    for name in names:
        places = [libtorch / "torch/lib" / name, libtorch / "nvidia/cu13/lib" / name, toolkit / name]
        file = next((place for place in places if place.exists()), None)
        file = file or Path(output("g++", f"-print-file-name={name}").strip())
        defined |= symbols(file, "--defined-only")
    wanted = [name for name, kind in symbols(library, "--undefined-only").items() if kind == "U"]
    if len(wanted) < 20:
        faults.append(f"only {len(wanted)} undefined symbols were read of {library.name}: that cannot be all")
    faults += [f"{library.name} uses {name}, which no library that it needs has" for name in wanted if name not in defined]

    for program in programs:
        faults += [f"{program.name} needs {name}" for name in needed(program) if name.startswith(OF_CUDA)]
    print("\n".join(faults) or f"{len(wanted)} symbols of {library.name} found in {', '.join(names)}")
    return 1 if faults else 0


sys.exit(main())
