"""The checks, each a row of the table."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from jobs import SGD, Failed, Model, Run, Skipped, compare

ADAMW = {"name": "adamw", "lr": 0.001}
GPT = {"width": 256, "heads": 4, "layers": 6, "context": 128, "dropout": 0.1}
# For the check of the command itself, on the CPU.
SMALL = {"gpt": {"width": 32, "heads": 2, "layers": 2, "context": 32, "dropout": 0.1}}

ESTS = 8
SECONDS_OF_UNDISTURBED_RUN = 20
MOST_STEPS = 4000
MOST_SECONDS = 180  # of a check
SECONDS_OVER = 15  # that the last one may take


@dataclass
class Check:
    name: str
    make: Callable  # machine -> what the table says


def models(machine):
    if machine.dry_run:
        tiny = {"shape": (1, 28, 28), "batch": 2}
        return {
            "lenet": Model("lenet", **tiny), "resnet18": Model("lenet", **tiny), "resnet50": Model("lenet", **tiny),
            "vgg19": Model("lenet", **tiny), "gpt": Model("gpt", 2, options=SMALL["gpt"], optimizer=ADAMW),
        }  # fmt: skip
    return {
        "lenet": Model("lenet", 16, (1, 28, 28)),
        "resnet18": Model("resnet18", 8, (3, 32, 32)),
        "resnet50": Model("resnet50", 4, (3, 64, 64)),
        "vgg19": Model("vgg19", 4, (3, 32, 32), short_steps=3),  # 140 million parameters
        "gpt": Model("gpt", 8, options=GPT, optimizer=ADAMW),
    }


def starts(machine):
    folder = machine.new_folder("start")
    begin = time.monotonic()
    with Run(machine, models(machine)["lenet"], folder, 2, 3, machine.devices(1)) as run:
        run.wait_for_step(1, 240)
        first = time.monotonic() - begin
        run.finish()
    return f"first step after {first:.1f} s; the next start has warm files"


def refuses_missing_gpu(machine):
    if machine.dry_run:
        raise Skipped("needs a GPU")
    folder = machine.new_folder("refusal")
    with Run(machine, models(machine)["lenet"], folder, 2, 3, "cuda:99") as run:
        code = run.process.wait(120)
    if code in (0, -6, -11) or "there is no cuda:99" not in run.words():
        raise Failed(f"cuda:99: exit code {code}\n{run.words()}")
    return f"cuda:99: exit code {code}, by name"


def disturbed(machine, model, folder):
    """One worker, two, one of them killed, one again, stopped; then resumed on two for some steps more."""
    with Run(machine, model, folder, ESTS, 1_000_000, machine.devices(1)) as run:
        run.wait_for_step(2, 240)
        grown = run.resize(machine.devices(2))
        run.wait_for_step(grown["step"] + 2)
        run.kill_a_worker()
        run.wait_for("recovered")
        shrunk = run.resize(machine.devices(1))
        run.wait_for_step(shrunk["step"] + 2)
        run.stop()
        last = run.steps()[-1]["step"]
    with Run.resumed(machine, folder, machine.devices(2), last + 3) as resumed:
        resumed.finish()
    recoveries = len(run.events("recovered"))
    if recoveries != 1:
        raise Failed(f"one worker was killed, {recoveries} recoveries are recorded")
    return resumed, last + 3, [grown["stood_still_seconds"], shrunk["stood_still_seconds"]]


def d1(name):
    """ESTs on 1 worker = 2 = 4 = a second process = resized, killed and resumed."""

    def check(machine):
        model = models(machine)[name]
        run, steps, still = disturbed(machine, model, machine.new_folder(f"{name}-disturbed"))
        rate = run.samples_per_second() / (ESTS * model.batch)  # steps/s
        in_time = int(rate * (3 if machine.dry_run else SECONDS_OF_UNDISTURBED_RUN))
        wanted = min(steps, MOST_STEPS, max(model.short_steps, in_time))
        common = []

        def undisturbed(what, devices, count):
            with Run(machine, model, machine.new_folder(f"{name}-{what}"), ESTS, count, devices) as other:
                return other.finish()

        one = undisturbed("one", machine.devices(1), wanted)
        common.append(compare(machine, one, run))
        for what, workers in {"two": 2, "four": 4, "again": 1}.items():
            common.append(compare(machine, one, undisturbed(what, machine.devices(workers), model.short_steps)))
        seconds = ", ".join(f"{one_still:.2f}" for one_still in still)
        return f"equal over {common[0]} of {steps} steps, and {min(common[1:])}; stood still {seconds} s in resizes"

    return check


def d2(name):
    """A run on the GPU, and one that moves from it to the CPU and back, equal one on the CPU."""

    def check(machine):
        model, more = models(machine)[name], ("--set", "job.determinism=D2")
        folder = machine.new_folder(f"{name}-d2-gpu")
        with Run(machine, model, folder, 4, model.short_steps, machine.devices(1), more) as gpu:
            gpu.process.wait(180)
            if "no portable kernels for CUDA" in gpu.words():
                raise Skipped("not built: portable kernels for CUDA")
            gpu.finish()
        with Run(machine, model, machine.new_folder(f"{name}-d2-cpu"), 4, model.short_steps, "cpu*2", more) as cpu:
            cpu.finish()
        return f"equal over {compare(machine, gpu, cpu)} steps"

    return check


def trained(machine, name, what, workers, *settings):
    """A run of some steps of the model, with settings of the spec."""
    more = [word for setting in settings for word in ("--set", setting)]
    folder, devices = machine.new_folder(f"{name}-{what}"), machine.devices(workers)
    with Run(machine, models(machine)[name], folder, ESTS, 20, devices, more) as run:
        return run.finish()


def precision(name, value):
    """Equal on 1 worker and 2; its speed beside that of fp32."""

    def check(machine):
        setting = f"job.precision={value}"
        one = trained(machine, name, value, 1, setting)
        steps = compare(machine, one, trained(machine, name, f"{value}-two", 2, setting))
        plain = trained(machine, name, f"{value}-fp32", 1)
        return f"equal over {steps} steps; {value} / fp32 {one.samples_per_second() / plain.samples_per_second():.2f}"

    return check


def graphs(name):
    """Mini-batches replayed as CUDA graphs give the bits of those that are not."""

    def check(machine):
        plain = trained(machine, name, "graphs-off", 1)
        replayed = trained(machine, name, "graphs-auto", 1, "job.cuda_graphs=auto")
        steps = compare(machine, plain, replayed)
        compare(machine, plain, trained(machine, name, "graphs-two", 2, "job.cuda_graphs=auto"))
        kept = [line for line in replayed.words().splitlines() if "are not captured as CUDA graphs" in line]
        ratio = replayed.samples_per_second() / plain.samples_per_second()
        return f"equal over {steps} steps; with / without {ratio:.2f}" + "".join(f"; {line[:200]}" for line in kept[:1])

    return check


def throughput(name, shape, batch, options=None):
    """Samples/s of 1 and 8 ESTs against a plain eager PyTorch loop, deterministic and not."""

    def check(machine):
        if machine.dry_run:
            model, steps = models(machine)[name], 20
        else:
            model = Model(name, batch, shape, options or {}, SGD if shape else ADAMW)
            steps = 60
        rates = {}
        for ests in (1, ESTS):
            folder = machine.new_folder(f"{name}-speed-{ests}")
            count = steps if ests == 1 else steps // 3
            with Run(machine, model, folder, ests, count, machine.devices(1), ("--set", "data.readers=4")) as run:
                rates[f"{ests} ESTs"] = run.finish().samples_per_second()
        log = machine.new_folder(f"{name}-eager") / "eager.log"
        script = Path(__file__).with_name("eager.py")
        case = {"model": model.name, "shape": model.shape, "batch": model.batch, "options": model.options}
        for kind in ("deterministic", "any"):
            command = [sys.executable, script, machine.device, kind, json.dumps(case)]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
            log.open("a").write(ended.stdout + ended.stderr)
            if ended.returncode != 0:
                if "No module named 'torch'" in ended.stderr:
                    raise Skipped("there is no torch in this Python; estrain: " + in_words(rates))
                raise Failed(f"eager.py {kind}: exit code {ended.returncode}\n{ended.stderr[-2000:]}")
            rates[f"eager, {kind}"] = float(ended.stdout.split()[-1])
        ratio = rates["1 ESTs"] / rates["eager, deterministic"]
        return f"{in_words(rates)}; 1 EST / eager deterministic {ratio:.2f}"

    return check


def in_words(rates):
    return ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()) + " samples/s"


def all_checks():
    return [
        Check("a worker starts", starts),
        Check("D1 resnet18", d1("resnet18")),
        Check("D1 gpt", d1("gpt")),
        Check("throughput gpt", throughput("gpt", (), 32, GPT)),
        Check("throughput resnet50", throughput("resnet50", (3, 224, 224), 32)),
        Check("D1 resnet50", d1("resnet50")),
        Check("D1 vgg19", d1("vgg19")),
        Check("D2 lenet", d2("lenet")),
        Check("D2 resnet18", d2("resnet18")),
        Check("D2 gpt", d2("gpt")),
        Check("throughput resnet18", throughput("resnet18", (3, 32, 32), 64)),
        Check("bf16 gpt", precision("gpt", "bf16")),
        Check("bf16 resnet50", precision("resnet50", "bf16")),
        Check("tf32 resnet50", precision("resnet50", "tf32")),
        Check("CUDA graphs gpt", graphs("gpt")),
        Check("CUDA graphs resnet18", graphs("resnet18")),
        Check("a GPU that is not there is refused", refuses_missing_gpu),
    ]


@contextlib.contextmanager
def ended_after(seconds):
    """A check that takes longer has failed; what it started goes with it (Run.__exit__)."""

    def give_up(*_):
        raise Failed(f"took longer than {seconds:.0f} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(machine, only, seconds):
    begin = time.monotonic()
    told = machine.describe()
    print("\n".join(f"{name}: {value}" for name, value in told.items()), flush=True)
    results = []
    for check in all_checks():
        if only and not any(word in check.name for word in only):
            continue
        started = time.monotonic()
        try:
            left = begin + seconds - started
            if left <= 0:
                raise Skipped(f"out of time: {seconds:.0f} s")
            with ended_after(min(left + SECONDS_OVER, left if machine.dry_run else MOST_SECONDS)):
                words = check.make(machine)
            verdict = "passed"
        except Skipped as reason:
            verdict, words = "skipped", str(reason)
        except Failed as reason:
            verdict, words = "failed", str(reason)
        except Exception as error:  # noqa: BLE001: the next check is made all the same
            verdict, words = "failed", f"{type(error).__name__}: {error}"
        machine.keep_logs()
        took = time.monotonic() - started
        results.append({"check": check.name, "verdict": verdict, "words": words, "seconds": round(took, 1)})
        print(f"{verdict:8} {took:6.1f} s  {check.name:36} {words.splitlines()[0] if words else ''}", flush=True)
        (machine.out / "results.json").write_text(json.dumps({"machine": told, "checks": results}, indent=1) + "\n")
    verdicts = [result["verdict"] for result in results]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("passed", "failed", "skipped"))
    print(f"{counts}; {time.monotonic() - begin:.0f} s")
    return 1 if "failed" in verdicts or not results else 0
