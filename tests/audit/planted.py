#!/usr/bin/env python3
"""Audits of whole jobs: no false alarm and no trace over resizes and kinds of devices; a worker that computes wrong results
is named and set aside; audit.redo redoes the steps since its last good audit; a bit that changes in memory is found.

  planted.py ESTRAIN WRONG_BITS                    a short form of all that
  planted.py ESTRAIN WRONG_BITS --clean STEPS      that many audited steps at D2 over resizes and kinds
  planted.py ESTRAIN WRONG_BITS --planted NUMBER   that many faults, of four kinds in turn
  planted.py ESTRAIN WRONG_BITS --cost PAIRS       instructions of a job with audit.every = 100 over those without

WRONG_BITS is tests/audit/wrong_bits.cpp as a library.
"""
import argparse
import json
import math
import mmap
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPEC = """[job]
name = "audited"
seed = 15
ests = 6
[model]
name = "{model}"
{hidden}
classes = 10
[data]
format = "synthetic"
shape = {shape}
samples = {samples}
batch = {batch}
[optimizer]
name = "adamw"
lr = 0.001
[train]
steps = {steps}
eval_every = "never"
clip_grad_norm = 1.0
[checkpoint]
every = {every}
keep = 20
"""
MLP = {"model": "mlp", "hidden": "hidden = [64, 48]\ndropout = 0.3", "shape": [64], "batch": 4, "samples": 24000}
LENET = {"model": "lenet", "hidden": "", "shape": [1, 28, 28], "batch": 32, "samples": 192000}
ONE_OPERATOR = 64 * 48  # elements of the gradient that one product gives, in MLP
PATIENCE = 600          # seconds
MOST_STEPS = 100_000_000
# core/comm/memory_header.h: version, total_bytes, manifest, manifest_bytes, state, state_bytes
STATE_OFFSET = 32


def check(what, holds, about=""):
    if not holds:
        sys.exit(f"failed: {what}\n{about}")


class Job:
    """`estrain train` in the background."""

    def __init__(self, program, folder, name, steps, *more, network=MLP, wrong=None, every=10, under=()):
        self.program, self.run = program, folder / name
        spec = folder / f"{name}.toml"
        spec.write_text(SPEC.format(steps=steps, every=every, **network))
        self.output = folder / f"{name}.out"
        environment = dict(os.environ, ESTRAIN_PROFILES=str(folder / "profiles.json"))
        if wrong:
            environment.update(LD_PRELOAD=str(wrong), ESTRAIN_TEST_WRONG=str(folder))
        self.process = subprocess.Popen(
            [*under, program, "train", spec, "--run", self.run, *map(str, more)], stdout=self.output.open("w"),
            stderr=subprocess.STDOUT, env=environment)

    def estrain(self, verb, *more):
        return subprocess.run([self.program, verb, self.run, *map(str, more)], capture_output=True, text=True)

    def status(self):
        done = self.estrain("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def await_that(self, what, holds):
        deadline = time.monotonic() + PATIENCE
        while not holds():
            check(what, self.process.poll() is None and time.monotonic() < deadline, self.text())
            time.sleep(0.02)

    def reach(self, step):
        self.await_that(f"the job gets to step {step}", lambda: self.status().get("step", 0) >= step)

    def resize(self, devices):
        done = self.estrain("resize", "--devices", devices)
        check(f"a resize to {devices}", done.returncode == 0, done.stdout + done.stderr + self.text())

    def stop(self):
        self.estrain("stop")
        self.wait(75)

    def wait(self, code=0):
        self.process.wait(PATIENCE * 10)
        check(f"exit code {code}, not {self.process.returncode}", self.process.returncode == code, self.text())

    def text(self):
        return self.output.read_text()

    def events(self, name):
        path = self.run / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]


def same_bits(program, one, other):
    done = subprocess.run([program, "verify", one.run, other.run], capture_output=True, text=True)
    check(f"{one.run.name} and {other.run.name} have the same bits", done.returncode == 0, done.stdout + done.stderr)


