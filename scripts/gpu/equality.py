"""Bits: whatever devices a job runs on, and whatever happens to it."""

import shutil
import subprocess
import time

from jobs import GPT, SMALL_GPT, Model, Run, adamw, compare
from report import Failed, Skipped

ESTS = 8
MOST_STEPS = 20_000
D2_STEPS = 100
CPU_SECONDS = 90  # for the CPU's run at D2, when the GPU's is done
PRECISION_STEPS = 20
NOT_CAPTURED = "mini-batches are not captured as CUDA graphs"
NOT_LOCKED = "are not page-locked"
NOT_BUILT = "no portable kernels for CUDA"


def models(machine):
    if machine.dry_run:
        tiny = {"shape": (1, 28, 28), "batch": 2}
        return {
            "lenet": Model("lenet", **tiny), "resnet18": Model("lenet", **tiny), "resnet50": Model("lenet", **tiny),
            "vgg19": Model("lenet", **tiny), "gpt": Model("gpt", 2, options=SMALL_GPT, optimizer=adamw()),
        }  # fmt: skip
    return {
        "lenet": Model("lenet", 16, (1, 28, 28)),
        "resnet18": Model("resnet18", 8, (3, 32, 32)),
        "resnet50": Model("resnet50", 4, (3, 64, 64)),
        "vgg19": Model("vgg19", 4, (3, 32, 32), short_steps=3),  # 140 million parameters
        "gpt": Model("gpt", 8, options=GPT, optimizer=adamw()),
    }


def starts(machine, _):
    folder = machine.new_folder("start")
    begin = time.monotonic()
    with Run(machine, models(machine)["lenet"], folder, 2, 3, machine.devices(1)) as run:
        run.wait_for_step(1, 240)
        first = time.monotonic() - begin
        run.finish()
    run.require_unsaid(NOT_LOCKED)
    return f"first step after {first:.1f} s; the next start has warm files"


def refuses_missing_gpu(machine, _):
    if machine.dry_run:
        raise Skipped("needs a GPU")
    folder = machine.new_folder("refusal")
    with Run(machine, models(machine)["lenet"], folder, 2, 3, "cuda:99") as run:
        code = run.process.wait(60)
    if code != 1 or "there is no cuda:99" not in run.words():
        raise Failed(f"cuda:99: exit code {code}\n{run.words()}")
    faults = len(run.events("fault"))
    if faults != 1:
        raise Failed(f"cuda:99: tried {faults} times\n{run.words()}")
    return f"cuda:99: exit code {code}, by name, at once"


def disturbed(machine, model, folder, ests=ESTS):
    """One worker, two, one of them killed, one again, stopped; then resumed on two for some steps more, by what the
    checkpoint says of algorithms alone. Returns the run, its steps, and the seconds that it stood still in resizes."""
    with Run(machine, model, folder, ests, 1_000_000, machine.devices(1)) as run:
        run.wait_for_step(2, 240)
        grown = run.resize(machine.devices(2))
        run.wait_for_step(grown["step"] + 2)
        run.kill_a_worker()
        run.wait_for("recovered")
        shrunk = run.resize(machine.devices(1))
        run.wait_for_step(shrunk["step"] + 2)
        run.stop()
        last = run.steps()[-1]["step"]
    chosen = run.choices()
    if not chosen and not machine.dry_run:
        raise Failed(f"no algorithms are written down\n{run.words()}")
    (run.run / "algorithms.jsonl").unlink(missing_ok=True)
    with Run.resumed(machine, folder, machine.devices(2), last + 3, profiles=folder / "profiles.json") as resumed:
        resumed.finish()
    require_kept(chosen, resumed)
    recoveries = len(run.events("recovered"))
    if recoveries != 1:
        raise Failed(f"one worker was killed, {recoveries} recoveries are recorded")
    return resumed, last + 3, [grown["stood_still_seconds"], shrunk["stood_still_seconds"]]


def require_kept(chosen, resumed):
    """A resumed run computes by the algorithms that were chosen before, and measures none of them again."""
    again = sorted(chosen.keys() & resumed.measured())
    lost = sorted(key for key, choice in chosen.items() if resumed.choices().get(key) != choice)
    if again or lost:
        raise Failed(
            f"after a resume without the store {len(again)} of {len(chosen)} algorithms are measured again, "
            f"{len(lost)} are others or missing: {[*again, *lost][0]}"
        )


def d1(name):
    """ESTs on 1 worker = 2 = 4 = a second process = resized, killed and resumed, at every step."""

    def check(machine, report):
        model, said = models(machine)[name], []
        run, steps, still = disturbed(machine, model, machine.new_folder(f"{name}-disturbed"))

        def tell(words):
            said.append(words)
            report.found(words)

        def undisturbed(what, workers, count):
            folder = machine.new_folder(f"{name}-{what}")
            with Run(machine, model, folder, ESTS, count, machine.devices(workers)) as other:
                return other.finish()

        kept = f", {len(run.choices())} algorithms kept" if run.choices() else ""
        tell("stood still " + ", ".join(f"{one_still:.2f}" for one_still in still) + f" s in resizes{kept}")
        one = undisturbed("one", 1, steps)
        tell(compare(machine, one, run, steps))
        for what, workers in {"two": 2, "four": 4, "again": 1}.items():
            other = undisturbed(what, workers, model.short_steps)
            tell(compare(machine, one, other, model.short_steps))
            shutil.rmtree(other.run / "checkpoints")  # gigabytes
        return "; ".join(said)

    return check


