"""Runs the checks, each in a process of its own that is ended when its time is over, whatever it does."""

import os
import re
import signal
import shutil
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import checks
from archive import Archives, write_file
from machine import CHOICES, as_json
from process_tree import signal_all, with_descendants
from report import Failed, Report, Skipped, read_report
from tables import heading, line_of, markdown

SIDE_BY_SIDE = 4  # checks of bits; fewer where there are few cores
CORES_EACH = 4
PATIENCE_SECONDS = 4  # with a check that was asked to end
WORTH_BEGINNING = 0.5  # of the time that a check may take, that must be left
SKIPPED = 77  # exit code where nothing was tried, as ctest and automake have it
LOOKS_SECONDS = 0.05


def slug(name):
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def run_one(machine, name):
    """The process of one check: what it finds goes to report.jsonl of its folder."""
    check = next(check for check in checks.all_checks() if check.name == name)
    machine.scratch = machine.work / slug(name)
    report = Report(machine.scratch / "report.jsonl")
    try:
        report.end("passed", check.make(machine, report))
    except Skipped as reason:
        report.end("skipped", str(reason))
    except Failed as reason:
        report.end("failed", str(reason))
    except Exception as error:  # noqa: BLE001: whatever it is belongs into the report
        traceback.print_exc()
        report.end("failed", f"{type(error).__name__}: {error}")
    return 0


@dataclass
class Running:
    check: checks.Check
    process: subprocess.Popen
    folder: Path
    began: float
    until: float
    cut_short: bool  # has less time than the check may take

    @classmethod
    def start(cls, machine, check, until):
        folder = machine.work / slug(check.name)
        folder.mkdir()
        command = [sys.executable, sys.argv[0], "--check", check.name, "--out", machine.out, "--program", machine.build,
                   "--work", machine.work, *(["--dry-run", machine.device] if machine.dry_run else [])]  # fmt: skip
        with open(folder / "output.log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        now = time.monotonic()
        end = now + machine.patience(check.seconds)
        return cls(check, process, folder, now, min(until, end), until < end)

    def is_over(self):
        return self.process.poll() is not None or time.monotonic() > self.until

    def end(self):
        """Kills all processes that are left of it. Does not wait for one that the kernel does not let go."""
        if self.process.poll() is None:
            tree = with_descendants(self.process.pid)
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            signal_all(tree, signal.SIGKILL)
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                pass

    def result(self):
        took = time.monotonic() - self.began
        in_time = self.process.poll() is not None
        self.end()
        figures, found, ended = read_report(self.folder / "report.jsonl")
        if ended is None:
            why = f"ended with code {self.process.returncode}" if in_time else f"took longer than {took:.0f} s"
            tail = (self.folder / "output.log").read_text(errors="replace")[-2000:]
            words = "; ".join([why, *found]) + f"; see {self.folder.name}/\n{tail}"
            ended = {"verdict": "skipped" if self.cut_short and not in_time else "failed", "words": words}
        if ended["verdict"] == "failed":
            (self.folder / "failure.txt").write_text(ended["words"] + "\n")
        return {"check": self.check.name, **ended, "seconds": round(took, 1), "figures": figures}


class Results:
    """The results so far: printed, and written anew after every check, in at most six files."""

    def __init__(self, machine):
        self.machine, self.told, self.results, self.archives = machine, machine.describe(), [], Archives()
        for old in [*machine.out.glob("logs*.tar.gz"), machine.out / CHOICES]:
            old.unlink(missing_ok=True)
        print("\n".join(f"{name}: {value}" for name, value in self.told.items()), flush=True)
        print(heading(), flush=True)

    def add(self, result, folder=None):
        """`folder`: with the logs of the check."""
        self.results.append(result)
        print(line_of(result), flush=True)
        if folder:
            self.archives.take(folder, result["verdict"] == "failed")
        self.write()

    def write(self):
        order = [check.name for check in checks.all_checks()]
        self.results.sort(key=lambda result: order.index(result["check"]))
        out, found = self.machine.out, {"machine": self.told, "checks": self.results}
        write_file(out / "table.md", markdown(self.told, self.results).encode())
        write_file(out / "results.json", as_json(found).encode())
        self.archives.write(out)
        if (self.machine.work / CHOICES).exists():
            write_file(out / CHOICES, (self.machine.work / CHOICES).read_bytes())

    def count(self, verdict):
        return sum(result["verdict"] == verdict for result in self.results)


def run(machine, wanted, seconds):
    """`wanted`: the checks to be made, in this order."""
    begin = time.monotonic()
    until = begin + seconds
    results, waiting = Results(machine), list(wanted)
    lanes = max(1, min(SIDE_BY_SIDE, (os.cpu_count() or 1) // CORES_EACH))
    running = []
    try:
        while waiting or running:
            for over in [one for one in running if one.is_over()]:
                results.add(over.result(), over.folder)
                running.remove(over)
            for late in [check for check in waiting if too_late(check, until)]:
                words = {"verdict": "skipped", "words": f"out of time: {seconds:.0f} s", "seconds": 0.0, "figures": []}
                results.add({"check": late.name, **words})
                waiting.remove(late)
            if waiting and may_start(waiting[0], running, lanes):
                running.append(Running.start(machine, waiting.pop(0), until))
            else:
                time.sleep(LOOKS_SECONDS)
    finally:
        for one in running:
            results.add(one.result(), one.folder)
        shutil.rmtree(machine.work, ignore_errors=True)
    counts = ", ".join(f"{results.count(verdict)} {verdict}" for verdict in ("passed", "failed", "skipped"))
    figures = [figure for result in results.results for figure in result["figures"]]
    met = sum(figure["met"] for figure in figures)
    print(f"{met} of {len(figures)} figures met; {counts}; {time.monotonic() - begin:.0f} s")
    return exit_code(results)


def exit_code(results):
    """A skipped check shows nothing: where all were skipped, that is no success."""
    if results.count("failed"):
        return 1
    return 0 if results.count("passed") else SKIPPED


def too_late(check, until):
    return until - time.monotonic() < WORTH_BEGINNING * check.seconds


def may_start(check, running, lanes):
    if any(one.check.alone for one in running):
        return False
    return not running if check.alone else len(running) < lanes
