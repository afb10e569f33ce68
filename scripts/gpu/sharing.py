"""The cost of many ESTs on one worker: time against one EST, memory against one EST and against packed processes."""

import contextlib
import json
import statistics

from contestants import STATE_TURN, Eager, Turns, all_started, cases, ratios, side_by_side
from figures import LOWER
from paired_rounds import spread
from process_tree import memory_of, with_descendants
from report import Failed

ESTS = (1, 2, 4, 8, 16)
ROUNDS = 3
LEAST_STEPS = 10  # of a turn
PACKED = 4
BYTES_OF_FLOAT = 4
BYTES_OF_CUDA = 600 << 20  # as core/run/launch/preflight/early_checks.cpp has it
# Parameters of the models of contestants.cases.
PARAMETERS = {"resnet50": 23_528_522, "gpt": 10_844_160}
SMALL_PARAMETERS = {"resnet50": 44_426, "gpt": 34_688}
HOW_SWITCHING = (
    "time of a step of k ESTs on one worker over k steps of a job with one EST, minus 1; k ESTs update once, so that "
    "this may be below 0; turns of {} s, or of 10 steps if they take longer; median of {} rounds side by side"
)
HOW_IN_HOST = (
    "time of a step of one EST with job.state = \"host\" over one without; turns of {} s, or of 10 steps if they take "
    "longer; {} rounds side by side"
)
HOW_MEMORY = "memory of the GPU taken (nvidia-smi) with 16 ESTs less that with 1, in copies of the gradient"
HOW_FORETOLD = (
    "memory of the GPU taken (nvidia-smi) with 1 to 16 ESTs over what `estrain check` foretells from a mini-batch on the "
    "CPU, CUDA's own memory included"
)
HOW_PACKED = f"memory of the GPU taken by 16 ESTs on one worker over that of {PACKED} processes of PyTorch side by side"


def switching(name):
    def check(machine, report):
        turn, rounds, case = machine.rounds(STATE_TURN, 0.2), machine.rounds(ROUNDS, 2), cases(machine)[name]
        jobs = {k: lambda k=k: Turns(machine, case, k) for k in ESTS}
        # The same mini-batches in all of them: the first finds the algorithms of all.
        with all_started({1: jobs.pop(1)}, jobs) as started:
            turns = {k: job.timed_turn for k, job in started.items()}
            least = {k: LEAST_STEPS * statistics.median(job.step_seconds()) for k, job in started.items()}
            seconds = side_by_side(turns, rounds, {k: max(turn, least[k]) for k in turns})
        medians = {k: 1e3 * statistics.median(taken) for k, taken in seconds.items()}
        further = (medians[16] - medians[8]) / 8
        note = "ms a mini-batch: " + ", ".join(f"{k} ESTs {ms / k:.3f}" for k, ms in medians.items())
        note += f"; each beyond the eighth {further:.3f}"
        for k in ESTS[1:]:
            percent = [100 * (ratio / k - 1) for ratio in ratios(seconds[k], seconds[1])]
            low, high = spread(percent)
            told = f"spread {high - low:.2f} beside the target's 0.5; {note}"
            how = HOW_SWITCHING.format(turn, rounds)
            report.figure(f"{name}: {k} ESTs, cost of switching", LOWER, 0.5, percent, how, " %", told)
        return note

    return check


def slots_in_host(name):
    def check(machine, report):
        turn, rounds, case = machine.rounds(STATE_TURN, 0.2), machine.rounds(ROUNDS, 2), cases(machine)[name]
        places = {"device": (), "host": ("--set", "job.state=host")}
        jobs = {place: lambda more=more: Turns(machine, case, options=more) for place, more in places.items()}
        with all_started({"device": jobs.pop("device")}, jobs) as started:
            turns = {place: job.timed_turn for place, job in started.items()}
            least = {place: LEAST_STEPS * statistics.median(job.step_seconds()) for place, job in started.items()}
            seconds = side_by_side(turns, rounds, {place: max(turn, least[place]) for place in turns})
        over = ratios(seconds["host"], seconds["device"])
        report.figure(f"{name}: slots in host memory", LOWER, 2, over, HOW_IN_HOST.format(turn, rounds))
        return f"time of a step over that with slots on the GPU: {statistics.median(over):.3f}"

    return check


class Scale:
    """Bytes of GPU memory taken since it was made; in a dry run those of the processes."""

    def __init__(self, machine):
        self.machine = machine
        self.before = 0 if machine.dry_run else machine.memory_used()

    def weigh(self, processes):
        if self.machine.dry_run:
            return memory_of([pid for process in processes for pid in with_descendants(process.pid)])
        return self.machine.memory_used() - self.before


def memory(machine, report):
    parameters, words = SMALL_PARAMETERS if machine.dry_run else PARAMETERS, []
    for name in ("resnet50", "gpt"):
        case, scale = cases(machine)[name], Scale(machine)
        taken = {}
        # A job that measures algorithms keeps memory of the trials: the first one is not weighed.
        with all_started({"job": lambda: Turns(machine, case)}):
            pass
        over = []
        for ests in ESTS:
            with all_started({"job": lambda ests=ests: Turns(machine, case, ests)}) as started:
                taken[f"{ests} ESTs"] = scale.weigh([started["job"].process])
            over.append(taken[f"{ests} ESTs"] / foretold(machine, case, ests))
        gradient = BYTES_OF_FLOAT * parameters[name]
        copies = (taken["16 ESTs"] - taken["1 ESTs"]) / gradient
        report.figure(f"{name}: memory over what was foretold", LOWER, 1.1, over, HOW_FORETOLD)
        if machine.python:
            taken |= packed(machine, case, scale)
        note = "MB: " + ", ".join(f"{what} {taken_bytes / 1e6:.0f}" for what, taken_bytes in taken.items())
        report.figure(f"{name}: memory of 16 ESTs beyond 1", LOWER, 4, [copies], HOW_MEMORY, " copies", note)
        if machine.python:
            over = taken["16 ESTs"] / taken[f"{PACKED} processes"]
            report.figure(f"{name}: 16 ESTs over {PACKED} packed processes", LOWER, 1, [over], HOW_PACKED, "", note)
        words.append(f"{name}: {note}")
        report.found(words[-1])
    return "; ".join(words)


def foretold(machine, case, ests):
    """Bytes of one GPU."""
    spec = case.spec(machine.new_folder(f"{case.name}-foretold"), ests, 1)
    words = ("check", spec, "--devices", "cpu", "--gpu-memory", "80", "--json")
    code, text = machine.call(*words, seconds=machine.patience(60))
    if code:
        raise Failed(f"{' '.join(map(str, words))}: exit code {code}\n{text}")
    return json.loads(text)["gpu_bytes"][0] + BYTES_OF_CUDA


def packed(machine, case, scale):
    """{"k processes": bytes} of plain PyTorch loops side by side, as their number grows."""
    taken = {}
    with contextlib.ExitStack() as stack:
        loops = []
        for count in (1, PACKED):
            more = [stack.enter_context(Eager(machine, case, "deterministic")) for _ in range(count - len(loops))]
            for loop in more:
                loop.get_ready()
            for loop in more:
                loop.turn("fp32", 0.1)
            loops += more
            taken[f"{count} process" + "es" * (count > 1)] = scale.weigh([loop.process for loop in loops])
    return taken
