#!/usr/bin/env python3
"""Fake versions of the programs that scripts/bench starts: the same interface, but quick and without computation. Each
start is recorded in the file $PRETENDED: name, arguments, settings of malloc."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from datetime import datetime, timezone
from multiprocessing.connection import Client
from pathlib import Path

STEP_SECONDS = 0.002
MALLOC = "glibc.malloc.pretended=1"  # expected settings of a worker's malloc


def note_start(name):
    line = {"name": name, "arguments": sys.argv[1:], "malloc": os.environ.get("GLIBC_TUNABLES")}
    with open(os.environ["PRETENDED"], "a") as file:
        file.write(json.dumps(line) + "\n")


def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


class Launcher:
    """`estrain train`: its workers do nothing; its steps take the same time for every job."""

    def __init__(self, spec, run, devices):
        self.spec, self.run = spec, run
        self.run.mkdir(parents=True)
        self.workers, self.step, self.last = [], 0, time.monotonic()
        self.devices = ""
        self.set_workers(devices)

    def set_workers(self, devices):
        self.devices = ",".join(["cpu"] * int(devices)) if devices.isdigit() else devices
        self.end()
        self.workers = [self.start_worker() for _ in self.devices.split(",")]

    def start_worker(self):
        environment = os.environ | {"GLIBC_TUNABLES": MALLOC}
        return subprocess.Popen([sys.executable, __file__, "worker", "pretended"], env=environment)

    def end(self):
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def log(self, event, **more):
        line = {"event": event, "time": datetime.now(timezone.utc).isoformat()} | more
        with open(self.run / "events.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def record(self, line):
        with open(self.run / "metrics.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def save(self):
        self.log("checkpoint", step=self.step, seconds=STEP_SECONDS)

    def train(self):
        steps = self.spec["train"].get("steps", 20)
        every = self.spec.get("checkpoint", {}).get("every", 0)
        self.save()
        if "elastic" in self.spec:
            self.log("rebalance", ests=[5, 3])
        while self.step < steps:
            self.one_step()
            if every and self.step % every == 0:
                self.save()
            self.replace_lost()
            self.resize_if_asked()
        if self.spec["data"]["format"] == "idx":
            self.record({"step": self.step, "eval": {"accuracy": 0.875}})
        workers = [{"computing_seconds": 1, "seconds_waiting_for_data": 0.001} for _ in self.workers]
        self.log("stage_speed", steps=steps, seconds=steps * STEP_SECONDS, workers=workers)
        self.end()

    def one_step(self):
        time.sleep(STEP_SECONDS)
        now, samples = time.monotonic(), self.spec["data"]["batch"] * self.spec["job"]["ests"]
        self.step += 1
        self.record({"step": self.step, "samples_per_s": samples / (now - self.last) if self.step > 1 else 0})
        self.last = now

    def replace_lost(self):
        for index, worker in enumerate(self.workers):
            if worker.poll() is not None or is_stopped(worker.pid):
                worker.kill()
                worker.wait()
                self.log("fault")
                self.workers[index] = self.start_worker()
                self.log("recovered", step=self.step)

    def resize_if_asked(self):
        request = self.run / "resize.request"
        if not request.exists():
            return
        before = self.devices
        self.set_workers(request.read_text())
        request.unlink()
        self.log("resize", **{"from": before, "to": self.devices})
        self.save()
        answer = {"step": self.step, "warming_seconds": 0.01}
        answer |= {"stood_still_seconds": 0.001, "lost_while_warming_seconds": 0.001}
        put(self.run / "resize.answer", json.dumps(answer))


def is_stopped(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def put(path, text):
    """Writes the file atomically, since another process waits for it."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def train():
    spec = tomllib.loads(Path(sys.argv[2]).read_text())
    Launcher(spec, Path(option("--run")), option("--devices")).train()


def resize():
    run = Path(sys.argv[2])
    put(run / "resize.request", option("--devices"))
    answer = run / "resize.answer"
    while not answer.exists():
        time.sleep(0.001)
    print(answer.read_text())
    answer.unlink()


def plan():
    devices = option("--devices").split(",")
    ests_of_job = tomllib.loads(Path(sys.argv[2]).read_text())["job"]["ests"]
    ests = [int(device.partition("=")[2] or ests_of_job // len(devices)) for device in devices]
    kinds = [device.partition("=")[0] for device in devices]
    one = {"given": True, "best": True, "kinds": kinds, "ests": ests, "step_seconds": STEP_SECONDS}
    print(json.dumps({"plans": [one]}))


def export():
    Path(option("--output")).write_bytes(b"program")


def estrain():
    {"train": train, "resize": resize, "plan": plan, "export": export}[sys.argv[1]]()


def serve(answer):
    print("ready", flush=True)
    for line in sys.stdin:
        print(answer(line), flush=True)


def bare_loop():
    json.loads(sys.argv[1])
    serve(lambda line: STEP_SECONDS * int(line.split()[1]))


def checkpoint_io():
    def answer(verb):
        if verb.strip() == "write":
            Path(sys.argv[2]).write_bytes(b"state")
        return STEP_SECONDS

    serve(answer)


def kernels():
    rows = [{"name": f"square {size}", "ratio": 1.0 + size / 10000} for size in (128, 256, 512)]
    print(json.dumps({"rows": rows}))


def rank(control):
    """scripts/benchmarks/ddp_script.py's side of the protocol on its socket."""
    connection = Client(control, "AF_UNIX")
    connection.send(os.getpid())
    with contextlib.suppress(EOFError):
        while True:
            verb, *arguments = connection.recv()
            if verb == "run":
                connection.send(STEP_SECONDS * arguments[1])
            elif verb == "first step":
                connection.send((time.monotonic(), time.monotonic() + STEP_SECONDS))
            else:
                Path(arguments[0]).write_bytes(b"state")
                connection.send(time.monotonic())
                return


def torchrun():
    if "--control" not in sys.argv:
        print("stepped", flush=True)
        signal.pause()
    ranks = [threading.Thread(target=rank, args=[option("--control")]) for _ in range(int(option("--nproc-per-node")))]
    for one in ranks:
        one.start()


def python():
    if sys.argv[1] == "-c":
        print("pretended")
    elif sys.argv[1] == "-m":
        torchrun()
    elif sys.argv[1].endswith("accuracy_script.py"):
        print(json.dumps({"accuracy": 0.885}))
    elif sys.argv[1].endswith("workload_pace.py"):
        rounds = int(option("--rounds"))
        print(json.dumps({name: [STEP_SECONDS] * rounds for name in ("D1", "D2", "compiled")}))
    elif sys.argv[1].endswith("/write.py"):  # pictures, which nobody reads
        pass
    elif sys.argv[1].endswith("/read.py"):
        serve(lambda _: STEP_SECONDS)
    else:
        Path(sys.argv[3]).write_bytes(b"state")
        serve(lambda _: STEP_SECONDS)


def main():
    if sys.argv[1:2] == ["worker"]:
        signal.pause()
        return
    name = Path(sys.argv[0]).name
    note_start(name)
    programs = {"estrain": estrain, "bare_loop": bare_loop, "checkpoint_io": checkpoint_io, "python": python}
    programs |= {"ninja": lambda: None, "jpeg_reading": lambda: serve(lambda _: STEP_SECONDS)}
    (kernels if re.match("bench_", name) else programs[name])()


main()
