"""A change of workers on the GPU against torchrun that restarts an equal job from a checkpoint."""

import socket
import statistics

from contestants import FIRST_STEPS, Turns, cases
from figures import LOWER
from report import Skipped
from resize import STEPS_AFTER, cost_by_step_times, restart_seconds

ESTS = 4
DIRECTIONS = {"grow": (1, 2), "shrink": (2, 1)}
HOW = (
    "seconds without a step when a running job with 4 ESTs goes from {} to {} workers on one GPU (the greater of what "
    "estrain says and what the times of the steps around it show), over those of torchrun from the last step of a DDP "
    "job, through torch.save, start and torch.load, to the first step with the other number of processes; {} rounds"
)


def has_loopback():
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), 5).close()
        return True
    except OSError:
        return False


def still(job, devices):
    """Seconds without a step of a resize."""
    done = job.resize(devices)
    job.wait_for_step(done["step"] + STEPS_AFTER + 2)
    shown, _ = cost_by_step_times(job.step_seconds_by_number(), done["step"], done["warming_seconds"])
    return max(shown, done["stood_still_seconds"])


def check(name):
    def measure(machine, report):
        case, rounds, seconds = cases(machine)[name], machine.rounds(2, 1), {way: [] for way in DIRECTIONS}
        with Turns(machine, case, ESTS) as job:
            job.get_ready().go_on()
            job.wait_for_step(FIRST_STEPS + STEPS_AFTER)
            for _ in range(rounds):
                for way, (_, after) in DIRECTIONS.items():
                    seconds[way].append(still(job, machine.devices(after)))
        words = ", ".join(f"{way} {statistics.median(taken):.3f} s" for way, taken in seconds.items())
        report.found(f"without a step: {words}")
        if machine.python is None:
            raise Skipped(f"there is no Python with torch here; without a step: {words}")
        if not has_loopback():
            raise Skipped(f"127.0.0.1 cannot be reached, which torchrun needs; without a step: {words}")
        for way, (before, after) in DIRECTIONS.items():
            restarts = [restart_seconds(machine, case, before, after) for _ in range(machine.rounds(1, 1))]
            ratio = [ours / statistics.median(restarts) for ours in seconds[way]]
            note = f"s: estrain {statistics.median(seconds[way]):.3f}, torchrun {statistics.median(restarts):.2f}"
            how = HOW.format(before, after, rounds)
            report.figure(f"{name}: resize ({way}) over a restart", LOWER, 0.1, ratio, how, "", note)
        return words

    return measure
