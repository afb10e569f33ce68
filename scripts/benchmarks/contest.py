"""estrain and its opponents with the same job, all started, then taking turns of about the same length.

What malloc is told, all are told alike, but for DDP as it comes: the job is started first, and its worker asked."""

import contextlib

from bare_loop import BareLoops
from estrain_job import EstrainJob
from paired_rounds import run_rounds
from torch_ddp import TorchDdp

WARM_STEPS = 1  # of each turn, not timed
FIRST_STEPS = 6  # of a contestant, before anything is timed
OPPONENTS = ("ddp", "tuned ddp", "bare")
STARTING = 12  # seconds until all contestants are ready, about


class StepTurns:
    """A contestant that is told how many steps to run; gives the seconds of a step."""

    def __init__(self, contestant, turn_seconds):
        self.contestant = contestant
        step_seconds = contestant.run(FIRST_STEPS, 3) / 3
        self.steps = max(3, round(turn_seconds / step_seconds))

    def __call__(self):
        return self.contestant.run(WARM_STEPS, self.steps) / self.steps


def contest_seconds(rounds, turn_seconds, opponents=OPPONENTS):
    """The time that a contest takes, about."""
    return STARTING + (rounds + 1) * (len(opponents) + 1) * turn_seconds


def contest(bench, case, ests, workers, rounds, turn_seconds, opponents=OPPONENTS):
    """{contestant: seconds of a step, by round}; a step is `ests` mini-batches, spread over `workers` processes."""
    accumulate = ests // workers
    make = {
        "ddp": lambda settings: TorchDdp(bench, case, workers, accumulate),
        "tuned ddp": lambda settings: TorchDdp(bench, case, workers, accumulate, environment=settings),
        "bare": lambda settings: BareLoops(bench, case, workers, accumulate, environment=settings),
    }
    with contextlib.ExitStack() as stack:
        job = stack.enter_context(EstrainJob(bench, case, ests, str(workers)))
        job.wait_for_step(FIRST_STEPS)
        settings = job.malloc_settings()
        job.pause()
        started = {name: stack.enter_context(make[name](settings)) for name in opponents}
        for contestant in started.values():
            contestant.wait_until_ready()
        turns = {name: StepTurns(contestant, turn_seconds) for name, contestant in started.items()}
        turn = max(turn_seconds, 4 * max(t.contestant.run(0, 1) for t in turns.values()))
        return run_rounds({"estrain": lambda: job.timed_turn(turn)} | turns, rounds)
