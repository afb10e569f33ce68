"""A private Slurm cluster on loopback: munged, slurmctld and a slurmd for each node, run by the current user, with all files in one
folder and free ports. It shares nothing with the machine's own Slurm: clients find it by SLURM_CONF, daemons by
absolute paths, and its credentials use their own key and socket.

All processes are children of this one, which also adopts their orphans (slurmstepd, and so jobs): `stop` ends them all.
If this process is killed, a guard ends all processes whose environment names the cluster's configuration. """
import contextlib
import ctypes
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "squeue", "sacct"]


def missing_programs():
    return [name for name in PROGRAMS if find(name) is None]


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count):
    """Distinct free ports below the kernel's ephemeral range. They are random, since they are used only a moment later:
    another cluster starting now hardly ever picks the same."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports += [port] if port not in ports else []
    return ports


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def processes_with(variable):
    """Pids of all processes started with this "NAME=value" in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and variable.encode() in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:
            continue
    return found


def descendants(root=None):
    """Pids of all descendants of a process, by default this one, except zombies."""
    root = root or os.getpid()
    parents = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != "Z":
            parents[int(entry)] = int(parent)
    found = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - {root}
        found |= more


class Cluster:
    def __init__(self, folder, cores, nodes=2):
        self.folder = Path(folder)
        self.daemons, self.guard = [], None
        self.nodes = [f"n{node + 1}" for node in range(nodes)]
        self.slurmd = {}
        self.conf = self.folder / "slurm.conf"
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
        self.environment["SLURM_CONF"] = str(self.conf)
        self.write_configuration(cores)

    def write_configuration(self, cores):
        self.folder.chmod(0o755)  # munged requires a reachable socket
        host, user = socket.gethostname().split(".")[0], getpass.getuser()
        controller, *ports = free_ports(1 + len(self.nodes))
        lines = "\n".join(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores} "
                          "RealMemory=4096 State=UNKNOWN" for node, port in zip(self.nodes, ports))
        names = ",".join(self.nodes)
        for name in ["state", *(f"spool-{node}" for node in self.nodes)]:
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        # cred_expire is also the time that a requeued job waits before it restarts (default: 2 minutes; minimum: 5 s).
        self.conf.write_text(f"""ClusterName=estrain-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=100000
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={self.folder}/jobcomp.txt
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=20
{lines}
PartitionName=batch Nodes={names} Default=YES MaxTime=60 PriorityTier=1 State=UP
PartitionName=urgent Nodes={names} MaxTime=60 PriorityTier=9 PreemptMode=OFF State=UP
""")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def start(self):
        if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot adopt orphans")
        self.start_guard()
        at = str(self.folder)
        self.daemon("munged", "--foreground", "--force", "--key-file", f"{at}/munge.key", "--socket", f"{at}/munge.socket",
                    "--pid-file", f"{at}/munged.pid", "--log-file", f"{at}/munged.log", "--seed-file", f"{at}/munged.seed",
                    "--num-threads", "2")
        self.wait_for("munged's socket", lambda: (self.folder / "munge.socket").exists(), 10)
        self.daemon("slurmctld", "-D", "-f", str(self.conf))
        for node in self.nodes:
            self.start_node(node)
        idle = f"idle {len(self.nodes)}"
        self.wait_for("all nodes idle", lambda: self.ask("sinfo", "-h", "-o", "%T %D", "-p", "batch") == idle, 30)

    def start_node(self, node):
        self.slurmd[node] = self.daemon("slurmd", "-D", "-N", node, "-f", str(self.conf))

    def kill_node(self, node):
        """Its daemon and everything that runs there, at once; then the controller is told, as a watchdog would."""
        daemon = self.slurmd.pop(node)
        everything = {daemon.pid, *descendants(daemon.pid), *processes_with(f"SLURMD_NODENAME={node}")}
        for pid in everything:
            kill(pid)
        daemon.wait()
        self.daemons = [(program, child) for program, child in self.daemons if child is not daemon]
        return self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")

    def mend_node(self, node):
        """Starts the daemon of a killed node and waits until Slurm uses the node again. Slurm refuses State=RESUME for a node that
        is not down any more, and on a busy machine for a node whose end Slurm has not taken in yet."""
        self.start_node(node)

        def is_used():
            self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
            return self.ask("sinfo", "-h", "-N", "-n", node, "-o", "%T").split()[:1] in (["idle"], ["mixed"], ["allocated"])

        self.wait_for(f"node {node} in use again", is_used, 60)

    def start_guard(self):
        """A process that waits for the end of this one and then ends the rest of the cluster."""
        alive, self.lifeline = os.pipe()
        self.guard = os.fork()
        if self.guard != 0:
            os.close(alive)
            return
        try:
            os.setsid()
            os.close(self.lifeline)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.read(alive, 1)  # until the other end is closed
            while left := processes_with(f"SLURM_CONF={self.conf}"):
                for pid in left:
                    kill(pid)
                time.sleep(0.05)
        finally:
            os._exit(0)

    def processes(self):
        return descendants() - {self.guard}

    def daemon(self, program, *arguments):
        log = open(self.folder / "daemons.log", "ab")
        child = subprocess.Popen([find(program), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 env=self.environment, cwd=self.folder, start_new_session=True)
        log.close()
        self.daemons.append((program, child))
        return child

    def run(self, program, *arguments, **more):
        """Runs a Slurm client: (exit code, output)."""
        done = subprocess.run([find(program) or program, *arguments], env={**self.environment, **more.pop("env", {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=30, **more)
        return done.returncode, done.stdout.strip()

    def ask(self, program, *arguments):
        return self.run(program, *arguments)[1]

    def wait_for(self, what, holds, seconds):
        end = time.monotonic() + seconds
        while not holds():
            for program, child in self.daemons:
                if child.poll() is not None:
                    raise RuntimeError(f"{program} has ended with {child.returncode} (waiting for {what})")
            if time.monotonic() > end:
                raise RuntimeError(f"gave up after {seconds} s waiting for {what}")
            time.sleep(0.05)

    def logs(self):
        """The tail of every log, for a failure's message."""
        texts = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-15:]
            texts.append(f"--- {path.name}\n" + "\n".join(lines))
        return "\n".join(texts)

    def stop(self):
        """Ends every process started by the cluster, directly or not. Returns how many outlived SIGTERM."""
        for _, child in self.daemons:
            child.terminate()
        end = time.monotonic() + 5
        while self.processes() and time.monotonic() < end:
            self.reap()
            time.sleep(0.02)
        stubborn = len(self.processes())
        while left := self.processes():
            for pid in left:
                kill(pid)
            self.reap()
            time.sleep(0.01)
        if self.guard:
            os.close(self.lifeline)
            os.waitpid(self.guard, 0)
        return stubborn

    def reap(self):
        for _, child in self.daemons:
            child.poll()
        while os.waitpid(-1, os.WNOHANG)[0] != 0:  # adopted processes; the guard always exists, so there is a child
            pass
