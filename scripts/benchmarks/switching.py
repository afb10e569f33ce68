"""The extra cost of a mini-batch on a worker that hosts k ESTs, against a loop that accumulates k mini-batches."""

import statistics

from cases import GPT, RESNET18
from contest import contest, contest_seconds
from figures import LOWER, Figure, Group, Measured
from paired_rounds import median_interval, ratios

ESTS = (1, 2, 4, 8, 16)
ROUNDS, TURN = (13, 5), (0.5, 0.3)  # of a full run, of a quick one
OPPONENTS = ("bare",)
HOW = (
    "time of a mini-batch of k ESTs on 1 worker, update included, over that of k mini-batches accumulated in the bare "
    "LibTorch loop with a worker's malloc settings, minus 1, in percent; upper end of the 90 % interval of the median of the paired rounds, spread is "
    "the interval"
)


def name_of(case, ests):
    return f"switching/{case.model}/{ests}-est"


def measure(bench, case, ests):
    seconds = contest(bench, case, ests, 1, bench.rounds(*ROUNDS), bench.duration(*TURN), OPPONENTS)
    percent = [100 * (ratio - 1) for ratio in ratios(seconds["estrain"], seconds["bare"])]
    low, high = median_interval(percent) or (min(percent), max(percent))
    note = ", ".join(f"{name} {statistics.median(values) * 1e3 / ests:.3f}" for name, values in seconds.items())
    note = f"median {statistics.median(percent):+.2f} %; ms a mini-batch: {note}"
    return {name_of(case, ests): Measured(high, low, high, note=note)}


def group(case, ests):
    figure = Figure(name_of(case, ests), LOWER, HOW, target=1.0, unit=" %")
    return Group(
        (figure,),
        lambda bench: measure(bench, case, ests),
        lambda bench: contest_seconds(bench.rounds(*ROUNDS), bench.duration(*TURN), OPPONENTS),
    )


def groups():
    return [group(case, ests) for case in (RESNET18, GPT) for ests in ESTS]
