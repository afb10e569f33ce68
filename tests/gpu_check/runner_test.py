#!/usr/bin/env python3
"""Whatever a check of scripts/gpu-check does, it is ended in time, what it found counts, and the others are made."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE / "scripts" / folder) for folder in ("gpu", "benchmarks")]

import checks  # noqa: E402
import runner  # noqa: E402
from checks import Check  # noqa: E402
from figures import HIGHER  # noqa: E402
from machine import Machine  # noqa: E402
from report import Failed, Skipped  # noqa: E402

SLEEPS = "60.125"  # seconds; tells this test's processes from others


def passes(machine, report):
    (machine.new_folder("run") / "train.log").write_text("kept")
    report.figure("speed", HIGHER, 1.05, [1.5, 1.0, 1.25], "made up", " x", "note")
    return "fine"


def hangs(_, report):
    report.figure("before it hung", HIGHER, 2.0, [1.0], "made up")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.run(["sleep", SLEEPS])


def crashes(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def says(kind):
    def check(*_):
        raise kind("in words")

    return check


def fake_checks():
    return [
        Check("hangs", hangs, 2), Check("crashes", crashes), Check("fails", says(Failed)),
        Check("throws", says(ValueError)), Check("skipped", says(Skipped)), Check("passes", passes, alone=True),
    ]  # fmt: skip


def main():
    checks.all_checks = fake_checks
    parser = argparse.ArgumentParser()
    for option in ("--check", "--out", "--program"):
        parser.add_argument(option)
    parser.add_argument("--dry-run")
    arguments = parser.parse_args()
    if arguments.check:
        machine = Machine(TREE, Path(arguments.program), Path(arguments.out), "cpu")
        return runner.run_one(machine, arguments.check)
    with tempfile.TemporaryDirectory() as folder:
        expect(Path(folder))
    return 0


def expect(folder):
    machine = Machine(TREE, folder, folder, "cpu")
    machine.describe = lambda: {"gpu": "none", "torch": "none", "time": "now", "dry_run": True}
    begin = time.monotonic()
    code = runner.run(machine, [], 60)
    took = time.monotonic() - begin
    results = {one["check"]: one for one in json.loads((folder / "results.json").read_text())["checks"]}
    verdicts = {name: one["verdict"] for name, one in results.items()}
    assert verdicts == {
        "hangs": "failed", "crashes": "failed", "fails": "failed", "throws": "failed", "skipped": "skipped",
        "passes": "passed",
    }, verdicts  # fmt: skip
    assert code == 1 and took < 30, (code, took)
    assert "took longer than" in results["hangs"]["words"] and "code -9" in results["crashes"]["words"], results
    assert results["throws"]["words"] == "ValueError: in words", results["throws"]
    assert [figure["verdict"] for figure in results["hangs"]["figures"]] == ["missed"], results["hangs"]
    [figure] = results["passes"]["figures"]
    assert figure["value"] == 1.25 and figure["verdict"] == "met" and figure["rounds"] == [1.5, 1.0, 1.25], figure
    assert (folder / "passes/01-run/train.log").read_text() == "kept"
    assert "| speed | 1.25 x [1.12, 1.38], met; note | ≥ 1.05 x | made up |" in (folder / "table.md").read_text()
    left = subprocess.run(["pgrep", "-f", f"sleep {SLEEPS}"], capture_output=True, text=True).stdout
    assert not left, f"left behind: {left}"
    late = runner.run(machine, [], 0)
    verdicts = {one["verdict"] for one in json.loads((folder / "results.json").read_text())["checks"]}
    assert verdicts == {"skipped"} and late == 0, (verdicts, late)


sys.exit(main())
