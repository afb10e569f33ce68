"""PyTorch DistributedDataParallel under torchrun (ddp_script.py), asked for so many steps at a time."""

import os
import re
import subprocess
from multiprocessing.connection import Listener
from pathlib import Path

from process_tree import end_tree

SCRIPT = Path(__file__).with_name("ddp_script.py")
START_SECONDS = 180  # on a busy machine imports alone take a minute
ALONE = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "RES_OPTIONS": "attempts:0"}


def torchrun(python, ranks, name, script, *words):
    """The command that runs a script in so many ranks; `name`: no other job's at this time. Wants ALONE in its environment."""
    # The meaning of --standalone, with addresses as numbers: on some machines names are not known, or only after a minute.
    command = [python, "-m", "torch.distributed.run", "--local-addr=127.0.0.1", "--rdzv-backend=c10d"]
    command += ["--rdzv-endpoint=127.0.0.1:0", f"--rdzv-id={name}", "--nproc-per-node", str(ranks)]
    return [*command, script, *words]


def steps_of_case(bench, ranks, name, case, *options):
    """The command that runs ddp_script.py for a case."""
    return torchrun(bench.python, ranks, name, SCRIPT, case, *bench.ddp_options, *options)


def errors_in(log):
    """The lines that tell an error, or the end of a log without such a line: a compiler's warnings can fill thousands of lines."""
    lines = [line[:300] for line in log.splitlines() if re.search(r"\w*[Ee]rror\b", line)]
    return "\n".join(lines[:8]) or log[-3000:]


class TorchDdp:
    """`environment`: what is set in it beside ALONE."""

    def __init__(self, bench, case, ranks=1, accumulate=1, options=(), environment=None):
        folder = bench.new_folder()
        self.log = folder / "log"
        self.listener = Listener(str(folder / "socket"), "AF_UNIX", backlog=64)
        self.listener._listener._socket.settimeout(START_SECONDS)
        control = ("--control", folder / "socket")
        command = steps_of_case(bench, ranks, folder.name, case.to_json(accumulate), *control, *options)
        environment = os.environ | ALONE | (environment or {})
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self.ranks = ranks
        self.connections = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_tree(self.process)
        self.listener.close()

    def wait_until_ready(self):
        """All ranks have their model and wait for orders."""
        try:
            self.connections = [self.listener.accept() for _ in range(self.ranks)]
            self.pids = [connection.recv() for connection in self.connections]
        except (TimeoutError, EOFError):
            raise RuntimeError(f"torchrun did not start:\n{self.log.read_text()}") from None

    def order(self, message):
        try:
            for connection in self.connections:
                connection.send(message)
            return [connection.recv() for connection in self.connections]
        except (EOFError, ConnectionError):
            raise RuntimeError(f"a process of PyTorch has ended:\n{errors_in(self.log.read_text())}") from None

    def run(self, warm, steps):
        """Returns the seconds of the slowest rank for `steps` steps after `warm` others."""
        return max(self.order(("run", warm, steps)))
