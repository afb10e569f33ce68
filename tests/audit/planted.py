#!/usr/bin/env python3
"""Audits of whole jobs: no false alarm and no trace over resizes and kinds of devices; a worker that computes wrong results
is named and set aside; audit.redo redoes the steps since its last good audit; a bit that changes in memory is found.

  planted.py ESTRAIN WRONG_BITS                    a short form of all that
  planted.py ESTRAIN WRONG_BITS --clean STEPS      that many audited steps at D2 over resizes and kinds
  planted.py ESTRAIN WRONG_BITS --planted NUMBER   that many workers that are always wrong, or in one operator
  planted.py ESTRAIN WRONG_BITS --rare NUMBER      that many workers that are rarely wrong [--often 10000] [--workers 1]
  planted.py ESTRAIN WRONG_BITS --flipped NUMBER   that many bits that change in memory
  planted.py ESTRAIN WRONG_BITS --cost PAIRS       seconds of a step with audits and without, in pairs

WRONG_BITS is tests/audit/wrong_bits.cpp as a library.
"""
import argparse
import json
import math
import mmap
import os
import random
import resource
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
PATIENCE = 3600         # seconds
MOST_STEPS = 100_000_000
# core/state/comm/memory/memory_header.h: version, total_bytes, manifest, manifest_bytes, state, state_bytes
STATE_OFFSET = 32


def check(what, holds, about=""):
    if not holds:
        sys.exit(f"failed: {what}\n{about}")


