"""Where the checks run: the program and the libraries it finds, Python's torch, the device, the folder for logs."""

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

NVIDIA_SMI = shutil.which("nvidia-smi") or "/usr/local/nvidia/bin/nvidia-smi"
LOOK_SECONDS = 60  # that a look at the machine may take
COMMIT = "commit"  # in what was packed: of the tree that was built
CHOICES = "profiles-algorithms.jsonl"  # chosen algorithms, as estrain names the file beside profiles.json


class Machine:
    """Also what scripts/benchmarks calls a bench."""

    resize_options = ("--oversubscribe",)

    def __init__(self, tree, program, out, dry_run, work):
        """`work`: a folder for all that lies in `out` in few files only, or not at all."""
        self.tree, self.out, self.work, self.dry_run = tree, out.resolve(), work.resolve(), bool(dry_run)
        self.build = program.resolve()
        self.program = self.estrain = self.build / "estrain"
        self.out.mkdir(parents=True, exist_ok=True)
        self.device = dry_run or "cuda:0"
        self.ddp_options = ("--device", self.device)
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": ":".join(self.library_folders()),
            "ESTRAIN_PROFILES": str(self.work / "profiles.json"),
        }
        self.folders = 0
        self.scratch = None  # folder of the one check that this process is for

    def library_folders(self):
        """The folders of the packed libraries, then those of LibTorch and CUDA that Python's torch has."""
        folders = [self.build / "lib"]
        torch = importlib.util.find_spec("torch")
        if torch and torch.origin:
            packages = Path(torch.origin).parent.parent
            folders += [packages / "torch/lib", *sorted((packages / "nvidia").glob("*/lib"))]
        given = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        return [str(folder) for folder in folders if folder.is_dir()] + [folder for folder in given if folder]

    @functools.cached_property
    def python(self):
        """A Python with torch: this one, or that of scripts/peers. None: there is none."""
        if importlib.util.find_spec("torch"):
            return sys.executable
        cache = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
        peers = Path(os.environ.get("ESTRAIN_CACHE", Path(cache) / "estrain")) / "peers/bin/python"
        return str(peers) if peers.exists() else None

    @functools.cached_property
    def keys(self):
        """The output of `estrain train --keys`."""
        return self.call("train", "--keys")[1]

    def rounds(self, full, quick):
        return quick if self.dry_run else full

    def patience(self, seconds):
        """How long to wait for what a GPU does in so many seconds: a dry run may be on a busy machine with few cores."""
        return seconds * (4 if self.dry_run else 1)

    def devices(self, workers):
        return f"{self.device}*{workers}" if workers > 1 else self.device

    def new_folder(self, name="job"):
        self.folders += 1
        folder = self.scratch / f"{self.folders:02d}-{name}"
        folder.mkdir()
        return folder

    def libraries_of(self, file):
        """Paths of the shared libraries that a file needs, as the program would find them."""
        listed = subprocess.run(["ldd", file], capture_output=True, text=True, env=self.environment).stdout
        return [line.split()[2] for line in listed.splitlines() if "=> /" in line]

    def library(self, name):
        """A shared library that the program links, behind all that it needs itself. None: it links none of the name."""
        path = next((path for path in self.libraries_of(self.program) if name in Path(path).name), None)
        return path and [*self.libraries_of(path), path]

    def start(self, log, *words, profiles=None):
        """Starts `estrain WORDS`, output to the file `log`. `profiles`: a database of its own."""
        environment = self.environment | ({"ESTRAIN_PROFILES": str(profiles)} if profiles else {})
        with open(log, "w") as file:
            file.write(f"$ estrain {' '.join(map(str, words))}\n")
            file.flush()
            return subprocess.Popen(
                [self.program, *map(str, words)], env=environment, stdout=file, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, cwd=self.tree,
            )  # fmt: skip

    def call(self, *words, seconds=60):
        """Runs `estrain WORDS` to its end: (exit code, output)."""
        ended = subprocess.run(
            [self.program, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=seconds,
            cwd=self.tree,
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def memory_used(self):
        """Bytes of the GPU's memory that are taken, whoever has them."""
        command = [NVIDIA_SMI, "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_SECONDS, check=True).stdout
        return int(told.split()[0]) << 20

    def describe(self):
        told = {"time": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "dry_run": self.dry_run}
        versions = "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())"
        for name, command in {
            "gpu": [NVIDIA_SMI, "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv,noheader"],
            "nvcc": ["nvcc", "--version"],
            "python": [sys.executable, "--version"],
            "torch": [self.python or "python-with-torch", "-c", versions],
            "program": [str(self.program), "--version"],
            "commit": ["git", "-C", str(self.tree), "rev-parse", "HEAD"],
        }.items():
            try:
                environment = self.environment if name == "program" else None
                ended = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_SECONDS, env=environment)
                told[name] = (ended.stdout or ended.stderr).strip().splitlines()[-1:] or [f"exit {ended.returncode}"]
                told[name] = told[name][0]
            except (OSError, subprocess.TimeoutExpired) as error:
                told[name] = f"not there: {error}"
        if (self.build / COMMIT).exists():
            told["commit"] = (self.build / COMMIT).read_text().strip()
        told["cores"] = os.cpu_count()
        told["disk"] = f"{shutil.disk_usage(self.work).free / 2**30:.0f} GiB free"
        return told


def as_json(value):
    return json.dumps(value, indent=1) + "\n"