def graphs(name):
    """Mini-batches replayed as CUDA graphs, through a change of workers and back, = launched one by one."""

    def check(machine, _):
        model, more = models(machine)[name], ("--set", "job.cuda_graphs=auto")
        folder = machine.new_folder(f"{name}-graphs")
        with Run(machine, model, folder, ESTS, 1_000_000, machine.devices(1), more) as run:
            run.wait_for_step(4, 240)
            for workers in (2, 1):
                step = run.resize(machine.devices(workers))["step"]
                run.wait_for_step(step + 4)
            run.stop()
        run.require_unsaid(NOT_CAPTURED)
        last = run.steps()[-1]["step"]
        with Run(machine, model, machine.new_folder(f"{name}-off"), ESTS, last, machine.devices(1)) as off:
            off.finish()
        return compare(machine, off, run, last)

    return check


def precision(name):
    """Two workers = one, in an arithmetic other than fp32."""

    def check(machine, report):
        steps, more = machine.rounds(PRECISION_STEPS, 4), ("--set", f"job.precision={name}")
        said = []
        for which in ("gpt", "resnet18"):
            runs = []
            for what, workers in {"one": 1, "two": 2}.items():
                folder = machine.new_folder(f"{which}-{name}-{what}")
                with Run(machine, models(machine)[which], folder, ESTS, steps, machine.devices(workers), more) as run:
                    runs.append(run.finish())
            said.append(compare(machine, *runs, steps))
            report.found(said[-1])
        return "; ".join(said)

    return check


def exchange(name):
    """Two GPUs that pass data to each other = one = two by way of the host; also when one of the workers is killed."""

    def check(machine, _):
        if machine.device == "cpu":
            raise Skipped("needs two GPUs")
        model, steps, two = models(machine)[name], machine.rounds(D2_STEPS, 12), "cuda:0,cuda:1"

        def train(what, devices, count, more=()):
            with Run(machine, model, machine.new_folder(f"{name}-{what}"), ESTS, count, devices, more) as run:
                code = run.process.wait(machine.patience(120))
                if code != 0 and "there is no cuda:1" in run.words():
                    raise Skipped("needs two GPUs")
                return run.finish()

        gpus = train("two", two, steps)
        if [stage["exchange"] for stage in gpus.events("stage")] != ["GPUs"]:
            raise Failed("two GPUs did not exchange among themselves")
        with Run(machine, model, machine.new_folder(f"{name}-killed"), ESTS, 1_000_000, two) as killed:
            killed.wait_for_step(2, 240)
            killed.kill_a_worker()
            killed.wait_for("recovered")
            killed.wait_for_step(killed.steps()[-1]["step"] + 2)
            killed.stop()
        last = killed.steps()[-1]["step"]
        one = train("one", "cuda:0", max(steps, last))
        host = train("host", two, steps, ("--set", "job.exchange=host"))
        return "; ".join(
            compare(machine, one, run, count) for run, count in ((gpus, steps), (host, steps), (killed, last))
        )

    return check


def d2(name):
    """A run on the GPU, one on the CPU beside it, and one that moves from the one to the other and back."""

    def check(machine, _):
        model, more = models(machine)[name], ("--set", "job.determinism=D2", "--allow-mixed")
        steps, ests = machine.rounds(D2_STEPS, 12), 2

        def start(what, devices, count):
            return Run(machine, model, machine.new_folder(f"{name}-d2-{what}"), ests, count, devices, more)

        with start("gpu", machine.devices(1), steps) as gpu, start("cpu", "cpu*2", steps) as cpu:
            try:
                gpu.finish()
            except Failed:
                if NOT_BUILT in gpu.words():
                    raise Skipped("not built: portable kernels for CUDA") from None
                raise
            try:
                cpu.process.wait(machine.patience(CPU_SECONDS))
            except subprocess.TimeoutExpired:
                raise Skipped(f"the CPU is at step {len(cpu.steps())} of {steps}: too slow to compare with") from None
            common = compare(machine, gpu, cpu.finish(), steps)
        moved, there, back = move(machine, model, machine.new_folder(f"{name}-d2-moved"), ests, more)
        last = min(moved.steps()[-1]["step"], MOST_STEPS)
        if last <= back:
            raise Failed(f"{common}; it moved after {there} and {back}: too far to be compared")
        with start("gpu-long", machine.devices(1), last) as long:
            far = compare(machine, long.finish(), moved, last)
        return f"{common}; {far}, moved to the CPU after {there} and back after {back}"

    return check


def move(machine, model, folder, ests, more):
    """A run that goes to the CPU and back, stopped when it has stepped again; and the steps after which it moved."""
    with Run(machine, model, folder, ests, 1_000_000, machine.devices(1), more) as run:
        run.wait_for_step(2, 120)
        there = run.resize("cpu*2")["step"]
        run.wait_for_step(there + 2)
        back = run.resize(machine.devices(1))["step"]
        run.wait_for_step(back + 2)
        run.stop()
    return run, there, back
