"""Samples per second against PyTorch's DDP, as it comes and with a worker's malloc settings, and the bare loop."""

import statistics

from cases import ALL, RESNET18
from contest import contest, contest_seconds
from figures import HIGHER, Figure, Group, Measured
from paired_rounds import ratios

PLACEMENTS = ((1, 1), (4, 1), (2, 2))  # ESTs, workers
ROUNDS, TURN = (7, 3), (0.7, 0.3)  # of a full run, of a quick one

# By number of workers. Two bare loops side by side exchange nothing, so their target leaves a tenth for the exchange.
TARGETS = {"ddp": {1: 1.1, 2: 1.1}, "tuned ddp": {1: 1.0, 2: 1.1}, "bare": {1: 0.97, 2: 0.9}}
RESNET18_OVER_DDP = {1: 1.3, 2: 2.0}  # the case that DDP as it comes is slowest at

OPPONENTS = {
    "ddp": "PyTorch DDP under torchrun (gloo), as it comes",
    "tuned ddp": "PyTorch DDP under torchrun (gloo) with a worker's malloc settings in its environment",
    "bare": "a C++ LibTorch loop of forward, backward, torch::optim::SGD, with a worker's malloc settings",
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


def target(case, workers, opponent):
    if case is RESNET18 and opponent == "ddp":
        return RESNET18_OVER_DDP[workers]
    return TARGETS[opponent][workers]


def measure(bench, case, ests, workers):
    seconds = contest(bench, case, ests, workers, bench.rounds(*ROUNDS), bench.duration(*TURN))
    milliseconds = ", ".join(f"{name} {statistics.median(values) * 1e3:.2f}" for name, values in seconds.items())
    note = f"ms a step: {milliseconds}"
    return {
        name_of(case, ests, workers, opponent): Measured.of(ratios(seconds[opponent], seconds["estrain"]), note)
        for opponent in OPPONENTS
    }


def figure(case, ests, workers, opponent):
    how = MEASURED.format(opponent=OPPONENTS[opponent], place=PLACE[ests, workers])
    return Figure(name_of(case, ests, workers, opponent), HIGHER, how, target(case, workers, opponent))


def group(case, ests, workers):
    return Group(
        tuple(figure(case, ests, workers, opponent) for opponent in OPPONENTS),
        lambda bench: measure(bench, case, ests, workers),
        lambda bench: contest_seconds(bench.rounds(*ROUNDS), bench.duration(*TURN)),
    )


def groups():
    return [group(case, ests, workers) for ests, workers in PLACEMENTS for case in ALL]
