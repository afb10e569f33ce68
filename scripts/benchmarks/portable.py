"""The cost of D2: a step with the portable kernels against one with LibTorch's."""

import contextlib
import statistics

from cases import GPT, RESNET18, Case, gpt, lenet, mlp
from estrain_job import EstrainJob
from figures import LOWER, Figure, Group, Measured
from paired_rounds import ratios, run_rounds

CASES = (  # with the target, and the seconds of a step at D1, about
    (GPT, 0.65, 0.02),
    (gpt(128, 4, 128, 8), 0.65, 0.15),
    (mlp(64, 512, 512), 0.65, 0.01),
    (RESNET18, 0.75, 0.1),
    (Case("resnet50-224x224-b4", "resnet50", 4, shape=(3, 224, 224)), 0.75, 1.5),
    (Case("vgg11-32x32-b8", "vgg11", 8, shape=(3, 32, 32)), 1.0, 0.5),
    (lenet(32), 1.0, 0.01),
    (lenet(128), 1.0, 0.01),
)
ROUNDS, TURN = (7, 4), (0.7, 0.4)  # of a full run, of a quick one
TURN_STEPS = 4  # at least
FIRST_STEPS = 6  # of a job, before anything is timed
KINDS = (("cpu", ""), ("cpu:avx2", " limited to AVX2"), ("cpu:sse", " limited to SSE"))
HOW = (
    "time of a step at D2 (portable kernels) over that at D1 (LibTorch's), 1 EST on 1 worker{kind}, {threads} intra-op "
    "thread{s}, update included; long-lived processes take turns; median of the ratios of the rounds"
)
LEVELS = {"D1": 'determinism = "D1"', "D2": 'determinism = "D2"'}


def name_of(case, kind, threads):
    return f"d2/{threads}t/{case.name}" + ("" if kind == "cpu" else "/" + kind.split(":")[1])


def seconds_of_steps(bench, start):
    """{name: seconds of a step, by round} of jobs that take turns; `start`: {name: function that starts the job}."""
    with contextlib.ExitStack() as stack:
        jobs = {name: stack.enter_context(begin()) for name, begin in start.items()}
        longest = 0
        for job in jobs.values():
            job.wait_for_step(FIRST_STEPS)
            job.pause()
            longest = max(longest, *job.step_seconds())
        turn = max(bench.duration(*TURN), TURN_STEPS * longest)
        return run_rounds(
            {name: (lambda job=job: job.timed_turn(turn)) for name, job in jobs.items()}, bench.rounds(*ROUNDS)
        )


def measured(seconds, one, other):
    note = ", ".join(f"{name} {statistics.median(values) * 1e3:.2f}" for name, values in seconds.items())
    return Measured.of(ratios(seconds[one], seconds[other]), note=f"ms a step: {note}")


def job_of(bench, case, kind="1", key="", threads=1):
    job = f"{key}\nthreads = {threads}\n"
    return lambda: EstrainJob(bench, case, 1, kind, sections="[checkpoint]\nkeep = 1\n", job=job)


def measure(bench, case, kind, threads):
    start = {level: job_of(bench, case, kind, key, threads) for level, key in LEVELS.items()}
    return {name_of(case, kind, threads): measured(seconds_of_steps(bench, start), "D2", "D1")}


def about(bench, step):
    turn = max(bench.duration(*TURN), TURN_STEPS * step)
    return 3 + 2 * FIRST_STEPS * step + 2 * bench.rounds(*ROUNDS) * turn


def group(case, target, step, kind, told, threads):
    how = HOW.format(kind=told, threads=threads, s="" if threads == 1 else "s")
    figure = Figure(name_of(case, kind, threads), LOWER, how, target=target)
    return Group(
        (figure,), lambda bench: measure(bench, case, kind, threads), lambda bench: about(bench, step)
    )


def groups():
    widest = [group(*case, "cpu", "", threads) for threads in (1, 2) for case in CASES]
    small = [case for case in CASES if "224" not in case[0].name]
    others = [group(case, 1.0, step, kind, told, 1) for kind, told in KINDS[1:] for case, _, step in small]
    return widest + others
