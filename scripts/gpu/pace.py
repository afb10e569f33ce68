"""Speed: against PyTorch on the same GPU, and of the portable kernels against LibTorch's."""

import statistics

from contestants import BF16, D2, STATE_TURN, Eager, Turns, all_started, cases, ratios, side_by_side
from figures import HIGHER, LOWER
from report import Skipped

D2_TARGETS = {"gpt": 1.3, "resnet18": 1.5, "resnet50": 1.5, "lenet": 1.5}
MODES = ("deterministic", "plain", "benchmark")
GRAPHS = 'cuda_graphs = "auto"\n'
ROUNDS = 3
EAGER_TURN = 1.0
HOW = "same model, batch {} of the same shape, SGD with momentum, in turns of {} s side by side; median of {} rounds"
HOW_GRAPHS = "time of a step without CUDA graphs over that with job.cuda_graphs, in turns of {} s; median of {} rounds"


def per_second(case, seconds, ests=1):
    """Samples/s of each contestant, in numbers and in words."""
    rates = {name: round(ests * case.batch / statistics.median(taken), 1) for name, taken in seconds.items()}
    return rates, "samples/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())


def throughput(name):
    """1 EST against a plain eager loop: with deterministic algorithms, without, and with cuDNN's benchmark mode; and
    with CUDA graphs against without."""

    def check(machine, report):
        case, rounds = cases(machine)[name], machine.rounds(ROUNDS, 2)
        turn, eager_turn = machine.rounds(STATE_TURN, 0.2), machine.rounds(EAGER_TURN, 0.2)
        precisions = {"fp32": "", "bf16": BF16}
        jobs = {f"estrain {p}": lambda job=job: Turns(machine, case, job=job) for p, job in precisions.items()}
        others = {
            f"graphs {p}": lambda job=job: Turns(machine, case, job=job + GRAPHS) for p, job in precisions.items()
        }
        loops = MODES if machine.python else ()
        others |= {mode: lambda mode=mode: Eager(machine, case, mode) for mode in loops}
        words = []
        with all_started(jobs, others) as started:
            for precision in precisions:
                turns = {kind: started[f"{kind} {precision}"].timed_turn for kind in ("estrain", "graphs")}
                for mode in loops:
                    turns[mode] = lambda seconds, mode=mode: started[mode].turn(precision, seconds)
                lengths = {kind: eager_turn if kind in loops else turn for kind in turns}
                seconds = side_by_side(turns, rounds, lengths)
                rates, note = per_second(case, seconds)
                note = "; ".join([note, *(one for mode in loops for one in started[mode].notes)])
                words.append(f"{precision}: {note}")
                report.found(words[-1])
                more = {"samples_per_second": rates}
                over = ratios(seconds["estrain"], seconds["graphs"])
                how = HOW_GRAPHS.format(turn, rounds)
                report.figure(f"{name} {precision}: CUDA graphs over none", HIGHER, 1.0, over, how, "", note, more)
                if loops:
                    how = HOW.format(case.batch, f"{turn} and {eager_turn}", rounds)
                    compare(report, f"{name} {precision}", seconds, note, how, more)
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


def d2_over_d1(*names):
    """The portable kernels' step over that of LibTorch's, fp32."""

    def check(machine, report):
        turn, rounds, words = machine.rounds(STATE_TURN, 0.2), machine.rounds(ROUNDS, 2), []
        for name in names:
            case = cases(machine)[name]
            jobs = {"D1": lambda: Turns(machine, case), "D2": lambda: Turns(machine, case, job=D2)}
            with all_started(jobs) as started:
                turns = {kind: job.timed_turn for kind, job in started.items()}
                seconds = side_by_side(turns, rounds, dict.fromkeys(turns, turn))
            note = ", ".join(f"{kind} {1e3 * statistics.median(taken):.2f} ms" for kind, taken in seconds.items())
            over, how = ratios(seconds["D2"], seconds["D1"]), HOW.format(case.batch, turn, rounds)
            report.figure(f"{name}: step at D2 over D1", LOWER, D2_TARGETS[name], over, how, "", note)
            words.append(f"{name}: {note}")
        return "; ".join(words)

    return check
