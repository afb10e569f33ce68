"""Plans the faults of a run: drawn at random or read from a scenario file."""
import tomllib
from dataclasses import dataclass, field

import jobs
from faults import KINDS, PHASES, Fault

WORKER = ["worker-kill", "worker-segv", "worker-abort", "worker-stop", "worker-pause", "loader-exit", "loader-abort",
          "loader-segv", "memory-limit"]
SCRIBE = ["scribe-kill", "scribe-segv", "scribe-abort", "scribe-stop", "disk-full"]
LAUNCHER = ["launcher-kill", "launcher-segv", "launcher-abort", "launcher-pause", "all-kill", "all-pause",
            "checkpoint-truncate", "checkpoint-flip", "stop-term", "stop-int", "stop-usr1"]
AT_START = ["worker-kill", "worker-segv", "worker-abort", "worker-stop", "memory-limit-start", "scribe-kill", "scribe-abort",
            "launcher-kill", "launcher-abort", "all-kill", "all-pause", "stop-term", "stop-int"]
IN_BETWEEN = ["worker-kill", "worker-segv", "worker-abort", "worker-stop", "memory-limit-start", "scribe-kill",
              "scribe-segv", "launcher-kill", "all-kill", "stop-term", "stop-usr1", "disk-full"]  # resize and recovery
ENDS_LAUNCH = {"launcher-kill", "launcher-segv", "launcher-abort", "all-kill", "checkpoint-truncate", "checkpoint-flip",
               "stop-term", "stop-int", "stop-usr1"}
BREAKS_WORKER = ["worker-kill", "worker-segv", "worker-abort", "loader-exit"]


@dataclass
class Plan:
    name: str
    job: jobs.Job
    devices: int
    faults: list
    checkpoint_every: int = 20
    retries: int = 50
    tmpfs: bool = False  # the run directory is a small file system of its own, if mounting is permitted (campaign.py)
    causes: list = None  # expected causes of the recorded faults, in any order; None: not checked
    launches: int = 0  # expected; 0: not checked
    strict: bool = False  # every fault must fire in its phase


def draw(number, random):
    """Several faults in a run, some during the start, a resize or a recovery."""
    job = jobs.draw(random)
    plan = Plan(f"random-{number}", job, random.randint(1, 4), [], random.choice([5, 10, 20]), tmpfs=random.random() < 0.2)
    moments = sorted(random.randrange(3, job.steps * 9 // 10) for _ in range(random.randint(2, 4)))
    starts = random.random() < 0.3
    for step in moments:
        if starts:
            plan.faults.append(Fault(random.choice(AT_START), "start", 0, random.uniform(0, 0.1), "any"))
        group = faults_at(step, random)
        plan.faults += group
        starts = group[-1].kind in ENDS_LAUNCH and random.random() < 0.5
    return plan


def faults_at(step, random):
    shape = random.choices(["one", "resize", "resize+", "recovery+", "recovery+resize"], [50, 10, 20, 25, 10])[0]
    if shape == "one":
        kind = random.choice(random.choice([WORKER, WORKER, SCRIBE, LAUNCHER, LAUNCHER]))
        return [Fault(kind, random.choice(["training", "snapshot", "save"]), step, random.uniform(0, 0.05))]
    if shape == "resize":
        return [Fault("resize", "training", step, devices=random.randint(1, 4))]
    between = Fault(random.choice(IN_BETWEEN), "resize", step, random.choice([0, random.uniform(0, 0.2)]),
                    random.choice(["any", "newcomer", "survivor"]))
    if between.kind == "memory-limit-start":
        between.target = "newcomer"
    if shape == "resize+":
        devices = 4 if between.target == "newcomer" else random.randint(1, 4)
        return [Fault("resize", "training", step, devices=devices), between]
    first = Fault(random.choice(BREAKS_WORKER), "training", step)
    if shape == "recovery+resize":
        return [first, Fault("resize", "recovery", step, random.uniform(0, 0.05), devices=random.randint(1, 4))]
    between.phase = "recovery"
    return [first, between]


class BadScenario(Exception):
    pass


def read(path):
    """A scenario: see README.md here."""
    text = tomllib.loads(path.read_text())
    job, expect = dict(text.pop("job")), text.pop("expect", {})
    faults = [read_fault(path, entry) for entry in text.pop("fault")]
    text.pop("about")
    kind = job.pop("kind")
    made = jobs.Job(kind, job.pop("ests", 4), job.pop("steps", jobs.STEPS[kind]))
    plan = Plan(path.stem, made, job.pop("devices"), faults, job.pop("checkpoint_every", 20), job.pop("retries", 50),
                job.pop("tmpfs", False), expect.pop("causes", None), expect.pop("launches", 0), strict=True)
    for left in (text, job, expect):
        if left:
            raise BadScenario(f"{path}: unknown {', '.join(left)}")
    return plan


def read_fault(path, entry):
    try:
        fault = Fault(**entry)
    except TypeError as error:
        raise BadScenario(f"{path}: {error}") from None
    if fault.kind not in KINDS or fault.phase not in PHASES:
        raise BadScenario(f"{path}: no kind or phase {fault.kind}, {fault.phase}")
    return fault
