"""Packs what a build needs on another machine, except LibTorch: the program, its libraries, and what they link, stripped;
and networks that users export, without weights. All lies in one compressed file."""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from machine import COMMIT

LIMIT = 48 << 20  # of 64 MiB that travel: the tree goes with it
PARCEL = "parcel.tar.xz"
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


def pack(build, folder, programs):
    """`programs`: names of networks of examples/workloads."""
    missing = [name for name in PROGRAMS if not (build / name).exists()]
    if missing:
        print(f"gpu-check: error: {build} has no {', '.join(missing)}: run scripts/build --target tests where there is a CUDA toolkit")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        gather(build, Path(scratch), programs)
        with tarfile.open(folder / PARCEL, "w:xz", preset=2) as parcel:
            parcel.add(scratch, ".")
    total = (folder / PARCEL).stat().st_size
    print(f"{total / 2**20:7.2f} MiB  {folder / PARCEL}")
    if total > LIMIT:
        print(f"gpu-check: error: more than {LIMIT >> 20} MiB")
        return 1
    return 0


def gather(build, folder, programs):
    libraries = {}
    for name in PROGRAMS:
        libraries |= linked_libraries(build / name)
    (folder / "lib").mkdir()
    files = {folder / Path(name).name: build / name for name in PROGRAMS}
    files |= {folder / "lib" / name: path for name, path in libraries.items() if not name.startswith(THERE)}
    for target, source in files.items():
        shutil.copy(source, target)
        subprocess.run(["strip", "--strip-unneeded", target], check=True)
    (folder / COMMIT).write_text(commit_of(build) + "\n")
    workloads = Path(__file__).resolve().parents[1] / "workloads"
    if programs:
        command = [workloads, "--write", folder / "programs", "--no-weights", "--only", *programs]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    for part in sorted(folder.iterdir()):
        size = sum(file.stat().st_size for file in [part, *part.rglob("*")] if file.is_file())
        print(f"{size / 2**20:7.2f} MiB  {part.name}")


def unpacked(folder, work):
    """The folder of the program: as given, or as unpacked in `work`."""
    if not (folder / PARCEL).exists():
        return folder
    with tarfile.open(folder / PARCEL) as parcel:
        parcel.extractall(work / "program")
    return work / "program"
