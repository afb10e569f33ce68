"""The faults of a chaos run. A Fault is planned: its kind, phase and step. A Shot is an injected fault: its target, the
phase observed, and a check, from the run's records or the end of the process, that it hit. Only a confirmed shot counts
as fired. The run's diagnosis is judged separately: a wrong cause is a failure and never retried."""
import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from run import Lost, read_process

PHASES = ["start", "training", "snapshot", "save", "resize", "recovery"]
STATES = ["starting", "training", "warming", "pausing", "recovering", "ending"]  # reported by `estrain status`
PATIENCE = 60  # seconds to wait for anything
MB = 1 << 20
SHORT_PAUSE = 0.9  # seconds; after one second, a launcher considers a stopped worker lost


@dataclass
class Fault:
    kind: str
    phase: str = "training"
    step: int = 0  # fires when this step is committed; 0: as soon as the phase begins
    delay: float = 0.0  # seconds after that
    target: str = "any"  # of worker faults: any, first, newcomer (not yet in a stage), survivor
    devices: int = 2  # for a resize
    gives_up: bool = False  # the fault should end the launch, with exit code 1


@dataclass
class Shot:
    fault: Fault
    phase: str
    step: int
    launch: int
    pid: int = 0
    evidence: Optional[Callable[[], bool]] = None
    causes: Optional[list] = None  # that the run may record for process `pid`; empty: it must record none; None: not
                                   # checked
    problems: list = field(default_factory=list)

    def wrong_causes(self, run):
        """Wrong causes that the run recorded for the target. A survivor may have been hit by another fault."""
        if self.causes is None or (not self.causes and self.pid in run.struck):
            return []
        named = [event["cause"] for event in run.events("fault") if event.get("pid") == self.pid]
        return [f"process {self.pid} was hit by {self.fault.kind}, and the run names {cause} instead of "
                f"{' or '.join(self.causes) or 'nothing'}" for cause in named if cause not in self.causes]


def process_fault(run, pid):
    """A check that the run recorded a fault of process `pid`, with any cause."""
    return lambda: any(event.get("pid") == pid for event in run.events("fault"))


def more_events(run, name, holds=lambda event: True):
    """A check that a new event appears."""
    count = lambda: sum(1 for event in run.events(name) if holds(event))
    before = count()
    return lambda: count() > before


# --- targets


def pick_worker(run, fault, random):
    """The target process; None if there is none."""
    found = []

    def any_there():
        workers = run.workers()
        if fault.target == "newcomer":
            workers = run.newcomers()
        elif fault.target == "survivor":
            workers = [w for w in workers if w.pid in run.seated]
        found[:] = [w for w in workers if w.pid not in run.struck]
        return bool(found)

    if not run.until(any_there, PATIENCE):
        return None
    return found[0] if fault.target == "first" else random.choice(found)


def strike(run, process, number, survives=False):
    """False if it has ended."""
    now = read_process(process.pid)
    if not now or now.begun != process.begun:
        return False
    if not survives:
        run.struck.add(process.pid)
    os.kill(process.pid, number)
    return True


# --- kinds: functions of (run, fault, random) that inject the fault and return the shot, or None without a target


def shot_of(run, fault, phase, pid, evidence, causes=None):
    return Shot(fault, phase, run.step(), run.launches, pid, evidence, causes)


def signal_worker(number):
    causes = {signal.SIGKILL: ["killed"], signal.SIGSEGV: ["invalid_memory_access"], signal.SIGABRT: ["core_dump"],
              signal.SIGSTOP: ["hung"]}[number]

    def fire(run, fault, random):
        worker = pick_worker(run, fault, random)
        phase = run.phase()
        if not worker or not strike(run, worker, number):
            return None
        return shot_of(run, fault, phase, worker.pid, process_fault(run, worker.pid), causes)

    return fire


