"""Whether the planner's estimates hold: every split of 8 ESTs over one and two devices, estimated by `estrain plan` from
profiles of seconds, against what a job really does on it; and whether the plan that it chooses is the one that turns out
to be the best. Profiles and splits take turns, round after round: a machine's own speed changes from minute to minute. How
much it does is told too, by measuring the same splits again."""

import contextlib
import itertools
import json
import math
import os
import statistics
import subprocess
from pathlib import Path

from cases import GPT, RESNET18, lenet
from estrain_job import EstrainJob
from figures import HIGHER, LOWER, Figure, Group, Measured
from process_tree import wait_until

ESTS = 8
# The kinds of CPUs that this machine's processor can stand for.
KINDS = ("cpu:avx2", "cpu:sse")
if "avx512vl" in Path("/proc/cpuinfo").read_text():
    KINDS = ("cpu:avx512", *KINDS)
CASES = (lenet(32), RESNET18, GPT)
COLD_STEPS = 2  # of each stage, not counted
LEAST_STEPS = 4  # that are
ROUNDS, PROFILE, TURN = (3, 1), (2, 1), (1, 0.5)  # of a full run, of a quick one; the latter two are seconds
NEAR_BEST = 0.97
LEVEL = 'determinism = "D2"'  # so that kinds may be mixed
FEW = "[checkpoint]\nkeep = 1\n"

HOW_ERROR = (
    "estimated over measured throughput, how far from 1, in %, {}: every split of 8 ESTs over 1 and 2 devices of "
    + ", ".join(KINDS)
    + " (all pairs), D2; the estimates are made from profiles of 2 s per set of devices, before any split is run; medians of "
    "rounds in which profiles and splits take turns"
)
HOW_REPEAT = "a split's throughput over that of the same split in another round, how far from 1, in %: the median of them"
HOW_CHOICE = (
    "share of the pairs of devices for which the plan that `estrain plan` chooses is measured to be the best of all its "
    "splits, or within 3 % of it"
)


def kinds_of(split):
    return sorted({kind for kind, _ in split})


def device_list(split):
    return ",".join(f"{kind}={ests}" for kind, ests in split)


def as_split(plan):
    return tuple(sorted(zip(plan["kinds"], plan["ests"])))


def pair_splits(pair):
    """Each split over both devices, once; the order of workers says nothing: 8 ESTs are cut alike from either end."""
    splits = {tuple(sorted(((pair[0], ests), (pair[1], ESTS - ests)))) for ests in range(1, ESTS)}
    return sorted(splits)


