#!/usr/bin/env python3
"""Compares runs of estrain with PyTorch's DistributedDataParallel, bit for bit: the losses of every EST at every step,
learning rates, evaluations, the outputs that `estrain evaluate --write` writes, and of every checkpoint the parameters,
buffers, optimizer state and generators.

    python scripts/peers/ddp_bits.py BUILD_FOLDER [--only PATTERN]      the jobs of ddp_jobs.py, each on the last of its device
                                                                        sets; with ESTRAIN_AT_LENGTH in the environment, on all
    python scripts/peers/ddp_bits.py --run RUN_DIR...                   runs that are there already

After the jobs some are repeated in PyTorch with a mistake made on purpose, which must come out as different. Some
programs are trained at D2, too, on each kind of processor: they must have the same bits at every step. Exit code 1 where
a bit differs or a mistake stays unseen.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# job, what ddp_replay.py does wrongly on it, and text that one of the differences must have
MISTAKES = [("gpt-4", "order", "exp_avg"), ("mlp-adam-3", "seed", "generator"), ("lenet-momentum", "shuffle", "loss"),
            ("mlp-clip-8", "scale", "model/"), ("mlp-dampening-5", "lr", "lr: "), ("gpt", "seed", "loss"),
            ("gpt-untied-threads", "threads", "model/"), ("resnet18-bf16", "precision", "loss"),
            ("program-encoder-4", "order", "exp_avg"), ("lenet-average", "decay", "ema/"), ("program-tagger-4", "weight", "model/"), ("program-unusual", "seed", "loss"), ("python-adaptive", "seed", "/python")]
# Jobs of programs that are trained at D2 on several kinds of processor.
AT_D2 = ("program-resnet", "program-encoder-4", "program-recurrent-4")
# Jobs whose outputs for each sample of the test set are written, and compared.
WRITTEN = ("lenet-weights", "program-resnet")
AT_LENGTH = "ESTRAIN_AT_LENGTH" in os.environ
if not AT_LENGTH:  # each mistake once, and one in the generators of a user's Python; a program with batch norm
    again = ("gpt", "program-encoder-4", "program-unusual")
    MISTAKES = [mistake for mistake in MISTAKES if mistake[0] not in again]
    AT_D2 = AT_D2[:1]


def wait_for(process, what, holds):
    while not holds():
        if process.poll() is not None:
            raise SystemExit(f"the job ended with {process.returncode} before {what}")
        time.sleep(0.1)


def events(run, kind):
    path = run / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if f'"event":"{kind}"' in line.replace('": "', '":"')]


def disturb(estrain, run, devices, process):
    """Moves the job to other devices and kills a worker, before its end."""
    wait_for(process, "its first step", lambda: events(run, "first_step"))
    subprocess.run([estrain, "resize", run, "--devices", devices], check=True, stdout=subprocess.DEVNULL)
    status = json.loads(subprocess.run([estrain, "status", run, "--json"], check=True, stdout=subprocess.PIPE).stdout)
    os.kill(status["workers"][0]["pid"], signal.SIGKILL)
    wait_for(process, "it had another worker", lambda: events(run, "recovered"))


def train(estrain, name, text, folder, devices, resize=""):
    """Runs the job on each of the device sets; returns the run directories."""
    slow = folder / f"{name}.slow"
    spec = folder / f"{name}.toml"
    spec.write_text(text.replace("@", str(folder)))
    runs = [folder / f"{name}.{i}" for i in range(len(devices))]

    def start(run, devices):
        disturbed = resize and run == runs[-1]
        environment = os.environ | ({"PEERS_SLOW": str(slow)} if disturbed else {})
        if disturbed:
            slow.touch()
        process = subprocess.Popen([estrain, "train", spec, "--run", run, "--devices", devices], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=environment)
        if disturbed:
            disturb(estrain, run, resize, process)
            slow.unlink()
        said, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{name} on {devices}: estrain train ended with {process.returncode}:\n{said}")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(start, runs, devices))
    return runs


def write_outputs(estrain, run):
    """By other devices than the run's."""
    subprocess.run([estrain, "evaluate", run, "--write", run / "outputs.h5", "--devices", "1"], check=True,
                   stdout=subprocess.DEVNULL)


