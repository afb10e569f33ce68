"""Packs what a build needs on another machine, except LibTorch: the program, its libraries, and what they link, stripped."""

import shutil
import subprocess
from pathlib import Path

from machine import COMMIT

LIMIT = 58 << 20  # of 64 MiB that travel: the tree goes with it
PROGRAMS = ["estrain", "libestrain_worker.so", "libestrain_cuda.so", "tests/gpu_check"]
# Libraries that the other machine has: the C library and loader, which must fit its kernel; the C++ library, which its own
# programs want as new as it is there; and all of LibTorch and CUDA.
THERE = (
    "ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "libutil.so",
    "libstdc++", "libgcc_s", "libtorch", "libc10",
    "libgomp", "libcuda", "libcupti", "libcublas", "libcudnn", "libcusparse", "libcufft", "libcufile", "libcurand",
    "libnv", "libnccl",
)  # fmt: skip


def linked_libraries(file):
    """{name: path} of the shared libraries that a file needs, as far as the loader finds them."""
    found = {}
    for line in subprocess.run(["ldd", file], capture_output=True, text=True).stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and rest.startswith("/"):
            found[name] = rest.split(" ")[0]
    return found


def commit_of(tree):
    """The commit of the tree, and whether files are changed."""
    command = ["git", "-C", tree, "describe", "--always", "--dirty", "--abbrev=40"]
    ended = subprocess.run(command, capture_output=True, text=True)
    return ended.stdout.strip() or "not known"


def pack(build, folder):
    missing = [name for name in PROGRAMS if not (build / name).exists()]
    if missing:
        print(f"gpu-check: error: {build} has no {', '.join(missing)}: run scripts/build --target tests where there is a CUDA toolkit")
        return 1
    libraries = {}
    for name in PROGRAMS:
        libraries |= linked_libraries(build / name)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib").mkdir(parents=True)
    files = {folder / Path(name).name: build / name for name in PROGRAMS}
    files |= {folder / "lib" / name: path for name, path in libraries.items() if not name.startswith(THERE)}
    for target, source in files.items():
        shutil.copy(source, target)
        subprocess.run(["strip", "--strip-unneeded", target], check=True)
    (folder / COMMIT).write_text(commit_of(build) + "\n")
    total = sum(file.stat().st_size for file in files)
    for file in sorted(files):
        print(f"{file.stat().st_size / 2**20:7.2f} MiB  {file.relative_to(folder)}")
    print(f"{total / 2**20:7.2f} MiB  in {folder}")
    if total > LIMIT:
        print(f"gpu-check: error: more than {LIMIT >> 20} MiB")
        return 1
    return 0
