"""Speed: against PyTorch on the same GPU, and of the portable kernels against LibTorch's."""

import statistics

from contestants import BF16, D2, Eager, Turns, all_started, cases, ratios, side_by_side
from figures import HIGHER, LOWER
from report import Skipped

D2_TARGETS = {"gpt": 1.3, "resnet18": 1.5, "resnet50": 1.5, "lenet": 1.5}
MODES = ("deterministic", "plain", "benchmark")
HOW = "same model, batch {} of the same shape, SGD with momentum, in turns of {} s side by side; median of {} rounds"


def per_second(case, seconds, ests=1):
    """Samples/s of each contestant, in numbers and in words."""
    rates = {name: round(ests * case.batch / statistics.median(taken), 1) for name, taken in seconds.items()}
    return rates, "samples/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())


def throughput(name):
    """1 EST against a plain eager loop: with deterministic algorithms, without, and with cuDNN's benchmark mode."""

    def check(machine, report):
        case, turn, rounds = cases(machine)[name], machine.rounds(0.5, 0.2), machine.rounds(5, 2)
        precisions = {"fp32": ""} | ({"bf16": BF16} if "job.precision" in machine.keys else {})
        jobs = {f"estrain {p}": lambda job=job: Turns(machine, case, job=job) for p, job in precisions.items()}
        loops = {}
        if machine.python:
            loops = {kind: lambda kind=kind: Eager(machine, case, kind == "deterministic") for kind in MODES[:2]}
        words = [] if "bf16" in precisions else ["bf16: skipped, not built"]
        with all_started(jobs | loops) as started:
            for precision in precisions:
                turns = {"estrain": lambda: started[f"estrain {precision}"].timed_turn(turn)}
                for mode in MODES if loops else ():
                    loop = started["deterministic" if mode == "deterministic" else "plain"]
                    turns[mode] = lambda loop=loop, mode=mode: loop.turn(mode, precision, turn)
                seconds = side_by_side(turns, rounds)
                rates, note = per_second(case, seconds)
                words.append(f"{precision}: {note}")
                if loops:
                    how = HOW.format(case.batch, turn, rounds)
                    compare(report, f"{name} {precision}", seconds, note, how, {"samples_per_second": rates})
        if not loops:
            raise Skipped("there is no Python with torch here; " + "; ".join(words))
        return "; ".join(words)

    return check


def compare(report, name, seconds, note, how, more):
    ours = seconds["estrain"]
    for mode, what, target in (
        ("deterministic", "samples/s over PyTorch's with deterministic algorithms", 1.05),
        ("plain", "samples/s over PyTorch's without", 1.0),
    ):
        report.figure(f"{name}: {what}", HIGHER, target, ratios(seconds[mode], ours), how, "", note, more)
    percent = [100 * (ratio - 1) for ratio in ratios(ours, seconds["benchmark"])]
    report.figure(f"{name}: D1's cost against PyTorch's benchmark mode", LOWER, 3, percent, how, " %", note, more)


def d2_over_d1(machine, report):
    """The portable kernels' step over that of LibTorch's, fp32."""
    turn, rounds, words = machine.rounds(0.5, 0.2), machine.rounds(5, 2), []
    for name, target in D2_TARGETS.items():
        case = cases(machine)[name]
        jobs = {"D2": lambda: Turns(machine, case, job=D2), "D1": lambda: Turns(machine, case)}
        with all_started(jobs) as started:
            turns = {kind: lambda job=job: job.timed_turn(turn) for kind, job in started.items()}
            seconds = side_by_side(turns, rounds)
        note = ", ".join(f"{kind} {1e3 * statistics.median(taken):.2f} ms" for kind, taken in seconds.items())
        how = HOW.format(case.batch, turn, rounds)
        report.figure(f"{name}: step at D2 over D1", LOWER, target, ratios(seconds["D2"], seconds["D1"]), how, "", note)
        words.append(f"{name}: {note}")
    return "; ".join(words)
