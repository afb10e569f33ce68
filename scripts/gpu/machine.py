"""Where the checks run: the program with the libraries it finds, the device, and the folder that all logs go to."""

import atexit
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KEPT = {".log", ".toml", ".jsonl"}
MOST_BYTES_KEPT = 4 << 20


class Machine:
    def __init__(self, tree, program, out, dry_run):
        self.tree, self.out, self.dry_run = tree, out.resolve(), dry_run
        self.program = program.resolve() / "estrain"
        self.out.mkdir(parents=True, exist_ok=True)
        self.device = "cpu" if dry_run else "cuda:0"
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": ":".join(self.library_folders(program)),
            "ESTRAIN_PROFILES": str(self.out / "profiles.json"),
        }
        self.folders = 0
        self.scratch = Path(tempfile.mkdtemp(prefix="estrain-gpu-check-"))
        atexit.register(shutil.rmtree, self.scratch, ignore_errors=True)

    def library_folders(self, program):
        """What was packed, then LibTorch and CUDA as Python's torch has them."""
        folders = [program.resolve() / "lib"]
        torch = importlib.util.find_spec("torch")
        if torch and torch.origin:
            packages = Path(torch.origin).parent.parent
            folders += [packages / "torch/lib", *sorted((packages / "nvidia").glob("*/lib"))]
        return [str(folder) for folder in folders if folder.is_dir()] + [os.environ.get("LD_LIBRARY_PATH", "")]

    def devices(self, workers):
        return f"{self.device}*{workers}" if workers > 1 else self.device

    def new_folder(self, name):
        """For a run: its state goes with the check (keep_logs), its logs stay."""
        self.folders += 1
        folder = self.scratch / f"{self.folders:02d}-{name}"
        folder.mkdir()
        return folder

    def keep_logs(self):
        for folder in self.scratch.iterdir():
            for file in folder.rglob("*"):
                if file.suffix in KEPT and file.stat().st_size < MOST_BYTES_KEPT:
                    target = self.out / file.relative_to(self.scratch)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, target)
            shutil.rmtree(folder)

    def start(self, log, *words):
        """Starts `estrain WORDS`, output to the file `log`."""
        with open(log, "w") as file:
            file.write(f"$ estrain {' '.join(map(str, words))}\n")
            file.flush()
            return subprocess.Popen(
                [self.program, *map(str, words)], env=self.environment, stdout=file, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, cwd=self.tree,
            )  # fmt: skip

    def call(self, *words, seconds=60):
        """Runs `estrain WORDS` to its end: (exit code, output)."""
        ended = subprocess.run(
            [self.program, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=seconds,
            cwd=self.tree,
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def describe(self):
        told = {"time": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "dry_run": self.dry_run}
        for name, command in {
            "gpu": ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
            "nvcc": ["nvcc", "--version"],
            "torch": [sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"],
            "program": [str(self.program), "--version"],
            "commit": ["git", "-C", str(self.tree), "rev-parse", "HEAD"],
        }.items():
            try:
                environment = self.environment if name == "program" else None
                ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
                told[name] = (ended.stdout or ended.stderr).strip().splitlines()[-1:] or [f"exit {ended.returncode}"]
                told[name] = told[name][0]
            except (OSError, subprocess.TimeoutExpired) as error:
                told[name] = f"not there: {error}"
        (self.out / "machine.json").write_text(json.dumps(told, indent=1) + "\n")
        return told
