"""Speed: against PyTorch on the same GPU, and of the portable kernels against LibTorch's."""

import statistics

from contestants import BF16, D2, STATE_TURN, Eager, Turns, all_started, cases, ratios, side_by_side
from figures import HIGHER, LOWER
from report import Skipped, each_by_itself

D2_TARGETS = {"gpt": 1.3, "resnet18": 1.5, "resnet50": 1.5, "lenet": 1.5}
MODES = ("deterministic", "plain", "benchmark")
# The fastest ways of training with PyTorch: with deterministic algorithms, without, and compiled.
FAST = "benchmark+channels_last+fused"
STRONG_MODES = {"deterministic": f"deterministic+{FAST}", "eager": FAST, "compiled": f"{FAST}+compiled"}
GRAPHS_OF = ("gpt", "resnet18")  # whose graphs are timed, in fp32
GRAPHS = 'cuda_graphs = "auto"\n'
ROUNDS, GRAPH_ROUNDS, D2_ROUNDS = 3, 2, 2
EAGER_TURN = 1.0
HOW = "same model, batch {} of the same shape, SGD with momentum, in turns of {} s side by side; median of {} rounds"
HOW_GRAPHS = "time of a step without CUDA graphs over that with job.cuda_graphs, in turns of {} s; median of {} rounds"


def per_second(case, seconds, ests=1):
    """Samples/s of each contestant, in numbers and in words."""
    rates = {name: round(ests * case.batch / statistics.median(taken), 1) for name, taken in seconds.items()}
    return rates, "samples/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())


def throughput(name):
    """1 EST against a plain eager loop: with deterministic algorithms, without, and with cuDNN's benchmark mode; and of
    some models with CUDA graphs against without."""

    def check(machine, report):
        case, rounds = cases(machine)[name], machine.rounds(ROUNDS, 2)
        turn, eager_turn = machine.rounds(STATE_TURN, 0.2), machine.rounds(EAGER_TURN, 0.2)
        loops, words = MODES if machine.python else (), []

        def side(precision, job, loops_started):
            """Without graphs beside the loops, then beside a job with graphs: what fails there takes nothing along."""
            with all_started({"estrain": lambda: Turns(machine, case, job=job)}) as started:
                turns = {"estrain": started["estrain"].timed_turn}
                for mode, loop in loops_started.items():
                    turns[mode] = lambda seconds, loop=loop: loop.turn(precision, seconds)
                seconds = side_by_side(turns, rounds, {kind: eager_turn if kind in loops else turn for kind in turns})
                rates, note = per_second(case, seconds)
                note = "; ".join([note, *(one for loop in loops_started.values() for one in loop.notes)])
                words.append(f"{precision}: {note}")
                report.found(words[-1])
                if loops:
                    how = HOW.format(case.batch, f"{turn} and {eager_turn}", rounds)
                    strict = not loops_started["deterministic"].notes
                    compare(report, f"{name} {precision}", seconds, note, how, {"samples_per_second": rates}, strict)
                if name not in GRAPHS_OF or precision != "fp32":
                    return
                with all_started({"graphs": lambda: Turns(machine, case, job=job + GRAPHS)}) as more:
                    turns = {"estrain": started["estrain"].timed_turn, "graphs": more["graphs"].timed_turn}
                    seconds = side_by_side(turns, GRAPH_ROUNDS, dict.fromkeys(turns, turn))
            rates, note = per_second(case, seconds)
            over, how = ratios(seconds["estrain"], seconds["graphs"]), HOW_GRAPHS.format(turn, GRAPH_ROUNDS)
            more = {"samples_per_second": rates}
            report.figure(f"{name} {precision}: CUDA graphs over none", HIGHER, 1.0, over, how, "", note, more)

        with all_started({}, {mode: lambda mode=mode: Eager(machine, case, mode) for mode in loops}) as loops_started:
            jobs = {"fp32": "", "bf16": BF16}
            told = each_by_itself({p: lambda p=p: side(p, jobs[p], loops_started) for p in jobs}, words)
        if not loops:
            raise Skipped("there is no Python with torch here; " + told)
        return told

    return check


def compare(report, name, seconds, note, how, more, strict):
    """`strict`: all that PyTorch computes with has a deterministic form."""
    ours, where = seconds["estrain"], "" if strict else " where it has them"
    for mode, what, target in (
        ("deterministic", f"samples/s over PyTorch's with deterministic algorithms{where}", 1.05),
        ("plain", "samples/s over PyTorch's without", 1.0),
    ):
        report.figure(f"{name}: {what}", HIGHER, target, ratios(seconds[mode], ours), how, "", note, more)
    percent = [100 * (ratio - 1) for ratio in ratios(ours, seconds["benchmark"])]
    report.figure(f"{name}: D1's cost against PyTorch's benchmark mode", LOWER, 3, percent, how, " %", note, more)


def baselines(name):
    """1 EST in bf16 against the fastest ways of PyTorch, of a network that keeps the GPU busy."""

    def check(machine, report):
        if not machine.python:
            raise Skipped("there is no Python with torch here")
        case, rounds = cases(machine)[name], machine.rounds(ROUNDS, 2)
        turn, eager_turn = machine.rounds(STATE_TURN, 0.2), machine.rounds(2 * EAGER_TURN, 0.2)
        loops = {kind: lambda mode=mode: Eager(machine, case, mode) for kind, mode in STRONG_MODES.items()}
        with all_started({"estrain": lambda: Turns(machine, case, job=BF16)}, loops) as started:
            ours, notes = started.pop("estrain"), []
            turns = {kind: lambda seconds, loop=loop: loop.turn("bf16", seconds) for kind, loop in started.items()}
            seconds = side_by_side(turns | {"estrain": ours.timed_turn}, rounds,
                                   dict.fromkeys(turns, eager_turn) | {"estrain": turn})  # fmt: skip
            notes = [note for loop in started.values() for note in loop.notes]
        rates, note = per_second(case, seconds)
        how, more = HOW.format(case.batch, f"{turn} and {eager_turn}", rounds), {"samples_per_second": rates}
        for kind, mode in STRONG_MODES.items():
            over = ratios(seconds[kind], seconds["estrain"])
            figure = f"{name} bf16: samples/s over PyTorch's, {mode.replace('+', ', ')}"
            report.figure(figure, HIGHER, 1.0, over, how, "", "; ".join([note, *notes]), more)
        return note

    return check


def d2_over_d1(*names):
    """The portable kernels' step over that of LibTorch's, fp32."""

    def check(machine, report):
        turn, rounds, words = machine.rounds(STATE_TURN, 0.2), D2_ROUNDS, []

        def side(name):
            case = cases(machine)[name]
            jobs = {"D1": lambda: Turns(machine, case), "D2": lambda: Turns(machine, case, job=D2)}
            with all_started(jobs) as started:
                turns = {kind: job.timed_turn for kind, job in started.items()}
                seconds = side_by_side(turns, rounds, dict.fromkeys(turns, turn))
            note = ", ".join(f"{kind} {1e3 * statistics.median(taken):.2f} ms" for kind, taken in seconds.items())
            over, how = ratios(seconds["D2"], seconds["D1"]), HOW.format(case.batch, turn, rounds)
            report.figure(f"{name}: step at D2 over D1", LOWER, D2_TARGETS[name], over, how, "", note)
            words.append(f"{name}: {note}")

        return each_by_itself({name: lambda name=name: side(name) for name in names}, words)

    return check
