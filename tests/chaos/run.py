"""One run of estrain, observed from outside: its successive launches, processes, shared memory, files and control
socket."""
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import time
from collections import namedtuple
from pathlib import Path

MEMORY_NAME = "/memfd:estrain"
Process = namedtuple("Process", "pid verb begun state")  # begun: the kernel's start ticks, which distinguish processes
                                                         # with a reused pid


class Lost(Exception):
    """A wait timed out."""


def read_process(pid):
    """None if there is no such process, or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    verb = words[1].decode(errors="replace") if len(words) > 1 else ""
    return Process(pid, verb, int(fields[19]), fields[0])


def pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


class Words:
    """The header of a job's shared memory."""

    def __init__(self, offsets, launcher):
        self.offsets, self.map, self.inode = offsets, None, None
        for entry in os.listdir(f"/proc/{launcher}/fd"):
            path = f"/proc/{launcher}/fd/{entry}"
            if not os.readlink(path).startswith(MEMORY_NAME):
                continue
            fd = os.open(path, os.O_RDONLY)
            self.inode = os.fstat(fd).st_ino
            self.map = mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ)
            os.close(fd)
            return
        raise FileNotFoundError(MEMORY_NAME)

    def __getitem__(self, name):
        offset, size = self.offsets[name]
        return struct.unpack_from("<q" if size == 8 else "<I", self.map, offset)[0]


class Run:
    def __init__(self, tools, folder, spec, devices):
        self.tools, self.folder, self.spec, self.devices = tools, Path(folder), Path(spec), devices
        self.path = self.folder / "run"
        self.orders = self.folder / "orders"
        self.orders.mkdir(parents=True, exist_ok=True)
        self.output = self.folder / "output.txt"
        self.launches, self.launcher, self.words = 0, None, None
        self.begun = False  # the current launch has begun its first stage
        self.seated = set()  # workers seen while it trained
        self.struck = set()  # workers and scribes hit by a fatal fault; none is hit twice
        self.inodes = set()  # inodes of all shared memories of the run
        self.client, self.answers = None, []  # socket that waits for the answer to a resize; answers so far

    # --- launches

    def launch(self, *more):
        arguments = [self.tools.estrain, "train", self.spec, "--run", self.path, "--devices", str(self.devices), *more]
        if self.launches > 0:
            arguments.append("--resume")
        environment = dict(os.environ, LD_PRELOAD=str(self.tools.inject), ESTRAIN_CHAOS_ORDERS=str(self.orders))
        self.launches += 1
        self.begun, self.words, self.seated = False, None, set()
        with open(self.output, "ab") as output:
            output.write(f"--- launch {self.launches}\n".encode())
            output.flush()
            # Signals keep Python's settings: SIGXFSZ is ignored, so that exceeding a file size limit is an error like a
            # full disk.
            self.launcher = subprocess.Popen(
                list(map(str, arguments)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                restore_signals=False)
        self.launched = time.monotonic()

    def code(self):
        """None while it runs; negative: the fatal signal."""
        return self.launcher.poll()

    def wait(self, seconds):
        try:
            return self.launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Lost(f"the launcher did not end in {seconds} s") from None

    # --- processes

    def children(self, verb):
        """Children of the launcher, oldest first."""
        try:
            text = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children").read_text()
        except OSError:
            return []
        found = [read_process(int(pid)) for pid in text.split()]
        return sorted((p for p in found if p and p.verb == verb), key=lambda p: (p.begun, p.pid))

    def workers(self):
        return self.children("worker")

    def newcomers(self):
        return [worker for worker in self.workers() if worker.pid not in self.seated]

    def scribe(self):
        found = self.children("scribe")
        return found[-1] if found else None

    def members(self):
        """All processes of the run, with any parent, including those that only map its memory."""
        mine, path = [], str(self.path).encode()
        for pid in pids():
            if pid == os.getpid():  # this process maps the memory, too
                continue
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if (path in words or self.holds_memory(pid)) and read_process(pid):
                mine.append(pid)
        return mine

    def holds_memory(self, pid):
        try:
            entries = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            return False
        return any(self.is_memory(f"/proc/{pid}/fd/{entry}") for entry in entries)

    def is_memory(self, path):
        try:
            return os.readlink(path).startswith(MEMORY_NAME) and os.stat(path).st_ino in self.inodes
        except OSError:
            return False

    def kill_everybody(self):
        for pid in self.members():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.launcher:
            self.launcher.wait()

    # --- state

    def look(self):
        """Updates what is known of the run. Cheap: called all the time."""
        if self.words is None and self.code() is None:
            try:
                self.words = Words(self.tools.offsets, self.launcher.pid)
                self.inodes.add(self.words.inode)
            except (OSError, ValueError):  # no memory yet, or not yet of its full size
                pass
        if self.words and not self.begun and self.words["ready"] and self.words["stage_started"] > 0:
            self.begun = True
        self.receive_answer()

    def step(self):
        return self.words["committed"] if self.words and self.words["ready"] else 0

    def saving(self):
        try:
            return any(name.endswith(".h5.tmp") for name in os.listdir(self.path / "checkpoints"))
        except OSError:
            return False

    def phase(self):
        self.look()
        if not self.begun:
            return "start"
        if self.words["abort"]:
            return "recovery"
        if self.client or self.words["pause_request"]:
            return "resize"
        if self.words["held_step"] >= 0:
            return "snapshot"
        return "save" if self.saving() else "training"

    def until(self, holds, seconds, pause=0.001):
        """False if the launcher ended or the time ran out."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            if self.code() is not None:
                return False
            if holds():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)

    def note_seated(self):
        if self.begun and not self.words["abort"] and not self.client:
            self.seated = {worker.pid for worker in self.workers()}

    # --- files

    def events(self, *names):
        try:
            lines = (self.path / "events.jsonl").read_text().split("\n")[:-1]
        except OSError:
            return []
        all_events = [json.loads(line) for line in lines]
        return [event for event in all_events if not names or event["event"] in names]

    def said(self):
        return self.output.read_text(errors="replace")

    def checkpoints(self):
        """Oldest first."""
        return sorted((self.path / "checkpoints").glob("step-*.h5"))

    # --- the control socket

    def ask_for_resize(self, devices):
        """Does not wait for the answer; receive_answer() does. False if no launcher answers."""
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(2)
        try:
            client.connect(str(self.path / "control.sock"))
            client.sendall(json.dumps({"do": "resize", "devices": str(devices)}).encode() + b"\n")
        except OSError:
            client.close()
            return False
        client.setblocking(False)
        self.client, self.unread = client, b""
        return True

    def ask_for_status(self):
        """The answer; None if there was none, for example from a launcher that is ending."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(5)
            try:
                client.connect(str(self.path / "control.sock"))
                client.sendall(b'{"do": "status"}\n')
                return json.loads(client.makefile().readline())
            except (OSError, ValueError):
                return None

    def receive_answer(self):
        if not self.client:
            return
        try:
            got = self.client.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self.unread += got
        if got and not self.unread.endswith(b"\n"):
            return
        self.client.close()
        self.client = None
        self.answers.append(json.loads(self.unread) if self.unread else {"ok": False, "error": "hung up"})
