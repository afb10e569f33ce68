"""The cost of losing a worker, and of being ready for that, against torchrun that restarts from a checkpoint."""

import os
import signal
import statistics
import time
from datetime import datetime

from cases import GPT, RESNET18
from estrain_job import EstrainJob
from figures import LOWER, Figure, Group, Measured
from process_tree import stat_of, wait_until
from resize import ESTS, restart_seconds

STEPS_BEFORE = 16
WORKERS = 2
ROUNDS = (4, 1)
HOW_SECONDS = (
    "seconds from SIGKILL of one of 2 workers of a running job with 4 ESTs to the next completed step, as its record "
    "says; median, spread is the middle half"
)
HOW_RATIO = (
    "the same over the time of torchrun from the last step of a DDP job with 2 ranks, through torch.save, start and "
    "torch.load, to its next step (noticing the fault not counted); alternating, median"
)
HOW_REDONE = "steps that had been recorded when the worker was killed and were done again"
HOW_HANG = (
    "seconds from SIGSTOP of a worker to the fault's event, over 3 times the longest step before it plus 2 s"
)
HOW_CPU = (
    "CPU time of the launcher, which supervises, over that of all processes of a running job with 4 ESTs on 2 workers, "
    "in percent"
)


def name_of(case, what):
    return f"recovery/{case.model}/{what}"


def cpu_seconds(pid):
    fields = stat_of(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


TICK = 0.01  # seconds of processor time: a process that used less is seen as one that used none


def recorded_steps(job):
    return (job.run / "metrics.jsonl").read_bytes().count(b"\n")


def lose_worker(job, number, signal_number):
    """Returns (recovered event, seconds from the signal to the fault's event, steps recorded when it was sent)."""
    recorded, losses = recorded_steps(job), len(job.events("recovered")) + 1
    sent = time.time()
    os.kill(job.worker_pids()[number], signal_number)
    wait_until(lambda: len(job.events("recovered")) >= losses, "recovery", process=job.process)
    noticed = datetime.fromisoformat(job.events("fault")[-1]["time"]).timestamp() - sent
    return job.events("recovered")[-1], noticed, recorded


def measure(bench, case):
    seconds, ratio, redone, hang, cpu = [], [], [], [], []
    for _ in range(bench.rounds(*ROUNDS)):
        with EstrainJob(bench, case, ESTS, str(WORKERS)) as job:
            job.wait_for_step(STEPS_BEFORE)
            before = {pid: cpu_seconds(pid) for pid in [job.process.pid, *job.worker_pids()]}
            job.wait_for_step(3 * STEPS_BEFORE)
            spent = {pid: cpu_seconds(pid) - used for pid, used in before.items()}
            cpu.append(100 * spent[job.process.pid] / max(sum(spent.values()), TICK))
            for number in range(WORKERS):
                event, _, recorded = lose_worker(job, number, signal.SIGKILL)
                lost_in = event["step"] + 1
                wait_until(lambda: recorded_steps(job) > lost_in, "the step's record", process=job.process)
                # From the commit before the fault to the next one: more than from the signal on.
                seconds.append(job.step_seconds_by_number()[lost_in])
                redone.append(max(0, recorded - event["step"]))
                job.wait_for_step(lost_in + STEPS_BEFORE)
            longest = max(job.step_seconds_by_number().values())
            _, noticed, _ = lose_worker(job, 0, signal.SIGSTOP)
            hang.append(noticed / (3 * longest + 2))
        ratio.append(statistics.median(seconds[-WORKERS:]) / restart_seconds(bench, case, WORKERS, WORKERS))
    worst = f"worst {max(seconds):.3f}"
    return {
        name_of(case, "seconds"): Measured.of(seconds, note=worst),
        name_of(case, "torchrun"): Measured.of(ratio, note=worst),
        name_of(case, "steps-redone"): Measured.of(redone, note=f"{len(redone)} losses"),
        name_of(case, "hang-noticed"): Measured.of(hang, note=f"longest step {longest:.2f} s"),
        name_of(case, "supervision-cpu"): Measured.of(cpu),
    }


def group(case):
    figures = (
        Figure(name_of(case, "seconds"), LOWER, HOW_SECONDS, 1.0, " s"),
        Figure(name_of(case, "torchrun"), LOWER, HOW_RATIO, target=0.2),
        Figure(name_of(case, "steps-redone"), LOWER, HOW_REDONE, target=0.0),
        Figure(name_of(case, "hang-noticed"), LOWER, HOW_HANG, target=1.0),
        Figure(name_of(case, "supervision-cpu"), LOWER, HOW_CPU, 0.5, " %"),
    )
    return Group(figures, lambda bench: measure(bench, case), lambda bench: 40 * bench.rounds(*ROUNDS))


def groups():
    return [group(case) for case in (RESNET18, GPT)]
