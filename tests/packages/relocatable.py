#!/usr/bin/env python3
"""cmake --install into a prefix that is then moved: the program trains there, alone and over two hosts, its bits are those of
the build, and its words lie where shells and man look for them.

  relocatable.py BUILD_DIR
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SPEC = """[job]
ests = 2
[model]
name = "mlp"
hidden = [8]
classes = 10
[data]
format = "synthetic"
shape = [12]
samples = 32
batch = 4
[train]
steps = 3
"""


def call(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def libraries_of(program, spec, run):
    """Files that the workers of a job map, by their name."""
    environment = {"PATH": os.environ["PATH"], "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{run}-libraries"}
    call(program, "train", spec, "--run", run, "--devices", 2, env=environment)
    text = "".join(file.read_text(errors="replace") for file in run.parent.glob(f"{run.name}-libraries.*"))
    return {line.split("file=")[1].split()[0] for line in text.splitlines() if "calling init" in line and "file=" in line} | {
        line.split("calling init: ")[1].strip() for line in text.splitlines() if "calling init: " in line}


def train_over_hosts(program, spec, run):
    """One worker of the job is a second host's: of an agent on this machine."""
    agent = subprocess.Popen([program, "agent", "--run", run, "--name", "h1", "--address", "127.0.0.1"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        call(program, "train", spec, "--run", run, "--name", "h0", "--hosts", "h0,h1", "--devices", "cpu,h1/cpu", timeout=120)
        said, _ = agent.communicate(timeout=60)
    finally:
        agent.kill()
    if agent.returncode != 0:
        sys.exit(f"the installed agent ended with {agent.returncode}\n{said}")


def main():
    build = Path(sys.argv[1]).resolve()
    # On the disk of the build: LibTorch is large.
    with tempfile.TemporaryDirectory(dir=build) as folder:
        folder = Path(folder)
        call("cmake", "--install", build, "--prefix", folder / "first")
        (folder / "first").rename(folder / "moved")
        installed = folder / "moved/bin/estrain"
        spec = folder / "job.toml"
        spec.write_text(SPEC)
        loaded = libraries_of(installed, spec, folder / "run")
        call(build / "estrain", "train", spec, "--run", folder / "built", "--devices", 1)
        call(installed, "verify", folder / "run", folder / "built")
        train_over_hosts(installed, spec, folder / "over-hosts")
        call(installed, "verify", folder / "over-hosts", folder / "built")
        torch = [path for path in loaded if "libtorch_cpu" in path]
        if not torch or not all(Path(path).resolve().is_relative_to(folder / "moved") for path in torch):
            sys.exit(f"LibTorch is not that of the prefix: {torch or sorted(loaded)}")
        for file in ("share/man/man1/estrain-train.1.gz", "share/man/man5/estrain-spec.5.gz",
                     "share/man/man7/estrain-errors.7.gz", "share/bash-completion/completions/estrain",
                     "share/doc/estrain/copyright", "share/doc/estrain/configs/REFERENCE.md"):
            if not (folder / "moved" / file).is_file():
                sys.exit(f"{file} is not installed")
    print("the installed program trains where it was moved to, alone and over hosts, with the bits of the build")


main()