def kinds_of_processor():
    """Those that this machine has, the widest first."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return ["cpu:avx512"] * ("avx512vl" in flags) + ["cpu:avx2"] * ("avx2" in flags) + ["cpu:sse"]


def unequal(estrain, first, others):
    """What `estrain verify` says of each run that does not have the bits of the first one."""
    verdicts = [subprocess.run([estrain, "verify", first, other], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True) for other in others]
    return [verdict.stdout for verdict in verdicts if verdict.returncode]


def differs_at_d2(estrain, name, text, folder):
    """Trains the job on each kind of processor, and on two together; returns what `unequal` does."""
    kinds = kinds_of_processor()
    devices = kinds + [f"{kinds[-1]},{kinds[0]}"]
    first, *others = train(estrain, f"{name}-d2", "job.determinism = \"D2\"\n" + text, folder, devices)
    found = unequal(estrain, first, others)
    print(f"{name:20} {len(devices)} runs at D2 on {', '.join(devices)}: {'DIFFERENT' if found else 'equal'}", *found,
          sep="\n    ")
    return found


def replay(entries, folder):
    """Repeats runs with DDP; entries and the report that comes back are ddp_replay.py's."""
    plan, report = folder / "plan.json", folder / "report.json"
    plan.write_text(json.dumps([{"runs": [str(run) for run in runs], "mistake": mistake} for runs, mistake in entries]))
    subprocess.run([sys.executable, HERE / "ddp_replay.py", plan, report], env=os.environ | {"OMP_NUM_THREADS": "1"},
                   check=True)
    return json.loads(report.read_text())


def print_result(name, num_runs, result):
    found = result["differences"]
    verdict = "DIFFERENT" if found else "equal"
    print(f"{name:20} {num_runs} runs, {result['ranks']} ranks, {result['steps']:3} steps, "
          f"{result['compared']:4} compared: {verdict}", *found[:8], sep="\n    ")
    if len(found) > 8:
        print(f"    and {len(found) - 8} more")


def check_mistakes(mistakes, results):
    """Prints and returns how many stayed unseen."""
    unseen = 0
    for (name, mistake, expected), result in zip(mistakes, results):
        seen = any(expected in text for text in result["differences"])
        unseen += not seen
        print(f"{name:20} with a wrong {mistake}: {'seen' if seen else 'NOT SEEN'}")
    return unseen


def compare_jobs(build, pattern):
    import ddp_jobs  # imports torch, which takes longer than --run
    names = fnmatch.filter(ddp_jobs.JOBS, pattern)
    estrain = pathlib.Path(build).resolve() / "estrain"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        ddp_jobs.write_data(folder)
        runs = {name: train(estrain, name, ddp_jobs.SEED + job.spec, folder, job.devices if AT_LENGTH else job.devices[-1:],
                            job.resize)
                for name, job in ddp_jobs.JOBS.items() if name in names}
        for name in names:
            if name in WRITTEN:
                write_outputs(estrain, runs[name][0])
        at_d2 = [name for name in names if name in AT_D2]
        differ = [name for name in at_d2
                  if differs_at_d2(estrain, name, ddp_jobs.SEED + ddp_jobs.JOBS[name].spec, folder)]
        mistakes = [mistake for mistake in MISTAKES if mistake[0] in names]
        report = replay([(runs[name], None) for name in names] + [(runs[m[0]], m[1]) for m in mistakes], folder)
    for name, result in zip(names, report):
        print_result(name, len(runs[name]), result)
    different = sum(bool(result["differences"]) for result in report[:len(names)])
    unseen = check_mistakes(mistakes, report[len(names):])
    print(f"{len(names) - different} of {len(names)} jobs ({sum(map(len, runs.values()))} runs) equal to DDP; "
          f"{len(mistakes) - unseen} of {len(mistakes)} mistakes seen; "
          f"{len(at_d2) - len(differ)} of {len(at_d2)} programs equal at D2 on all kinds of processor")
    return bool(names) and not different and not unseen and not differ


def compare_runs(runs):
    with tempfile.TemporaryDirectory() as folder:
        report = replay([([run], None) for run in map(pathlib.Path.resolve, runs)], pathlib.Path(folder))
    for run, result in zip(runs, report):
        print_result(run.name, 1, result)
    return not any(result["differences"] for result in report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_FOLDER", nargs="?")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--run", nargs="+", type=pathlib.Path, metavar="RUN_DIR")
    arguments = parser.parse_args()
    if bool(arguments.build) == bool(arguments.run):
        parser.error("give either BUILD_FOLDER or --run")
    equal = compare_runs(arguments.run) if arguments.run else compare_jobs(arguments.build, arguments.only)
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
