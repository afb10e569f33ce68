"""A network of hosts, a folder, and the jobs that run there: for tests/hosts/run and scripts/chaos --hosts."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from network import Network

ROOT = Path(__file__).resolve().parents[2]
LONG = 2000  # steps: enough for what happens on the way
ENDLESS = 100 * LONG  # steps: the case stops the job before the last of them (ends_here)
PATIENCE = 180  # seconds for anything that is waited for, on a busy machine

HEAVY = ("--set", "model.hidden=[3000,3000]", "--set", "train.eval_every=0", "--set", "checkpoint.every=0")
HEAVY_STEPS = 25  # of a job whose state takes long to send

FEWEST_ESTS = 5

SPEC = """
[job]
name = "hosts"
ests = {ests}
[model]
name = "mlp"
hidden = [64, 32]
dropout = 0.2
[data]
format = "synthetic"
shape = [1, 28, 28]
samples = 1000
batch = 8
[optimizer]
name = "sgd"
lr = 0.03
momentum = 0.9
[train]
steps = {steps}
eval_every = 40
clip_grad_norm = {clip}
[checkpoint]
every = 50
[logging]
every_seconds = 1
"""


class Failed(Exception):
    pass


class OtherBits(Failed):
    """Two runs are not equal. Such a failure is final."""


class NotTested(Exception):
    """This machine lacks what the case needs. It counts as failed, unless the caller knows (`--may-skip`)."""


def ests_of(site):
    return max(FEWEST_ESTS, site.hosts + 1)


class Site:
    """A network, a folder, and what runs there."""

    def __init__(self, program, hosts):
        self.program = str(program)
        self.through = ()  # words before the program
        self.folder = Path(tempfile.mkdtemp(prefix="estrain-hosts-"))
        self.hosts = hosts
        os.environ["ESTRAIN_PROFILES"] = str(self.folder / "profiles.json")
        self.network = Network(hosts)
        self.started = []

    def spec(self, steps, clip=0):
        path = self.folder / f"job-{steps}-{clip}.toml"
        path.write_text(SPEC.format(ests=ests_of(self), steps=steps, clip=clip))
        return str(path)

    def start(self, host, *arguments, log=None):
        output = open(self.folder / (log or f"log-{len(self.started)}"), "w")
        process = self.network.start(host, [*self.through, self.program, *arguments], stdout=output, stderr=subprocess.STDOUT)
        process.log = output.name
        self.started.append(process)
        return process

    def agent(self, host, run):
        name = f"h{host}"
        (run / "hosts" / f"{name}.json").unlink(missing_ok=True)  # of one that was killed
        process = self.start(host, "agent", "--run", str(run), "--name", name, "--address",
                             self.network.address(host), log=f"{run.name}-agent-{name}-{len(self.started)}")
        wait_for(lambda: (run / "hosts" / f"{name}.json").exists(), f"agent {name} did not begin to listen", process)
        return process

    def own_files(self, host, run):
        return self.folder / f"{run.name}-files-of-h{host}"

    def agent_with_own_files(self, host, run):
        """An agent that writes its file where no other host sees it: the test says to others where h{host} listens."""
        files, name = self.own_files(host, run), f"h{host}"
        files.mkdir()
        output = open(self.folder / f"{run.name}-agent-{name}", "w")
        agent = [self.program, "agent", "--run", str(run), "--name", name, "--address", self.network.address(host)]
        script = f'mount --bind "{files}" "{run}/hosts" && exec "$@"'
        process = self.network.start(host, ["unshare", "--mount", "sh", "-c", script, "sh", *agent], stdout=output,
                                     stderr=subprocess.STDOUT)
        process.log = output.name
        self.started.append(process)
        wait_for(lambda: (files / f"{name}.json").exists(), f"agent {name} did not begin to listen", process)
        return process

    def train(self, run, devices, steps, *more, clip=0):
        return self.start(0, "train", self.spec(steps, clip), "--run", str(run), "--devices", devices, *more,
                          log=f"{run.name}-train-{len(self.started)}")

    def resize(self, run, devices):
        done = self.network.run(0, [self.program, "resize", str(run), "--devices", devices])
        check(done.returncode == 0, f"resize to {devices}: {done.stdout}{done.stderr}")

    def run_apart(self, host, run, *arguments):
        """A command on a host with a name of its own, where the launcher's socket in the shared folder leads nowhere."""
        dead = self.folder / "dead.sock"
        if not dead.exists():
            socket.socket(socket.AF_UNIX).bind(str(dead))
        script = f'hostname h{host} && mount --bind "{dead}" "{run}/control.sock" && exec "$@"'
        return self.network.run(host, ["unshare", "--uts", "--mount", "sh", "-c", script, "sh", self.program, *arguments])

    def same(self, run, other):
        done = subprocess.run([self.program, "verify", str(run), str(other)], capture_output=True, text=True)
        if done.returncode:
            raise OtherBits(f"{run.name} is not {other.name}: {done.stdout}{done.stderr}")

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def calm(self):
        """Ends what a failed case has left, and brings every link up."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
        for host in range(self.hosts):
            self.network.signal(host, signal.SIGKILL)
            self.network.mend(host)

    @contextmanager
    def in_folder(self, name):
        """Runs meanwhile lie in a sub-folder: a second try of a case finds nothing of the first."""
        whole, self.folder = self.folder, self.folder / name
        self.folder.mkdir()
        try:
            yield
        finally:
            self.folder = whole

    def close(self, keep):
        self.network.close()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def check(holds, what):
    if not holds:
        raise Failed(what)


def wait_for(holds, what, process=None):
    end = time.monotonic() + PATIENCE
    while not holds():
        if process is not None and process.poll() not in (None, 0):
            raise Failed(f"{what}: {Path(process.log).read_text()[-3000:]}")
        check(time.monotonic() < end, what)
        time.sleep(0.02)


MOST_BUSY = 3


def busy():
    """How many times longer than on an idle machine things may take, within a bound: an outage of any length is no mark of a busy machine."""
    return min(MOST_BUSY, max(1, os.getloadavg()[0] / os.cpu_count()))


def finish(process, code=0):
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failed(f"did not end: {Path(process.log).read_text()[-3000:]}") from None
    check(process.returncode == code,
          f"exit code {process.returncode}, wanted {code}: {Path(process.log).read_text()[-3000:]}")


def events(run, name):
    path = run / "events.jsonl"
    text = path.read_text() if path.exists() else ""
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # the last may be half written
    return [line for line in lines if line["event"] == name]


def refused(run):
    """How many connections of strangers the run's events tell of."""
    return sum(event["connections"] for event in events(run, "refused_connection"))


