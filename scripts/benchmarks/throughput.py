"""Samples per second against PyTorch's DDP, as it comes and with a worker's malloc thresholds, and the bare loop."""

import statistics

from cases import ALL, RESNET18
from contest import contest
from figures import HIGHER, Figure, Group, Measured
from paired_rounds import ratios

PLACEMENTS = ((1, 1), (4, 1), (2, 2))  # ESTs, workers
OVER_DDP, OVER_BARE = 1.1, 0.97
# The case that DDP is slowest at: what it must be faster than DDP as it comes, by number of workers.
RESNET18_OVER_DDP = {1: 1.3, 2: 2.0}

OPPONENTS = {
    "ddp": "PyTorch DDP under torchrun (gloo)",
    "tuned ddp": "the same with the malloc thresholds of a worker in its environment",
    "bare": "a C++ LibTorch loop of forward, backward, torch::optim::SGD with the same thresholds",
}
MEASURED = (
    "samples/s of estrain over those of {opponent}, {place}, 1 thread, random data in memory; long-lived processes "
    "take turns; median of the ratios of the rounds, spread is their middle half"
)
PLACE = {
    (1, 1): "1 EST on 1 worker against 1 process",
    (4, 1): "4 ESTs on 1 worker against 1 process that accumulates 4 mini-batches",
    (2, 2): "2 ESTs on 2 workers against 2 processes (bare: side by side, exchanging nothing)",
}


def name_of(case, ests, workers, opponent):
    return f"throughput/{workers}w/{case.name}-{ests}est/{opponent.replace(' ', '-')}"


def targets(case, workers, over_ddp, over_bare):
    """Of the ratios to each opponent. Where the rule is "1.1x DDP or 0.97x the bare loop, whichever is lower", the
    lower of both is told in terms of each opponent, by this very measurement."""
    bare_by_ddp = over_ddp / over_bare  # samples/s of the bare loop over DDP's
    if workers > 1:
        lower = {"ddp": OVER_DDP, "tuned ddp": OVER_DDP, "bare": OVER_DDP / bare_by_ddp}
    else:
        by_ddp = min(OVER_DDP, OVER_BARE * bare_by_ddp)
        lower = {"ddp": by_ddp, "tuned ddp": None, "bare": min(OVER_BARE, OVER_DDP / bare_by_ddp)}
    if case is RESNET18:
        lower["ddp"] = RESNET18_OVER_DDP[workers]
    return lower


def measure(bench, case, ests, workers):
    seconds = contest(bench, case, ests, workers, bench.rounds(7, 3), bench.rounds(0.7, 0.3))
    over = {opponent: ratios(seconds[opponent], seconds["estrain"]) for opponent in OPPONENTS}
    medians = {opponent: statistics.median(values) for opponent, values in over.items()}
    target = targets(case, workers, medians["ddp"], medians["bare"])
    if target["tuned ddp"] is None:
        target["tuned ddp"] = min(OVER_DDP, OVER_BARE * medians["tuned ddp"] / medians["bare"])
    milliseconds = ", ".join(f"{name} {statistics.median(values) * 1e3:.2f}" for name, values in seconds.items())
    note = f"ms a step: {milliseconds}"
    return {
        name_of(case, ests, workers, opponent): Measured.of(over[opponent], target[opponent], note)
        for opponent in OPPONENTS
    }


def group(case, ests, workers):
    figures = tuple(
        Figure(name_of(case, ests, workers, key), HIGHER, MEASURED.format(opponent=text, place=PLACE[ests, workers]))
        for key, text in OPPONENTS.items()
    )
    return Group(figures, lambda bench: measure(bench, case, ests, workers))


def groups():
    return [group(case, ests, workers) for ests, workers in PLACEMENTS for case in ALL]
