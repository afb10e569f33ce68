"""A pool on an allocation of two nodes (examples/slurm/pool.sh): it starts the agent of the other node by itself and again
when that has died. A job over both nodes must end with
the bits of an undisturbed run."""
import json
import os
import signal
import subprocess
from pathlib import Path

from cluster import descendants

SCRIPT = Path(__file__).resolve().parents[2] / "examples/slurm/pool.sh"
SMALL = ["--cpus-per-task=1", "--mem=1024", "--time=10", "--export=ALL,ESTRAIN_INTERFACE=lo"]
PATIENCE = 180


class Pool:
    def __init__(self, estrain, folder):
        self.estrain, self.folder = estrain, folder

    def ask(self, verb, *more):
        done = subprocess.run([self.estrain, "pool", verb, str(self.folder), *more], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        return done.stdout if done.returncode == 0 else ""

    def devices(self):
        return [(one["host"], one["state"]) for one in json.loads(self.ask("devices", "--json") or "[]")]

    def job(self):
        return json.loads(self.ask("list", "--json"))[0]


def processes_of(words):
    """Descendants whose command line has all of these words."""
    found = []
    for pid in descendants():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if all(word.encode() in line for word in words) and b"srun" not in line:
            found.append(pid)
    return found


def lose_the_agent(pool, report, allocation):
    agents = processes_of(["agent", "--pool", "n2"])
    report.equal("one agent on the other node", len(agents), 1)
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    allocation.wait("the loss of the agent", lambda _: "no agent" in pool.ask("log"), PATIENCE)
    allocation.wait("another agent", lambda _: pool.ask("log").count("joined") == 2, PATIENCE)
    report.check("the pool starts another", ("n2", "free") in pool.devices(), pool.devices())


def pool_on_allocation(cluster, folder, report, Job, estrain, spec):
    pool = Pool(estrain, folder / "pool")
    allocation = Job(cluster, folder, "allocation", [*SMALL, "--nodes=2", "--nodelist=n1,n2"],
                     [str(SCRIPT), str(pool.folder), "--policy", "fifo"])
    allocation.wait("devices of both nodes", lambda _: {host for host, _ in pool.devices()} == {"n1", "n2"}, PATIENCE)
    report.equal("all cores of the allocation are the pool's", sorted(pool.devices()), [("n1", "free"), ("n2", "free")])
    lose_the_agent(pool, report, allocation)
    submitted = subprocess.run([estrain, "pool", "submit", str(pool.folder), spec[0], *spec[1], "--set",
                                'resources.devices="2"'], capture_output=True, text=True)
    report.check("a job for both nodes", submitted.returncode == 0, submitted.stdout + submitted.stderr)
    allocation.wait("a job on both nodes", lambda _: pool.job()["devices"] == ["cpu", "n2/cpu"], PATIENCE)
    allocation.wait("the job's end", lambda _: pool.job()["phase"] == "done", PATIENCE)
    cluster.run("scancel", allocation.id)
    allocation.wait_for_state("CANCELLED", PATIENCE)
    return pool.folder / "jobs/1/run"
