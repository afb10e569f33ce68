"""A program with its descendants: stopped, continued, ended and weighed together."""

import os
import signal
import time
from pathlib import Path


def stat_of(pid):
    """The fields of /proc/PID/stat behind the name: state, parent, …; none where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def children_of():
    """{pid: pids of its children} of all processes."""
    tree = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        if fields := stat_of(entry.name):
            tree.setdefault(int(fields[1]), []).append(int(entry.name))
    return tree


def with_descendants(pid):
    tree, found = children_of(), [pid]
    for process in found:
        found += tree.get(process, [])
    return found


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def is_running(pid):
    fields = stat_of(pid)
    return bool(fields) and fields[0] not in "ZX"


def end_tree(process, patience=5.0):
    """Ends a Popen and all that it started, at once, and waits so long for all to be gone, their memory too."""
    pids = with_descendants(process.pid) if process.poll() is None else []
    signal_all(pids, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + patience
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.01)


def wait_until(condition, what, seconds=120.0, process=None):
    """Looks every 2 ms until `condition()` gives something true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"ended with code {process.returncode} before {what}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {seconds} s")
        time.sleep(0.002)
    return result


MEMORY = ("Pss_Anon:", "Pss_Shmem:")


def memory_of(pids, kinds=MEMORY):
    """Bytes that these processes hold together, what they share counted once; without the pages of program files, which
    every other process of the host may share too."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(kinds))
    return total


def threads_of(pid):
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
