"""Writing and reading a checkpoint of 500 MB against dd and torch.save, and training while one is written."""

import os
import statistics
import subprocess
import time

from cases import Case
from estrain_job import EstrainJob
from figures import HIGHER, LOWER, Figure, Group, Measured
from paired_rounds import ratios, run_rounds

MEGABYTES = 500
ROUNDS, CHECKPOINTS = (9, 2), (5, 2)  # of a full run, of a quick one
HOW = "{} 500 MB {}; alternating in one folder, median of the ratios of the rounds, spread is their middle half"
WRITE = HOW.format("speed of writing a checkpoint of", "of state (synced, renamed, folder synced) over that of {}")
READ = HOW.format(
    "speed of reading and checking a checkpoint of",
    "of state that is not in the page cache over that of dd bs=4M to /dev/null",
)
WHILE_WRITING = (
    "time of the steps while a checkpoint of 500 MB is written over that of the others; mlp of 62 million parameters, "
    "SGD with momentum, 1 worker; median of the ratios of the checkpoints"
)
TORCH_SCRIPT = """
import os, sys, time, torch
n = int(sys.argv[1]) * 1_000_000 // 4 // 32
state = {f"{kind}.{i}": torch.randn(n) for i in range(16) for kind in ("weight", "momentum")}
print("ready", flush=True)
for line in sys.stdin:
    begin = time.perf_counter()
    with open(sys.argv[2], "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    print(time.perf_counter() - begin, flush=True)
"""


class Served:
    """A program that does something for each line it is sent and answers with the seconds."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{command[0]} did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, verb):
        self.process.stdin.write(verb + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def dd(*arguments):
    begin = time.perf_counter()
    subprocess.run(["dd", *arguments], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def drop_from_page_cache(path):
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def rates(seconds):
    values = (f"{name} {MEGABYTES / 1e3 / statistics.median(taken):.2f}" for name, taken in seconds.items())
    return "GB/s: " + ", ".join(values)


def measure_write(bench):
    folder = bench.new_folder()
    ours, theirs, plain = folder / "step.h5", folder / "torch.pt", folder / "plain"
    source = folder / "source"
    source.write_bytes(os.urandom(1_000_000) * MEGABYTES)
    program = bench.build / "scripts/benchmarks/checkpoint_io"
    torch_script = folder / "torch_save.py"
    torch_script.write_text(TORCH_SCRIPT)
    python = bench.python
    torch_command = [python, torch_script, MEGABYTES, theirs]
    with Served([program, MEGABYTES, ours]) as checkpoint, Served(torch_command) as torch_save:

        def write_plain():
            plain.unlink(missing_ok=True)
            return dd(f"if={source}", f"of={plain}", "bs=4M", "conv=fsync")

        def write_theirs():
            theirs.unlink(missing_ok=True)
            return torch_save.ask("save")

        contestants = {"checkpoint": lambda: checkpoint.ask("write"), "dd": write_plain, "torch.save": write_theirs}
        seconds = run_rounds(contestants, bench.rounds(*ROUNDS))
    note = rates(seconds)
    return {
        "checkpoint/write/dd": Measured.of(ratios(seconds["dd"], seconds["checkpoint"]), note=note),
        "checkpoint/write/torch-save": Measured.of(ratios(seconds["torch.save"], seconds["checkpoint"]), note=note),
    }


def measure_read(bench):
    folder = bench.new_folder()
    path, plain = folder / "step.h5", folder / "plain"
    plain.write_bytes(os.urandom(1_000_000) * MEGABYTES)
    with Served([bench.build / "scripts/benchmarks/checkpoint_io", MEGABYTES, path]) as checkpoint:
        checkpoint.ask("write")

        def read_ours():
            drop_from_page_cache(path)
            return checkpoint.ask("read")

        def read_plain():
            drop_from_page_cache(plain)
            return dd(f"if={plain}", "of=/dev/null", "bs=4M")

        seconds = run_rounds({"checkpoint": read_ours, "dd": read_plain}, bench.rounds(*ROUNDS))
    return {"checkpoint/read/dd": Measured.of(ratios(seconds["dd"], seconds["checkpoint"]), note=rates(seconds))}


BIG = Case("mlp-500mb", "mlp", 32, shape=(1, 64, 64), hidden=(7000, 4800))  # 62.3 million parameters


def measure_while_writing(bench):
    checkpoints, every = bench.rounds(*CHECKPOINTS), 16
    steps = every * (checkpoints + 1)
    sections = f"\n[checkpoint]\nevery = {every}\nkeep = 1\n"
    with EstrainJob(bench, BIG, steps=steps, sections=sections) as job:
        job.process.wait()
        seconds = job.step_seconds_by_number()
        saved = {event["step"]: event["seconds"] for event in job.events("checkpoint")}
    over, notes = [], []
    for step, writing in saved.items():
        cycle = [seconds[number] for number in range(step + 1, step + every + 1) if number in seconds]
        if step == 0 or len(cycle) < every:
            continue
        during, elapsed = [], 0.0
        # `writing` leaves out copying the state, which the step behind the next one waits for.
        while (elapsed < writing or len(during) < 2) and len(during) < len(cycle) - 4:
            during.append(cycle[len(during)])
            elapsed += during[-1]
        rest = cycle[len(during) + 1 :]
        over.append(statistics.mean(during) / statistics.mean(rest))
        notes.append(f"{writing:.2f} s over {len(during)} steps")
    return {"checkpoint/step-while-writing": Measured.of(over, note="writing took " + ", ".join(notes))}


def groups():
    return [
        Group(
            (
                Figure("checkpoint/write/dd", HIGHER, WRITE.format("dd bs=4M conv=fsync"), target=0.9),
                Figure("checkpoint/write/torch-save", HIGHER, WRITE.format("torch.save with fsync"), target=0.9),
            ),
            measure_write,
            lambda bench: 10 + 2 * bench.rounds(*ROUNDS),
        ),
        Group((Figure("checkpoint/read/dd", HIGHER, READ, target=0.9),), measure_read, lambda bench: 8 + bench.rounds(*ROUNDS)),
        Group(
            (Figure("checkpoint/step-while-writing", LOWER, WHILE_WRITING, target=1.1),),
            measure_while_writing,
            lambda bench: 10 + 10 * bench.rounds(*CHECKPOINTS),
        ),
    ]