def steps_of(run):
    path = run / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def last_step(run):
    """The newest step of the run's files."""
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    steps = [json.loads(line)["step"] for line in lines if line.endswith("}") and '"est_losses"' in line]
    return max(steps, default=0)


def reference(site, steps, clip=0):
    run = site.folder / f"alone-{steps}-{clip}"
    if not run.exists():
        finish(site.train(run, "cpu", steps, clip=clip))
    return run


def stop_here(site, run, leader, *agents):
    """A case has seen enough: the run stops with a checkpoint. `leader`: the process of the launcher."""
    done = site.network.run(0, [site.program, "stop", str(run)])
    check(done.returncode == 0, f"stop: {done.stdout}{done.stderr}")
    finish(leader, 75)
    for agent in agents:
        agent.terminate()
        finish(agent)


def ends_here(site, run, leader, *agents):
    """A case has seen enough: the run stops, and its steps have the bits of an undisturbed run."""
    stop_here(site, run, leader, *agents)
    last = max(event["step"] for event in events(run, "stopped"))
    check(last > 0, "stopped before the first step")
    site.same(run, reference(site, -(-last // LONG) * LONG))


def heavy_reference(site):
    run = site.folder / "alone-heavy"
    if not run.exists():
        finish(site.train(run, "cpu", HEAVY_STEPS, *HEAVY))
    return run
