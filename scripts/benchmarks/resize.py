"""The cost of changing the number of workers, against torchrun that restarts from a checkpoint."""

import statistics

from cases import GPT, RESNET18
from estrain_job import EstrainJob
from figures import LOWER, Figure, Group, Measured
from torch_ddp import TorchDdp

ESTS = 4
STEPS_BEFORE = 16  # a resize: they tell how long a step takes
STEPS_AFTER = 6
ROUNDS = (4, 1)
MOST_STILL = {"shrink": 0.1, "grow": 0.3}  # seconds
WORKERS = {"shrink": (2, 1), "grow": (1, 2)}
BOTH_WAYS = "; the greater of what estrain says and what the times of the steps around it show"
HOW_STILL = (
    "seconds without a step when a running job with 4 ESTs goes from {} to {} workers" + BOTH_WAYS
    + "; median, spread is the middle half"
)
HOW_COST = (
    "seconds without a step plus throughput lost while warming (in seconds) when a running job with 4 ESTs goes from "
    "{} to {} workers" + BOTH_WAYS + ", over those of torchrun from the last step of a DDP job, through torch.save, "
    "start and torch.load, to the first step with the other number of ranks; alternating, median"
)


def cost_by_step_times(steps, resized, warming):
    """(seconds without a step, seconds lost in the `warming` seconds before it) of a resize after step `resized`."""
    after = statistics.median(steps[number] for number in range(resized + 2, resized + STEPS_AFTER))
    still = steps[resized + 1] - after
    number, spent = resized, 0.0
    while spent < warming and number in steps:
        spent += steps[number]
        number -= 1
    before = statistics.median(steps[n] for n in range(number - STEPS_BEFORE // 2, number + 1) if n in steps)
    return still, spent - (resized - number) * before


def resize_once(job, workers):
    """Resizes the running job. Returns (seconds without a step, seconds lost while warming)."""
    done = job.resize(str(workers))
    job.wait_for_step(done["step"] + STEPS_BEFORE)
    still, lost = cost_by_step_times(job.step_seconds_by_number(), done["step"], done["warming_seconds"])
    return max(still, done["stood_still_seconds"]), max(lost, done["lost_while_warming_seconds"])


def restart_seconds(bench, case, before, after):
    """From the last step of a DDP job to the beginning of the first one after torchrun has restarted it."""
    checkpoint = bench.new_folder() / "checkpoint.pt"
    with TorchDdp(bench, case, before) as old:
        old.wait_until_ready()
        old.run(1, 2)
        last = max(old.order(("save and leave", str(checkpoint))))
        old.process.wait()
    with TorchDdp(bench, case, after, options=("--load", str(checkpoint))) as new:
        new.wait_until_ready()
        began = min(begin for begin, _ in new.order(("first step",)))
    return began - last


def name_of(case, direction, what):
    return f"resize/{case.model}/{direction}/{what}"


def measure(bench, case):
    still, cost = {"shrink": [], "grow": []}, {"shrink": [], "grow": []}
    restart = {"shrink": [], "grow": []}
    for _ in range(bench.rounds(*ROUNDS)):
        with EstrainJob(bench, case, ESTS, "2") as job:
            job.wait_for_step(STEPS_BEFORE)
            for direction, (_, after) in WORKERS.items():
                seconds, lost = resize_once(job, after)
                still[direction].append(seconds)
                cost[direction].append(seconds + lost)
        for direction, (before, after) in WORKERS.items():
            restart[direction].append(restart_seconds(bench, case, before, after))
    results = {}
    for direction in WORKERS:
        over = [ours / theirs for ours, theirs in zip(cost[direction], restart[direction])]
        ours, theirs = statistics.median(cost[direction]), statistics.median(restart[direction])
        note = f"seconds: estrain {ours:.3f}, torchrun {theirs:.2f}"
        results[name_of(case, direction, "cost")] = Measured.of(over, note=note)
        note = f"worst {max(still[direction]):.3f}"
        results[name_of(case, direction, "still")] = Measured.of(still[direction], note=note)
    return results


def group(case):
    figures = []
    for direction, workers in WORKERS.items():
        figures.append(Figure(name_of(case, direction, "cost"), LOWER, HOW_COST.format(*workers), target=0.1))
        figures.append(
            Figure(name_of(case, direction, "still"), LOWER, HOW_STILL.format(*workers), MOST_STILL[direction], " s")
        )
    return Group(tuple(figures), lambda bench: measure(bench, case), lambda bench: 40 * bench.rounds(*ROUNDS))


def groups():
    return [group(case) for case in (RESNET18, GPT)]
