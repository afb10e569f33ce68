"""What D2 costs: a step with the portable kernels against one with LibTorch's."""

import contextlib
import statistics

from cases import GPT, RESNET18, Case, gpt, lenet, mlp
from estrain_job import EstrainJob
from figures import LOWER, Figure, Group, Measured
from paired_rounds import ratios, run_rounds

CASES = (
    (GPT, 0.65),
    (gpt(128, 4, 128, 8), 0.65),
    (mlp(64, 512, 512), 0.65),
    (RESNET18, 0.75),
    (Case("resnet50-224x224-b4", "resnet50", 4, shape=(3, 224, 224)), 0.75),
    (Case("vgg11-32x32-b8", "vgg11", 8, shape=(3, 32, 32)), 1.0),
    (lenet(32), 1.0),
    (lenet(128), 1.0),
)
KINDS = (("cpu", ""), ("cpu:avx2", " limited to AVX2"), ("cpu:sse", " limited to SSE"))
HOW = (
    "time of a step at D2 (portable kernels) over that at D1 (LibTorch's), 1 EST on 1 worker{kind}, {threads} intra-op "
    "thread{s}, update included; long-lived processes take turns; median of the ratios of the rounds"
)
LEVELS = {"D1": 'determinism = "D1"', "D2": 'determinism = "D2"'}


def name_of(case, kind, threads):
    return f"d2/{threads}t/{case.name}" + ("" if kind == "cpu" else "/" + kind.split(":")[1])


def measure(bench, case, kind, threads):
    with contextlib.ExitStack() as stack:
        jobs = {
            level: stack.enter_context(
                EstrainJob(bench, case, 1, kind, sections="[checkpoint]\nkeep = 1\n", job=f"{key}\nthreads = {threads}\n")
            )
            for level, key in LEVELS.items()
        }
        longest = 0
        for job in jobs.values():
            job.wait_for_step(6)
            job.pause()
            longest = max(longest, *job.step_seconds())
        turn = max(bench.rounds(0.7, 0.4), 4 * longest)
        seconds = run_rounds(
            {level: (lambda job=job: job.timed_turn(turn)) for level, job in jobs.items()}, bench.rounds(7, 4)
        )
    note = ", ".join(f"{level} {statistics.median(values) * 1e3:.2f}" for level, values in seconds.items())
    return {name_of(case, kind, threads): Measured.of(ratios(seconds["D2"], seconds["D1"]), note=f"ms a step: {note}")}


def group(case, target, kind, told, threads):
    how = HOW.format(kind=told, threads=threads, s="" if threads == 1 else "s")
    figure = Figure(name_of(case, kind, threads), LOWER, how, target=target)
    return Group((figure,), lambda bench: measure(bench, case, kind, threads))


def groups():
    widest = [group(case, target, "cpu", "", threads) for threads in (1, 2) for case, target in CASES]
    others = [group(case, 1.0, kind, told, 1) for kind, told in KINDS[1:] for case, _ in CASES if "224" not in case.name]
    return widest + others
