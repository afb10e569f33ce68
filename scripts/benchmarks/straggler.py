"""A job with two workers, one of which other programs on its core slow down: ESTs move away from it, and back."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

from cases import lenet
from estrain_job import EstrainJob
from figures import HIGHER, LOWER, Figure, Group, Measured
from plan import database_of

CASE = lenet(32)
ESTS = 8
SPLITS = ("cpu=4,cpu=4", "cpu=5,cpu=3", "cpu=6,cpu=2", "cpu=7,cpu=1")
COLD = 3  # seconds of a job that are not looked at
FIXED, BEFORE, SLOWED, AFTER = (8, 2), (10, 3), (60, 14), (20, 4)  # seconds, of a full run, of a quick one
STEPS, ROUNDS = (1200, 200), (3, 1)
IN_TIME = 10  # seconds within which the job is to be as fast as it can be again
AUTOMATIC = '[elastic]\nmode = "auto"\n'

HOW = "lenet with 8 ESTs on 2 workers, each with a core of its own, one of which is shared with {} busy loops{}: "
HOW_SLOWED = HOW.format(2, " for 60 s") + (
    "steps/s from 10 s on until the loops end, over those of the best fixed split of ESTs, measured under the same loops"
)
HOW_AFTER = HOW.format(2, " for 60 s") + "steps/s from 10 s after their end on, over those before they began"
HOW_FEWER = HOW.format(2, " for 60 s") + "how often the job continued with fewer workers"
HOW_TIME = HOW.format(3, ", so that it has a quarter of it") + (
    "time of a job that moves ESTs over that of one that does not (elastic.mode), from the start of the loops to the "
    "same step; DLRover reports 0.76 and 0.58 for a worker with a quarter of its cores"
)


def pin(pid, core):
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {core})


def steps_of(job):
    return (job.run / "metrics.jsonl").read_bytes().count(b"\n")


def rate(job, seconds):
    """Steps per second from now on: of so many seconds, or until there is one."""
    begin, steps = time.monotonic(), steps_of(job)
    time.sleep(seconds)
    job.wait_for_step(steps + 1)
    return (steps_of(job) - steps) / (time.monotonic() - begin)


@contextlib.contextmanager
def running(bench, devices, sections=""):
    with EstrainJob(bench, CASE, ESTS, devices, sections=sections) as job:
        job.wait_for_step(1)
        for core, pid in zip(sorted(os.sched_getaffinity(0)), job.worker_pids()):
            pin(pid, core)
        time.sleep(COLD)
        yield job


@contextlib.contextmanager
def busy_loops(number):
    core = sorted(os.sched_getaffinity(0))[1]
    loop = ["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"]
    loops = [subprocess.Popen(loop) for _ in range(number)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def best_fixed(bench, loops):
    rates = {}
    for split in SPLITS:
        with running(bench, split) as job, busy_loops(loops):
            rates[split] = rate(job, bench.duration(*FIXED))
    best = max(rates, key=rates.get)
    return best, rates[best]


def slowed_for_a_while(bench):
    split, ideal = best_fixed(bench, 2)
    with running(bench, "2", AUTOMATIC) as job:
        before = rate(job, bench.duration(*BEFORE))
        with busy_loops(2):
            time.sleep(IN_TIME)
            slowed = rate(job, bench.duration(*SLOWED) - IN_TIME)
        time.sleep(IN_TIME)
        after = rate(job, bench.duration(*AFTER))
        fewer = sum(event["from"].count(",") > event["to"].count(",") for event in job.events("resize"))
        moved = ["+".join(map(str, event["ests"])) for event in job.events("rebalance")]
    told = f"{before:.0f} steps/s before, {slowed:.0f} of {ideal:.0f} ({split}) while slowed, {after:.0f} after; "
    told += f"ESTs moved to {', then to '.join(moved)}"
    return {
        "straggler/slowed": Measured.of([slowed / ideal], note=told),
        "straggler/after": Measured.of([after / before], note=told),
        "straggler/fewer-workers": Measured.of([fewer]),
    }


def seconds_under_loops(bench, steps, sections):
    with running(bench, "2", sections) as job, busy_loops(3):
        begin, first = time.monotonic(), steps_of(job)
        while steps_of(job) < first + steps:
            time.sleep(0.05)
        return time.monotonic() - begin


def job_time(bench):
    steps = bench.rounds(*STEPS)
    ratios, told = [], []
    for _ in range(bench.rounds(*ROUNDS)):
        automatic, fixed = (seconds_under_loops(bench, steps, sections) for sections in (AUTOMATIC, ""))
        ratios.append(automatic / fixed)
        told.append(f"{automatic:.1f} of {fixed:.1f} s")
    return {"straggler/job-time": Measured.of(ratios, note=", ".join(told))}


def measure(bench):
    if len(os.sched_getaffinity(0)) < 2:
        raise RuntimeError("two cores are needed")
    with database_of(bench):
        return slowed_for_a_while(bench) | job_time(bench)


def about(bench):
    fixed = len(SPLITS) * (COLD + 2 + bench.duration(*FIXED))
    slowed = COLD + 2 + bench.duration(*BEFORE) + bench.duration(*SLOWED) + IN_TIME + bench.duration(*AFTER)
    return fixed + slowed + 2 * bench.rounds(*ROUNDS) * (COLD + 2 + bench.rounds(*STEPS) / 40)


def groups():
    figures = (
        Figure("straggler/slowed", HIGHER, HOW_SLOWED, target=0.85),
        Figure("straggler/after", HIGHER, HOW_AFTER, target=0.95),
        Figure("straggler/fewer-workers", LOWER, HOW_FEWER, target=0),
        Figure("straggler/job-time", LOWER, HOW_TIME, target=0.76),
    )
    return [Group(figures, measure, about)]