def pause_worker(run, fault, random):
    """A pause too short to be a hang: the run continues with the same worker. A pause that this process, on a busy
    machine, ended too late does not count."""
    worker = pick_worker(run, fault, random)
    phase = run.phase()
    begin = time.monotonic()
    if not worker or not strike(run, worker, signal.SIGSTOP, survives=True):
        return None
    time.sleep(0.05)
    seen = read_process(worker.pid)
    time.sleep(random.uniform(0.05, 0.3))
    os.kill(worker.pid, signal.SIGCONT)
    was_short = time.monotonic() - begin < SHORT_PAUSE
    shot = shot_of(run, fault, phase, worker.pid, lambda: seen is not None and seen.state == "T" and was_short)
    shot.causes = [] if was_short else None
    return shot


def signal_scribe(number):
    def fire(run, fault, random):
        if not run.until(lambda: run.scribe() is not None and run.scribe().pid not in run.struck, PATIENCE):
            return None
        scribe, phase = run.scribe(), run.phase()
        recorded = more_events(run, "fault", lambda event: event["worker"] == "scribe")
        if not scribe or not strike(run, scribe, number):
            return None
        run.until(recorded, 10, 0.01)
        return shot_of(run, fault, phase, scribe.pid, recorded)

    return fire


def signal_launcher(number):
    def fire(run, fault, random):
        phase = run.phase()
        if run.code() is not None:
            return None
        shot = shot_of(run, fault, phase, run.launcher.pid, lambda: code == -number)
        run.launcher.send_signal(number)
        code = run.wait(PATIENCE)
        begin = time.monotonic()
        while any((p := read_process(pid)) and p.verb == "worker" for pid in run.members()):
            if time.monotonic() - begin > PATIENCE:
                raise Lost("the workers' end after that of their launcher")
            time.sleep(0.01)
        return relaunch(run, shot, random)

    return fire


def kill_everybody(run, fault, random):
    """Simulates a power cut: kills all processes, so that none can save anything."""
    phase, step, members = run.phase(), run.step(), run.members()
    scribe = run.scribe()
    if run.code() is not None:
        return None
    shot = Shot(fault, phase, step, run.launches, run.launcher.pid, lambda: code == -signal.SIGKILL)
    # Kill the launcher first; otherwise it would start a recovery.
    for pid in [run.launcher.pid] + ([scribe.pid] if scribe else []) + members:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    code = run.wait(PATIENCE)
    return relaunch(run, shot, random)


def pause(whom):
    """SIGSTOP, and SIGCONT later than hang detection would fire: no worker may be blamed for it."""

    def fire(run, fault, random):
        phase = run.phase()
        others = run.workers() + ([run.scribe()] if run.scribe() else []) if whom == "everybody" else []
        if run.code() is not None:
            return None
        blamed = more_events(run, "fault", lambda event: event["cause"] == "hung")
        stopped = [run.launcher.pid] + [other.pid for other in others]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)
        states = [process.state for pid in stopped if (process := read_process(pid))]
        time.sleep(random.uniform(1.2, 2.5))
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        shot = shot_of(run, fault, phase, run.launcher.pid, lambda: "T" in states)
        run.until(lambda: False, 0.3, 0.05)
        if blamed():
            shot.problems.append("a pause of the launcher was held against others")
        return shot

    return fire


def order_reader(order, causes):
    """A reader thread of a worker executes it (inject.cpp)."""

    def fire(run, fault, random):
        worker = pick_worker(run, fault, random)
        if not worker:
            return None
        path = run.orders / f"{order}-{worker.pid}"
        phase = run.phase()
        run.struck.add(worker.pid)
        if order == "allocate":
            limit_memory(worker.pid, 64 * MB)
        path.touch()
        done = path.with_name(path.name + ".done")
        run.until(done.exists, 5)
        path.unlink(missing_ok=True)
        recorded = process_fault(run, worker.pid)
        return shot_of(run, fault, phase, worker.pid, lambda: done.exists() and recorded(), causes)

    return fire