class Planner:
    """`estrain plan` of one job, with a database of its own."""

    def __init__(self, bench, case, database, seconds):
        self.bench, self.seconds = bench, seconds
        self.spec = case.spec(bench.new_folder(), ESTS, 10, FEW, LEVEL + "\n")
        self.environment = os.environ | {"ESTRAIN_PROFILES": str(database)}

    def plans(self, devices, profile):
        command = [self.bench.estrain, "plan", self.spec, "--devices", devices, "--profile", profile, "--json"]
        command += ["--seconds", str(self.seconds)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
        return json.loads(done.stdout)["plans"]

    def measure(self):
        self.plans(",".join(kind for kind in KINDS for _ in range(2)), "always")

    def step_seconds(self, split):
        return next(p["step_seconds"] for p in self.plans(device_list(split), "never") if p["given"])

    def choice(self, pair):
        return as_split(next(p for p in self.plans(",".join(pair), "never") if p["best"]))


def wait_for_checkpoint(job, step):
    """Waits until the scribe has written the checkpoint of a resize: that takes time from the workers, and is no part of
    steady training."""
    saved = lambda: any(event["step"] == step for event in job.events("checkpoint"))
    wait_until(saved, f"checkpoint of step {step}", process=job.process)


def stage_seconds(job, begin, turn):
    """The median step, from `begin` on, of about `turn` seconds."""
    first = begin + COLD_STEPS
    job.wait_for_step(first + LEAST_STEPS)
    seconds = job.step_seconds_by_number()
    step = statistics.median(seconds[n] for n in range(first + 1, first + LEAST_STEPS + 1))
    last = max(first + LEAST_STEPS, first + math.ceil(turn / step))
    job.wait_for_step(last)
    seconds = job.step_seconds_by_number()
    return statistics.median(seconds[n] for n in range(first + 1, last + 1))


def newest_step(job):
    return max(job.step_seconds_by_number(), default=0)


def measure_splits(bench, case, splits, turn, results):
    """Seconds of a step of each split: one job that is resized from one to the next."""
    with EstrainJob(bench, case, ESTS, device_list(splits[0]), sections=FEW, job=LEVEL + "\n") as job:
        job.wait_for_step(COLD_STEPS)
        wait_for_checkpoint(job, 0)
        results[splits[0]] = stage_seconds(job, newest_step(job), turn)
        for split in splits[1:]:
            step = job.resize(device_list(split))["step"]
            wait_for_checkpoint(job, step)
            results[split] = stage_seconds(job, max(step, newest_step(job)), turn)


def measure_round(bench, case, pairs, turn):
    """{split: seconds of a step}"""
    results = {}
    for split in [((kind, ESTS),) for kind in KINDS]:
        measure_splits(bench, case, [split], turn, results)
    for pair in pairs:
        measure_splits(bench, case, pair_splits(pair), turn, results)
    return results


@contextlib.contextmanager
def database_of(bench):
    """Jobs under measurement leave the user's profiles alone."""
    before = os.environ.get("ESTRAIN_PROFILES")
    path = bench.new_folder() / "profiles.json"
    os.environ["ESTRAIN_PROFILES"] = str(path.with_name("jobs.json"))
    try:
        yield path
    finally:
        if before is None:
            del os.environ["ESTRAIN_PROFILES"]
        else:
            os.environ["ESTRAIN_PROFILES"] = before


def name_of(case, what):
    return f"plan/{case.model}/{what}"


def off(estimated, measured):
    """Percent by which an estimate of throughput is off. Throughput is the reciprocal of the time of a step."""
    return 100 * abs(measured / estimated - 1)


def chosen_over_best(choice, pair, measured):
    splits = pair_splits(pair) + [((kind, ESTS),) for kind in pair]
    return min(measured[split] for split in splits) / measured[choice]


def measure(bench, case):
    pairs = list(itertools.combinations_with_replacement(KINDS, 2))
    if bench.quick:
        pairs = pairs[1:2]
    estimates, measurements, picked = [], [], []
    for _ in range(bench.rounds(*ROUNDS)):
        with database_of(bench) as database:
            planner = Planner(bench, case, database, bench.duration(*PROFILE))
            planner.measure()
            measurements.append(measure_round(bench, case, pairs, bench.duration(*TURN)))
            estimates.append({split: planner.step_seconds(split) for split in measurements[-1]})
            picked.append({pair: planner.choice(pair) for pair in pairs})
    estimated, measured = medians(estimates), medians(measurements)
    errors = {split: off(estimated[split], measured[split]) for split in measured}
    worst = max(errors, key=errors.get)
    choices = [(pair, choice[pair]) for choice in picked for pair in pairs]
    quotients = [(chosen_over_best(choice, pair, measured), pair) for pair, choice in choices]
    good = [quotient for quotient, _ in quotients if quotient >= NEAR_BEST]
    least, of = min(quotients)
    again = [off(one[split], other[split]) for one, other in itertools.combinations(measurements, 2) for split in one]
    note = f"{device_list(worst)}: estimated {1e3 * estimated[worst]:.2f} ms, measured {1e3 * measured[worst]:.2f} ms"
    told = f"{len(good)} of {len(choices)}; the least, {'+'.join(of)}: {least:.3f} of the best"
    share = len(good) / len(choices)
    write_details(bench.build / f"plan-{case.model}.json", estimates, measurements, choices)
    return {
        name_of(case, "error-median"): Measured.of(list(errors.values()), note=f"{len(errors)} splits"),
        name_of(case, "error-worst"): Measured(errors[worst], errors[worst], errors[worst], note=note),
        name_of(case, "repeat"): Measured.of(again or [0], note=f"worst {max(again, default=0):.0f} %"),
        name_of(case, "choice"): Measured(share, share, share, note=told),
    }


def medians(rounds):
    return {split: statistics.median(each[split] for each in rounds) for split in rounds[0]}


def write_details(path, estimates, measurements, choices):
    """All that is behind the figures, for who wants to know why."""
    splits = {
        device_list(split): {"estimated": [each[split] for each in estimates], "measured": [m[split] for m in measurements]}
        for split in measurements[0]
    }
    chosen = [["+".join(pair), device_list(choice)] for pair, choice in choices]
    path.write_text(json.dumps({"step_seconds": splits, "choices": chosen}, indent=1) + "\n")


def group(case):
    figures = (
        Figure(name_of(case, "error-median"), LOWER, HOW_ERROR.format("the median"), target=5, unit=" %"),
        Figure(name_of(case, "error-worst"), LOWER, HOW_ERROR.format("the worst"), target=15, unit=" %"),
        Figure(name_of(case, "repeat"), LOWER, HOW_REPEAT, target=5, unit=" %"),
        Figure(name_of(case, "choice"), HIGHER, HOW_CHOICE, target=0.95),
    )
    return Group(figures, lambda bench: measure(bench, case), about)


def about(bench):
    splits = 10 if bench.quick else 45  # two workers, or one; each with a job or a resize of its own
    profiles = 9 * bench.duration(*PROFILE)
    return bench.rounds(*ROUNDS) * (profiles + splits * (2 + bench.duration(*TURN)))


def groups():
    return [group(case) for case in CASES]
