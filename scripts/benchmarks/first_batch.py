"""The first mini-batch of a worker with 8 ESTs: as many threads and as much time as with 1 EST."""

import statistics

from cases import lenet
from estrain_job import EstrainJob
from figures import LOWER, Figure, Group, Measured
from paired_rounds import ratios, run_rounds
from process_tree import threads_of
from start import first_step_seconds

HOW_THREADS = (
    "threads of the one worker of a running job with 8 ESTs, its data reader included, over those with 1 EST (a loader "
    "per EST, as with DDP, makes 8 readers)"
)
HOW_TIME = (
    "seconds from the shell to the record of the first step with 8 ESTs on 1 worker (all 8 mini-batches), over those "
    "with 1 EST; lenet, batch 8; alternating, median of the ratios"
)
ROUNDS = (9, 3)


def threads(bench, ests):
    with EstrainJob(bench, lenet(8), ests) as job:
        job.wait_for_step(3)
        (worker,) = job.worker_pids()
        return threads_of(worker)


def measure_threads(bench):
    one, eight = threads(bench, 1), threads(bench, 8)
    return {"first-batch/threads": Measured.of([eight / one], note=f"threads: {one} and {eight}")}


def measure_time(bench):
    contestants = {ests: lambda ests=ests: first_step_seconds(bench, lenet(8), ests) for ests in (8, 1)}
    seconds = run_rounds(contestants, bench.rounds(*ROUNDS))
    note = f"seconds: {statistics.median(seconds[1]):.3f} and {statistics.median(seconds[8]):.3f}"
    return {"first-batch/time": Measured.of(ratios(seconds[8], seconds[1]), note=note)}


def groups():
    return [
        Group((Figure("first-batch/threads", LOWER, HOW_THREADS, target=1.0),), measure_threads, lambda bench: 2),
        Group(
            (Figure("first-batch/time", LOWER, HOW_TIME, target=1.1),),
            measure_time,
            lambda bench: 1.5 * bench.rounds(*ROUNDS),
        ),
    ]