class Job:
    """`estrain train` in the background."""

    def __init__(self, program, folder, name, steps, *more, network=MLP, wrong=None, every=10):
        self.program, self.run = program, folder / name
        spec = folder / f"{name}.toml"
        spec.write_text(SPEC.format(steps=steps, every=every, **network))
        self.output = folder / f"{name}.out"
        environment = dict(os.environ, ESTRAIN_PROFILES=str(folder / "profiles.json"))
        if wrong:
            environment.update(LD_PRELOAD=str(wrong), ESTRAIN_TEST_WRONG=str(folder))
        self.process = subprocess.Popen(
            [program, "train", spec, "--run", self.run, *map(str, more)], stdout=self.output.open("w"),
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
    job.await_that("and told", lambda: "found the state damaged in memory" in job.text())
    job.wait()
    same_bits_as_alone(program, folder, job, steps)


def interval(found, of):
    """The 95 % interval of a share (Wilson)."""
    if of == 0:
        return 0.0, 1.0
    z, p = 1.96, found / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


def plant(job, folder, probability, elements, dice):
    """Makes one of the workers wrong until an audit finds it. Returns the steps that took, and how often it was wrong."""
    status = job.status()
    worker = Worker(folder, status, dice.randrange(len(status["workers"])))
    before = len(job.events("fault"))
    worker.make_wrong(probability, elements)
    job.await_that("a fault is found", lambda: len(job.events("fault")) > before)
    fault = job.events("fault")[-1]
    check("the worker is named", (fault["cause"], fault["worker"]) == ("wrong_results", worker.id), f"{fault}\n{worker.id}")
    return fault["step"] - status["step"], worker.times_wrong()


def planted(program, folder, library, number, workers, faults):
    """One long job, every step audited. A worker found wrong is replaced by a new one. faults: by name, what makes a worker
    wrong."""
    job = Job(program, folder, "planted", MOST_STEPS, "--devices", workers, "--set", "audit.every=1", "--set",
              "recovery.retries=10", wrong=library, every=1_000_000)
    dice, waits, wrongs = random.Random(number), {}, {}
    for i in range(number):
        name, what = list(faults.items())[i % len(faults)]
        job.await_that("the job trains", lambda: job.status().get("state") == "training" and job.status().get("workers"))
        job.reach(job.status()["step"] + 5)
        waited, times = plant(job, folder, *what, dice)
        waits.setdefault(name, []).append(waited)
        wrongs[name] = wrongs.get(name, 0) + times
        print(f"{i + 1}: {name}: found after {waited} steps, wrong {times} times, {workers} workers", flush=True)
        job.reach(job.events("fault")[-1]["step"] + 1)
        if workers > 1:
            job.resize(workers)
    job.stop()
    check("no alarm but these", len(job.events("fault")) == number, str(job.events("fault")))
    for name, all_waits in waits.items():
        found = len(all_waits)
        low, high = interval(found, wrongs[name])
        print(f"{name}, {workers} workers: {found} of {found} found and named, after {sum(all_waits) / found:.1f} steps in the mean; "
              f"wrong {wrongs[name]} times until then: found {found / wrongs[name]:.3f} of these (95 %: {low:.3f} to {high:.3f})")


ALWAYS_WRONG = {"every mini-batch": (1, 0), "one operator": (1, ONE_OPERATOR)}
# A worker of one or two computes 6 or 3 mini-batches of a step, and one or half a one for the audit, which compares two or
# one of these.
PREDICTED = 2 / 7


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
        job.await_that("the job continues", lambda: job.status().get("state") == "training")
    job.stop()
    same_bits_as_alone(program, folder, job, job.events("stopped")[0]["step"])
    print(f"{number} flipped bits found, of {flips} flipped; the others hit a state that was not read any more: the run has the bits "
          "of an undisturbed one")


def seconds_of(program, folder, name, every, ests):
    """The seconds of a step: by the clock, and of processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    job = Job(program, folder, name, 300, "--devices", 2, "--set", f"audit.every={every}", "--set", f"job.ests={ests}",
              network=LENET, every=100_000)
    job.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    speed = job.events("stage_speed")[-1]
    return speed["seconds"] / speed["steps"], (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 300


def cost(program, folder, pairs):
    """The price of an audit is that of audits of every step, over none: audit.every = 100 has a hundredth of it a step."""
    for ests in (2, 6):
        more = []
        for i in range(pairs):
            took = {every: seconds_of(program, folder, f"cost-{ests}-{i}-{every}", every, ests) for every in ((0, 1), (1, 0))[i % 2]}
            more.append([audited / plain - 1 for audited, plain in zip(took[1], took[0])])
            print(f"{ests} ESTs on 2 workers: an audit takes {more[-1][0]:.3f} of a step by the clock, {more[-1][1]:.3f} of processors",
                  flush=True)
        clock, processors = (sorted(column)[len(more) // 2] for column in zip(*more))
        print(f"{ests} ESTs on 2 workers, median: at audit.every = 100 a step takes {clock:.2f} % longer, {processors:.2f} % of processors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estrain", type=Path)
    parser.add_argument("wrong_bits", type=Path)
    parser.add_argument("--clean", type=int)
    parser.add_argument("--planted", type=int)
    parser.add_argument("--rare", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--often", type=int, default=10_000)
    parser.add_argument("--flipped", type=int)
    parser.add_argument("--cost", type=int)
    arguments = parser.parse_args()
    program, library = arguments.estrain.resolve(), arguments.wrong_bits.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.clean:
            return clean(program, folder, arguments.clean, max(3, arguments.clean // 1000))
        if arguments.planted:
            return planted(program, folder, library, arguments.planted, 3, ALWAYS_WRONG)
        if arguments.rare:
            faults = {f"one mini-batch in {arguments.often}": (1 / arguments.often, 0)}
            planted(program, folder, library, arguments.rare, arguments.workers, faults)
            return print(f"sampling predicts {PREDICTED:.3f}")
        if arguments.flipped:
            return flipped(program, folder, arguments.flipped)
        if arguments.cost:
            return cost(program, folder, arguments.cost)
        clean(program, folder, 150, 2)
        set_aside(program, folder, library)
        redone(program, folder, library)
    print("audits: planted faults are found, and there is no other alarm")


main()