def memory_size(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def limit_memory(pid, more):
    """Current usage of the process plus this much."""
    resource.prlimit(pid, resource.RLIMIT_AS, (memory_size(pid) + more, resource.RLIM_INFINITY))


def starve_newcomer(run, fault, random):
    """A starting worker hits its limit at an arbitrary point: in an allocation or a thread's start.

    The limit follows the worker down: a worker that gives memory back would have room again.
    """
    worker = pick_worker(run, fault, random)
    phase = run.phase()
    if not worker:
        return None
    run.struck.add(worker.pid)
    more = int(random.uniform(0, 10) * MB)
    least = [float("inf")]

    def has_died():
        try:
            if memory_size(worker.pid) < least[0]:
                least[0] = memory_size(worker.pid)
                limit_memory(worker.pid, more)
        except OSError:
            return True
        return False

    if has_died():
        return None
    recorded = process_fault(run, worker.pid)
    run.until(has_died, 0.3, 0.002)
    return shot_of(run, fault, phase, worker.pid, recorded, ["cpu_out_of_memory", "resource_limit"])


def fill_disk(run, fault, random):
    """Fills the disk for a while: records must wait, and training must continue once space is free."""
    fill = fill_file_system if run.tools.full_disk(run.path) else limit_scribe
    return fill(run, fault, random)


def limit_scribe(run, fault, random):
    if not run.until(lambda: run.scribe() is not None, PATIENCE):
        return None
    scribe, phase = run.scribe(), run.phase()
    refused = more_events(run, "write_failed")
    not_saved = more_events(run, "checkpoint_failed")
    noticed = lambda: refused() or not_saved()
    try:
        resource.prlimit(scribe.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    except ProcessLookupError:
        return None
    shot = shot_of(run, fault, phase, scribe.pid, noticed)
    run.until(noticed, 5, 0.005)
    time.sleep(random.uniform(0, 0.5))
    try:
        resource.prlimit(scribe.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ProcessLookupError:
        pass
    return shot


def fill_up(folder):
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        size = MB
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return filler


def comes(holds):
    """Whether it waits for space, with or without a launcher."""
    deadline = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def kill_launcher_on_full_disk(run, fault, random):
    """The scribe holds the committed state and waits for space. A launch is refused until then."""
    scribe, phase = run.scribe(), run.phase()
    if not scribe or not run.tools.full_disk(run.path):
        return None
    warned = run.said().count("records wait in memory")
    filler = fill_up(run.path)
    run.until(lambda: run.said().count("records wait in memory") > warned, PATIENCE)
    committed, name = run.step(), Path(f"/proc/{scribe.pid}/comm")
    shot = shot_of(run, fault, phase, run.launcher.pid, lambda: run.events("start")[-1]["step"] >= committed)
    run.launcher.kill()
    run.wait(PATIENCE)
    if not comes(lambda: name.exists() and name.read_text() == "waits for room\n"):
        shot.problems.append("the scribe does not wait for room")
    run.launch()  # which detects the full disk at once
    if run.wait(PATIENCE) != 1 or "disk space" not in run.said():
        shot.problems.append("a launch on a full disk is not refused for want of room")
    filler.unlink()
    run.launch()
    return shot


def fill_file_system(run, fault, random):
    said = lambda: run.said().count("records wait in memory") + run.said().count("warning: no checkpoint at step")
    before, phase = said(), run.phase()
    filler = fill_up(run.path)
    shot = shot_of(run, fault, phase, 0, lambda: said() > before)
    run.until(lambda: said() > before, 5, 0.005)
    time.sleep(random.uniform(0, 0.5))
    filler.unlink()
    return shot


def stop(number):
    def fire(run, fault, random):
        phase = run.phase()
        if not run.until(lambda: run.scribe() is not None, PATIENCE):  # then the launcher handles its signals
            return None
        recorded = more_events(run, "stopped")
        shot = shot_of(run, fault, phase, run.launcher.pid, lambda: code == 75 and recorded())
        run.launcher.send_signal(number)
        code = run.wait(PATIENCE)
        return relaunch(run, shot, random) if code == 75 else shot

    return fire


def damage_checkpoint(how):
    """Damages the newest checkpoint of a killed run, which must fall back to the previous one."""

    def fire(run, fault, random):
        if run.code() is not None:
            return None
        phase, step = run.phase(), run.step()
        run.launcher.kill()
        run.wait(PATIENCE)
        wait_for_nobody(run)
        files = run.checkpoints()
        shot = Shot(fault, phase, step, run.launches, 0, lambda: False)
        if files:
            newest = files[-1]
            recorded = more_events(run, "checkpoint_skipped", lambda event: event["path"] == str(newest))
            shot.evidence = recorded
            damage(newest, how, random)
        relaunch(run, shot, random)
        if files:
            run.until(lambda: recorded() or run.begun, PATIENCE, 0.01)
            if run.begun and not recorded():
                shot.problems.append(f"{newest}: damaged ({how}) and not noticed")
        return shot

    return fire


def damage(path, how, random):
    content = bytearray(path.read_bytes())
    if how == "truncate":
        del content[random.randrange(len(content)) :]
    else:
        content[random.randrange(len(content))] ^= random.randint(1, 255)
    path.write_bytes(content)


def resize(run, fault, random):
    """Retries if refused during a recovery or a start; the phase is that of the first attempt."""
    phase, step = run.phase(), run.step()
    if phase == "resize" or not run.ask_for_resize(fault.devices):
        return None
    number = len(run.answers)
    shot = Shot(fault, phase, step, run.launches, run.launcher.pid)
    answer = lambda: run.answers[number] if len(run.answers) > number else {}
    shot.evidence = lambda: answer().get("ok", False)
    if phase == "recovery":
        launch = run.launches
        while run.until(lambda: len(run.answers) > number, PATIENCE, 0.01) and "try again" in answer().get("advice", ""):
            time.sleep(0.05)
            number += 1
            if run.launches != launch or not run.ask_for_resize(fault.devices):
                break
    return shot


def wait_for_nobody(run):
    deadline = time.monotonic() + PATIENCE
    while run.members():
        if time.monotonic() > deadline:
            raise Lost(f"processes stay behind after the launcher's end: {run.members()}")
        time.sleep(0.02)


def relaunch(run, shot, random):
    """Relaunches at once or after all have ended, on the same or other devices."""
    if random.random() < 0.5:
        wait_for_nobody(run)
    if random.random() < 0.5:
        run.devices = random.randint(1, 4)
    if run.client:
        run.until(lambda: not run.client, 0)
        run.client and run.client.close()
        run.client = None
    run.launch()
    return shot


KINDS = {
    "worker-kill": ("a worker gets SIGKILL", signal_worker(signal.SIGKILL)),
    "worker-segv": ("a worker gets SIGSEGV", signal_worker(signal.SIGSEGV)),
    "worker-abort": ("a worker gets SIGABRT", signal_worker(signal.SIGABRT)),
    "worker-stop": ("a worker gets SIGSTOP, for good", signal_worker(signal.SIGSTOP)),
    "worker-pause": ("a worker gets SIGSTOP, and SIGCONT within 0.4 s", pause_worker),
    "scribe-kill": ("the scribe gets SIGKILL", signal_scribe(signal.SIGKILL)),
    "scribe-segv": ("the scribe gets SIGSEGV", signal_scribe(signal.SIGSEGV)),
    "scribe-abort": ("the scribe gets SIGABRT", signal_scribe(signal.SIGABRT)),
    "scribe-stop": ("the scribe gets SIGSTOP, for good", signal_scribe(signal.SIGSTOP)),
    "launcher-kill": ("the launcher gets SIGKILL; --resume", signal_launcher(signal.SIGKILL)),
    "launcher-segv": ("the launcher gets SIGSEGV; --resume", signal_launcher(signal.SIGSEGV)),
    "launcher-abort": ("the launcher gets SIGABRT; --resume", signal_launcher(signal.SIGABRT)),
    "launcher-pause": ("the launcher gets SIGSTOP, and SIGCONT after 1.3 to 2.6 s", pause("launcher")),
    "all-kill": ("scribe, launcher and workers get SIGKILL at once; --resume", kill_everybody),
    "all-pause": ("all processes get SIGSTOP, and SIGCONT after 1.3 to 2.6 s", pause("everybody")),
    "loader-exit": ("a reader thread of a worker calls exit(1)", order_reader("exit", None)),
    "loader-abort": ("a reader thread of a worker calls abort()", order_reader("abort", ["core_dump"])),
    "loader-segv": ("a reader thread of a worker writes to address 0", order_reader("segfault", ["invalid_memory_access"])),
    "memory-limit": ("a worker reaches its memory limit (RLIMIT_AS)", order_reader("allocate", ["cpu_out_of_memory"])),
    "memory-limit-start": ("a starting worker reaches its memory limit (RLIMIT_AS)", starve_newcomer),
    "disk-full": ("nothing can be written for a while (a full tmpfs, or RLIMIT_FSIZE of the scribe)", fill_disk),
    "launcher-kill-full-disk": ("the launcher gets SIGKILL while nothing can be written (a full tmpfs); --resume",
                                kill_launcher_on_full_disk),
    "checkpoint-truncate": ("launcher killed, newest checkpoint cut short; --resume", damage_checkpoint("truncate")),
    "checkpoint-flip": ("launcher killed, one byte of the newest checkpoint changed; --resume", damage_checkpoint("flip")),
    "stop-term": ("the launcher gets SIGTERM: exit code 75; --resume", stop(signal.SIGTERM)),
    "stop-int": ("the launcher gets SIGINT: exit code 75; --resume", stop(signal.SIGINT)),
    "stop-usr1": ("the launcher gets SIGUSR1: exit code 75; --resume", stop(signal.SIGUSR1)),
    "resize": ("another number of devices is asked for", resize),
}


def wait_for_moment(run, fault, random):
    """False if the run ended before."""
    if fault.phase == "start":
        if not run.until(lambda: bool(run.workers()) or run.begun, PATIENCE):
            return False
        end = time.monotonic() + fault.delay
        run.until(lambda: run.begun or time.monotonic() > end, PATIENCE)
        return run.code() is None
    if not run.until(lambda: run.begun and run.step() >= fault.step, PATIENCE):
        return False
    if fault.phase == "training":
        run.until(lambda: run.client is None and not run.words["abort"], PATIENCE)
        run.note_seated()
        run.until(lambda: False, fault.delay)
    elif fault.phase == "resize":
        end = time.monotonic() + fault.delay
        run.until(lambda: not run.client or time.monotonic() > end, PATIENCE)
    elif fault.phase == "recovery":
        run.until(lambda: run.words["abort"] == 1, 4)
        end = time.monotonic() + fault.delay
        run.until(lambda: run.words["abort"] == 0 or time.monotonic() > end, PATIENCE)
    else:
        run.until(lambda: run.client is None and not run.words["abort"], PATIENCE)
        run.note_seated()
        run.until(lambda: run.phase() == fault.phase, 5, 0)
    return run.code() is None


def fire(run, fault, random):
    """The shot; None if the phase did not occur or no target existed."""
    if not wait_for_moment(run, fault, random):
        return None
    shot = KINDS[fault.kind][1](run, fault, random)
    answer = run.ask_for_status() if run.code() is None else None
    has_ended = answer and "the launcher has ended" in answer.get("error", "")  # since code() was asked
    if shot and answer and not has_ended and answer.get("state") not in STATES:
        shot.problems.append(f"what is this state? {answer}")
    return shot
