"""Jobs over hosts that are network namespaces (tests/hosts/network.py): of estrain, and of PyTorch's DDP under torchrun."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
from multiprocessing.connection import Listener
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "scripts/benchmarks"), str(ROOT / "tests/hosts")]
from network import Network  # noqa: E402, F401
from process_tree import wait_until  # noqa: E402
from slow_network import SlowNetwork  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[1] / "ddp_script.py"
START_SECONDS = 120
BITS_PER_SECOND, DELAY = 1e9, 0.0005


def slow_network(bench, hosts):
    return SlowNetwork(bench.build / "scripts/benchmarks/wire", hosts, BITS_PER_SECOND, DELAY)


class HostsJob:
    """estrain with one worker on each host."""

    def __init__(self, bench, network, hosts, case, steps, sections="", ests=None):
        folder = bench.new_folder()
        self.run, self.network = folder / "run", network
        self.ests = ests or hosts
        self.samples_per_step = case.batch * self.ests
        spec = case.spec(folder, self.ests, steps, sections)
        self.logs = folder
        self.agents = [self.start(bench, host, "agent", "--run", self.run, "--name", f"h{host}", "--address",
                                  network.address(host)) for host in range(1, hosts)]
        for host in range(1, hosts):
            wait_until((self.run / "hosts" / f"h{host}.json").exists, "an agent", process=self.agents[host - 1])
        devices = ",".join(["cpu"] + [f"h{host}/cpu" for host in range(1, hosts)])
        self.process = self.start(bench, 0, "train", spec, "--run", self.run, "--devices", devices)

    def start(self, bench, host, *words):
        with open(self.logs / f"{words[0]}-{host}.log", "w") as log:
            return self.network.start(host, [str(bench.estrain), *map(str, words)], stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.process, *self.agents):
            if process.poll() is None:
                process.kill()
            process.wait()

    def lines(self, name="metrics.jsonl"):
        """The whole lines of a file that somebody writes."""
        path = self.run / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def steps(self):
        path = self.run / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_for_step(self, step):
        try:
            wait_until(lambda: self.steps() >= step, f"step {step}", process=self.process)
        except RuntimeError as error:
            raise RuntimeError(f"{error}:\n{(self.logs / 'train-0.log').read_text()[-3000:]}") from None

    def step_seconds(self, first, last):
        """The median of these steps."""
        rates = {line["step"]: line["samples_per_s"] for line in self.lines() if "samples_per_s" in line}
        return statistics.median(self.samples_per_step / rates[step] for step in range(first, last) if rates.get(step))

    def parameters(self):
        found = re.search(r"with (\d+) parameters", (self.logs / "train-0.log").read_text())
        return int(found.group(1))

    def events(self, name):
        return [event for event in self.lines("events.jsonl") if event["event"] == name]


class HostsDdp:
    """DDP with gloo, as it comes, one rank on each host."""

    def __init__(self, bench, network, hosts, case, options=(), torchrun=(), control=False):
        folder = bench.new_folder()
        self.folder, self.hosts = folder, hosts
        self.listener = Listener(str(folder / "socket"), "AF_UNIX", backlog=64)
        self.listener._listener._socket.settimeout(START_SECONDS)
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0", "RES_OPTIONS": "attempts:0"}
        self.processes = []
        if control:
            options = (*options, "--control", str(folder / "socket"))
        for host in range(hosts):
            command = [bench.python, "-m", "torch.distributed.run", f"--local-addr={network.address(host)}",
                       "--rdzv-backend=c10d", f"--rdzv-endpoint={network.address(0)}:29500", "--rdzv-id=bench",
                       f"--rdzv-conf=is_host={int(host == 0)}",  # names are not known there
                       "--nproc-per-node=1", *(torchrun or (f"--nnodes={hosts}",)), str(SCRIPT), case.to_json(), *options]
            with open(folder / f"log-{host}", "w") as log:
                self.processes.append(network.start(host, command, stdout=log, stderr=log, env=environment))
        self.connections = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def log(self):
        return "\n".join((self.folder / f"log-{host}").read_text()[-1500:] for host in range(self.hosts))

    def wait_until_ready(self):
        try:
            self.connections = [self.listener.accept() for _ in range(self.hosts)]
            for connection in self.connections:
                connection.recv()
        except (TimeoutError, EOFError):
            raise RuntimeError(f"torchrun did not start:\n{self.log()}") from None

    def run(self, warm, steps):
        """Seconds of the slowest rank for `steps` steps after `warm` others."""
        for connection in self.connections:
            connection.send(("run", warm, steps))
        return max(connection.recv() for connection in self.connections)


def clean(network, hosts):
    """Nothing is left at work there."""
    for host in range(hosts):
        network.signal(host, signal.SIGKILL)
    wait_until(lambda: not any(network.processes(host) for host in range(hosts)), "the ends of processes")