def same_bits_as_alone(program, folder, job, steps, *more):
    alone = Job(program, folder, f"{job.run.name}-alone", steps, *more, "--devices", 1)
    alone.wait()
    same_bits(program, job, alone)


def kinds():
    flags = Path("/proc/cpuinfo").read_text()
    return [kind for kind, flag in (("cpu:avx512", "avx512vl"), ("cpu:avx2", " fma "), ("cpu:sse", "sse2")) if flag in flags]


def clean(program, folder, steps, resizes):
    """Audits of every step at D2, over resizes from kind to kind."""
    at_d2 = ["--set", "job.determinism=D2"]
    dice = random.Random(steps)
    mixed = lambda: ",".join(dice.choices(kinds(), k=dice.randint(1, 4)))
    job = Job(program, folder, "clean", MOST_STEPS, *at_d2, "--devices", mixed(), "--set", "audit.every=1", every=5000)
    for i in range(resizes):
        job.reach(1 + steps * i // resizes)
        job.resize(mixed())
    job.reach(steps)
    job.stop()
    check("no alarm", not job.events("fault"), job.text())
    check("the price is told", "one of 6 mini-batches is computed twice, 16.7 % more work" in job.text(), job.text())
    done = job.events("stopped")[0]["step"]
    same_bits_as_alone(program, folder, job, done, *at_d2)
    print(f"{done} audited steps over {resizes} resizes at D2, no alarm, the same bits as on one device without audits", flush=True)


class Worker:
    """A worker of a job, which a file in `folder` makes wrong (wrong_bits.cpp)."""

    def __init__(self, folder, status, rank):
        self.id, self.file = status["workers"][rank]["id"], folder / str(status["workers"][rank]["pid"])

    def make_wrong(self, probability, elements=0):
        temporary = self.file.with_suffix(".new")
        temporary.write_text(f"{probability} {elements}")
        temporary.rename(self.file)

    def times_wrong(self):
        counted = self.file.with_suffix(".wrong")
        return counted.stat().st_size if counted.exists() else 0


def set_aside(program, folder, library):
    """Requests for audits; a wrong worker of three; two that disagree."""
    job = Job(program, folder, "aside", MOST_STEPS, "--devices", 3, wrong=library)
    job.reach(5)
    words = job.estrain("audit")
    check("an audit passes", words.returncode == 0 and "has the same bits" in words.stdout, str(words))
    answer = json.loads(job.estrain("audit", "--json").stdout)
    check("and another one", answer["passed"] == 2 and not answer["blind"], str(answer))
    check("status tells of them", "2 passed" in job.estrain("status").stdout)
    worker = Worker(folder, job.status(), 1)
    worker.make_wrong(1)
    while not job.events("device_lost"):
        job.estrain("audit", "--within", 1)
    job.reach(job.events("fault")[0]["step"] + 5)
    fault = job.events("fault")[0]
    check("the wrong worker is named", (fault["cause"], fault["worker"]) == ("wrong_results", worker.id), str(fault))
    check("with what audits vouch for", 0 < fault["vouched_step"] <= fault["step"], str(fault))
    check("and set aside", job.events("stage")[-1]["workers"] == 2, job.text())
    shown = job.estrain("status").stdout
    check("status tells of it", f"wrong results    cpu, worker {worker.id}" in shown, shown)
    Worker(folder, job.status(), 0).make_wrong(1)
    while job.process.poll() is None:
        job.estrain("audit", "--within", 1)
    job.wait(1)
    check("of two that disagree, nobody can tell", "cannot tell which device is wrong" in job.text(), job.text())
    check("the end tells of the first one", "have it checked" in job.text(), job.text())
    nobody = job.estrain("audit")
    check("nobody is there to be asked", nobody.returncode == 2, str(nobody))


def flip_a_bit(job, place):
    """In both copies of the state; the one that is being written may lose it again."""
    for entry in Path(f"/proc/{job.process.pid}/fd").iterdir():
        if not os.readlink(entry).startswith("/memfd:estrain "):
            continue
        with open(entry, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            state, size = struct.unpack_from("<QQ", memory, STATE_OFFSET)
            for copy in (0, 1):
                memory[state + copy * size + place] ^= 1
        return
    sys.exit("failed: the launcher holds no shared memory")


def flip_until_found(job, place):
    """Returns how many flips it took. One that hits a state that is read no more is not found, and leaves no trace."""
    before, flips = len(job.events("gone_back")), 0
    while len(job.events("gone_back")) == before:
        flip_a_bit(job, place)
        flips += 1
        deadline = time.monotonic() + 2
        while len(job.events("gone_back")) == before and time.monotonic() < deadline:
            time.sleep(0.02)
    return flips


def redone(program, folder, library):
    """audit.redo after a wrong worker and after a flipped bit: the end has the bits of an undisturbed run."""
    steps = 600
    job = Job(program, folder, "redone", steps, "--devices", 3, "--set", "audit.every=1", "--set", "audit.redo=true", wrong=library)
    job.reach(20)
    Worker(folder, job.status(), 1).make_wrong(1)
    job.await_that("the job goes back", lambda: job.events("gone_back"))
    back, fault = job.events("gone_back")[0], job.events("fault")[0]
    check("to before the fault", back["cause"] == "wrong_results" and back["from"] <= fault["vouched_step"], str(back))
    for step in back["set_aside"]:
        check("checkpoints are set aside", (job.run / f"checkpoints/step-{step:09d}.h5.unvouched").exists(), str(back))
    job.reach(back["from"] + 20)
    flip_until_found(job, 4002)
    check("the damage is named", job.events("fault")[-1]["cause"] == "damaged_state", job.text())
    check("and told", "found the state damaged in memory" in job.text(), job.text())
    job.wait()
    same_bits_as_alone(program, folder, job, steps)


def interval(found, of):
    """Of a share, 95 % (Wilson)."""
    if of == 0:
        return 0.0, 1.0
    z, p = 1.96, found / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


RARELY, ALWAYS, OPERATOR = "one mini-batch in 10^4", "every mini-batch", "one operator"


def plant_in(job, folder, kind, dice):
    """Makes a worker of three wrong until it is found. Returns the steps that took, and how often it was wrong."""
    status = job.status()
    worker = Worker(folder, status, dice.randrange(3))
    before = len(job.events("fault"))
    worker.make_wrong({RARELY: 1e-4}.get(kind, 1), ONE_OPERATOR if kind == OPERATOR else 0)
    job.await_that("a fault is found", lambda: len(job.events("fault")) > before)
    fault = job.events("fault")[-1]
    check("of that worker", (fault["cause"], fault["worker"]) == ("wrong_results", worker.id), f"{fault}\n{worker.id}")
    return fault["step"] - status["step"], worker.times_wrong()


def planted(program, folder, library, number):
    """One long job of three workers, every step audited. A worker found wrong is replaced by a new one."""
    job = Job(program, folder, "planted", MOST_STEPS, "--devices", 3, "--set", "audit.every=1", "--set", "recovery.retries=10",
              wrong=library, every=100_000)
    dice, waits, wrongs = random.Random(number), {}, {}
    kinds_of_faults = [RARELY, ALWAYS, OPERATOR]
    for i in range(number):
        kind = kinds_of_faults[i % 3]
        job.reach(job.status().get("step", 0) + 5)
        waited, times = plant_in(job, folder, kind, dice)
        waits.setdefault(kind, []).append(waited)
        wrongs[kind] = wrongs.get(kind, 0) + times
        job.await_that("the job goes on", lambda: job.status().get("state") == "training" and len(job.status()["workers"]) == 2)
        job.resize(3)
        print(f"{i + 1}: {kind}: found after {waited} steps, wrong {times} times, step {job.status()['step']}", flush=True)
    job.stop()
    alarms = len(job.events("fault"))
    check("no alarm but these", alarms == number, str(job.events("fault")))
    for kind, all_waits in waits.items():
        low, high = interval(len(all_waits), wrongs[kind])
        print(f"{kind}: {len(all_waits)} of {len(all_waits)} found and named, after {sum(all_waits) / len(all_waits):.1f} steps in "
              f"the mean; wrong {wrongs[kind]} times until then, found {len(all_waits) / wrongs[kind]:.3f} of these "
              f"(95 %: {low:.3f} to {high:.3f})")
    # A worker computes 2 mini-batches of a step, and a third one in one step of three; 2 of 3 audits compare one of these.
    print(f"sampling predicts {2 / 3 / (2 + 1 / 3):.3f} of the rare ones")


def flipped(program, folder, number):
    """One job in which bits of the state in memory flip, every step audited; it goes back each time."""
    steps = MOST_STEPS
    job = Job(program, folder, "flipped", steps, "--devices", 2, "--set", "audit.every=1", "--set", "audit.redo=true", every=20)
    dice, flips = random.Random(number), 0
    for i in range(number):
        job.reach(job.status().get("step", 0) + 25)
        # Parameters, then two slots of the optimizer for each: 7744 of 4 bytes each.
        flips += flip_until_found(job, dice.randrange(3 * 7744 * 4))
        job.await_that("it is a flipped bit", lambda: job.events("fault")[-1]["cause"] == "damaged_state")
        print(f"flipped bit {i + 1} found", flush=True)
        job.await_that("the job goes on", lambda: job.status().get("state") == "training")
    job.stop()
    same_bits_as_alone(program, folder, job, job.events("stopped")[0]["step"])
    print(f"{number} flipped bits found, of {flips} flipped; the others hit a state that was not read any more: the run has the bits "
          "of an undisturbed one")


def instructions(program, folder, name, every, steps):
    """Of a job and all its processes, in user space."""
    counted = folder / f"{name}.perf"
    job = Job(program, folder, name, steps, "--devices", 2, "--set", f"audit.every={every}", network=LENET, every=100_000,
              under=["perf", "stat", "-x,", "-e", "instructions:u", "-o", counted])
    job.wait()
    return int(re.search(r"(\d+),[^,]*,instructions:u", counted.read_text()).group(1))


def processor_seconds(program, folder, name, every, steps):
    import resource
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    Job(program, folder, name, steps, "--devices", 2, "--set", f"audit.every={every}", network=LENET, every=100_000).wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cost(program, folder, pairs):
    measure = instructions if subprocess.run(["perf", "stat", "-e", "instructions:u", "true"], capture_output=True).returncode == 0 \
        else processor_seconds
    ratios = []
    for i in range(pairs):
        took = {every: measure(program, folder, f"cost-{i}-{every}", every, 1500) for every in ((0, 100), (100, 0))[i % 2]}
        ratios.append(took[100] / took[0])
        print(f"{measure.__name__}: {took[100]:.4g} / {took[0]:.4g} = {ratios[-1]:.4f}", flush=True)
    print(f"median {sorted(ratios)[len(ratios) // 2]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estrain", type=Path)
    parser.add_argument("wrong_bits", type=Path)
    parser.add_argument("--clean", type=int)
    parser.add_argument("--planted", type=int)
    parser.add_argument("--flipped", type=int)
    parser.add_argument("--cost", type=int)
    arguments = parser.parse_args()
    program, library = arguments.estrain.resolve(), arguments.wrong_bits.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.clean:
            return clean(program, folder, arguments.clean, max(3, arguments.clean // 1000))
        if arguments.planted:
            return planted(program, folder, library, arguments.planted)
        if arguments.flipped:
            return flipped(program, folder, arguments.flipped)
        if arguments.cost:
            return cost(program, folder, arguments.cost)
        clean(program, folder, 150, 2)
        set_aside(program, folder, library)
        redone(program, folder, library)
    print("audits: planted faults are found, and there is no other alarm")


main()
