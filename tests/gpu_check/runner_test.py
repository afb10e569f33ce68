#!/usr/bin/env python3
"""A check of scripts/gpu-check ends in time whatever it does, its findings count, and the other checks run; all
together leave few files. Faults of kernels are not missed."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE / "scripts" / folder) for folder in ("gpu", "benchmarks")]

import archive  # noqa: E402
import checks  # noqa: E402
import kernel_checks  # noqa: E402
import pinned_choices  # noqa: E402
import runner  # noqa: E402
import traces  # noqa: E402
from checks import Check  # noqa: E402
from figures import HIGHER  # noqa: E402
from machine import CHOICES, Machine  # noqa: E402
from report import Failed, Skipped  # noqa: E402

MOST_FILES = 8
# Seconds, longer than any wait here; distinguishes this test's processes from others, even of the same test.
SLEEPS = os.environ.setdefault("ESTRAIN_TEST_SLEEPS", f"600.{os.getpid()}")
FAKE_GPU_CHECK = """#!/bin/bash
for part; do
  [[ $part == crashes ]] && kill -9 $$
  [[ $part == silent ]] && sleep """ + SLEEPS + """
  differing=0
  [[ $part == fails ]] && differing=1
  echo '{"part": "'$part'", "cases": 1, "differing": '$differing', "first": "seed 0"}'
  [[ $part == fails ]] && exit 3
done
exit 0
"""


def passes(machine, report):
    folder = machine.new_folder("run")
    (folder / "train.log").write_text("kept")
    (folder / "worker-0.log").write_bytes(b"0" * archive.MOST_BYTES_OF_FILE + b"end")
    (folder / "noise.log").write_bytes(os.urandom(archive.MOST_BYTES_OF_FILE))
    (folder / "checkpoint.h5").write_text("not kept")
    (machine.work / CHOICES).write_text("chosen\n")
    report.figure("speed", HIGHER, 1.05, [1.5, 1.0, 1.25], "made up", " x", "note")
    return "fine"


def hangs(_, report):
    report.figure("before it hung", HIGHER, 2.0, [1.0], "made up")
    report.found("half of it")
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
        Check("hangs", hangs, 2), Check("crashes", crashes, 9), Check("too long", passes, 1000),
        Check("fails", says(Failed), 9), Check("throws", says(ValueError), 9), Check("skipped", says(Skipped), 9),
        Check("passes", passes, 9, alone=True),
    ]  # fmt: skip


def main():
    checks.all_checks = fake_checks
    parser = argparse.ArgumentParser()
    for option in ("--check", "--out", "--program", "--work"):
        parser.add_argument(option)
    parser.add_argument("--dry-run")
    arguments = parser.parse_args()
    if arguments.check:
        machine = Machine(TREE, Path(arguments.program), Path(arguments.out), "cpu", Path(arguments.work))
        return runner.run_one(machine, arguments.check)
    expect_exit_codes()
    expect_limits()
    expect_judgements()
    expect_restarts()
    expect_exchange()
    expect_trace()
    with tempfile.TemporaryDirectory() as folder:
        expect(Path(folder))
    return 0


def run_all(out, seconds):
    machine = Machine(TREE, out, out, "cpu", Path(tempfile.mkdtemp()))
    machine.describe = lambda: {"gpu": "none", "torch": "none", "time": "now", "dry_run": True}
    code = runner.run(machine, checks.all_checks(), seconds)
    assert not machine.work.exists()
    files = [path for path in out.rglob("*")]
    assert len(files) <= MOST_FILES and all(file.is_file() and file.parent == out for file in files), files
    return code


def expect(folder):
    begin = time.monotonic()
    code = run_all(folder, 60)
    took = time.monotonic() - begin
    results = {one["check"]: one for one in json.loads((folder / "results.json").read_text())["checks"]}
    verdicts = {name: one["verdict"] for name, one in results.items()}
    assert verdicts == {
        "hangs": "failed", "crashes": "failed", "fails": "failed", "throws": "failed", "skipped": "skipped",
        "passes": "passed", "too long": "skipped",
    }, verdicts  # fmt: skip
    assert code == 1 and took < 300, (code, took)  # nobody waited for those that hang
    assert "took longer than" in results["hangs"]["words"], results["hangs"]
    assert " s; half of it; see hangs/" in results["hangs"]["words"], results["hangs"]
    assert "code -9" in results["crashes"]["words"], results
    assert results["throws"]["words"] == "ValueError: in words", results["throws"]
    assert [figure["verdict"] for figure in results["hangs"]["figures"]] == ["missed"], results["hangs"]
    [figure] = results["passes"]["figures"]
    assert figure["value"] == 1.25 and figure["verdict"] == "met" and figure["rounds"] == [1.5, 1.0, 1.25], figure
    with tarfile.open(folder / "logs.tar.gz") as logs:
        names = logs.getnames()
        assert names[:2] == ["hangs/failure.txt", "hangs/report.jsonl"] and "hangs/output.log" in names, names
        assert logs.extractfile("passes/01-run/train.log").read() == b"kept"
        assert logs.extractfile("passes/01-run/worker-0.log").read().endswith(b"0end")
        assert not [name for name in names if name.endswith(".h5")], names
    assert (folder / CHOICES).read_text() == "chosen\n"
    assert "| speed | 1.25 x [1.12, 1.38], met; note | ≥ 1.05 x | made up |" in (folder / "table.md").read_text()
    left = subprocess.run(["pgrep", "-f", f"sleep {SLEEPS}"], capture_output=True, text=True).stdout
    assert not left, f"left behind: {left}"
    late = run_all(folder, 0)
    verdicts = {one["verdict"] for one in json.loads((folder / "results.json").read_text())["checks"]}
    assert verdicts == {"skipped"} and late == 77, (verdicts, late)


def expect_exit_codes():
    """Skipped checks alone are not a success."""
    codes = {("passed",): 0, ("passed", "skipped"): 0, ("skipped",): 77, (): 77, ("failed", "passed"): 1, ("failed", "skipped"): 1}
    for verdicts, code in codes.items():
        results = argparse.Namespace(count=verdicts.count)
        assert runner.exit_code(results) == code, verdicts


def expect_limits():
    """For any amount of files left by checks, the archives keep within their number and size, failures first."""
    archives = archive.Archives()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        out.mkdir()
        for number in range(12):
            logs = Path(folder) / f"check-{number:02d}"
            logs.mkdir()
            (logs / "output.log").write_text("printed")
            for name in "abcd":
                (logs / f"{name}.log").write_bytes(os.urandom(archive.MOST_BYTES_OF_FILE))
            archives.take(logs, number == 11)
            assert not logs.exists()
        archives.write(out)
        files = sorted(out.iterdir())
        assert [file.name for file in files] == ["logs-2.tar.gz", "logs-3.tar.gz", "logs.tar.gz"], files
        assert all(file.stat().st_size <= archive.MOST_BYTES_OF_ARCHIVE for file in files), files
        with tarfile.open(out / "logs.tar.gz") as logs:
            names = logs.getnames()
        assert names[0] == "check-11/output.log" and names[12] == "check-11/a.log", names


def verdict_of(found):
    try:
        return "passed: " + kernel_checks.judge(found)
    except Failed as reason:
        return str(reason).splitlines()[0]


def expect_judgements():
    family, pinned = kernel_checks.SAMPLE
    assert verdict_of([family, pinned]).startswith("passed: 1 families, 1 cases: equal to the CPU's; pinned_product: 9")
    assert "first seed 3" in verdict_of([family, pinned | {"failing": 1, "first": "seed 3: too far"}])
    assert "no algorithm" in verdict_of([family, pinned | {"algorithms": 0, "without": 1}])
    assert "1 of 2 parts are wrong: gemm: 1 of 1 differ" in verdict_of([family | {"differing": 1}, pinned])
    assert "gpu_check ended with code 9" in verdict_of([family, {"part": "sum", "ended": "ended with code 9"}])


def expect_restarts():
    """If one part ends gpu_check, hangs, or leaves the GPU with errors, the other parts still run. Parts without enough
    time left are not faults."""
    kernel_checks.SILENT_SECONDS = 3  # more than a busy machine needs to start a program
    with tempfile.TemporaryDirectory() as folder:
        fake = Path(folder) / "gpu_check"
        fake.write_text(FAKE_GPU_CHECK)
        fake.chmod(0o755)
        machine = Machine(TREE, Path(folder), Path(folder) / "out", "cpu", Path(folder))
        machine.scratch = Path(folder)
        run = kernel_checks.GpuCheck(machine, "fake", ["good", "crashes", "silent", "fails", "last"], 60)
        kernel_checks.SILENT_SECONDS = 60
        short = kernel_checks.GpuCheck(machine, "short", ["good", "silent", "last"], 3)
    told = [(one["part"], one.get("ended", one.get("differing"))) for one in run.lines]
    assert told == [("good", 0), ("crashes", "ended with code -9"), ("silent", "hangs"), ("fails", 1),
                    ("fails", "left the GPU with errors"), ("last", 0)], told  # fmt: skip
    assert run.code == 0 and "4 of 6 parts are wrong: crashes: " in verdict_of(run.lines), verdict_of(run.lines)
    assert verdict_of(short.lines).endswith("equal to the CPU's; not in time: silent, last"), verdict_of(short.lines)


def expect_exchange():
    """Algorithms are moved to other shapes of the same operation, if there are any."""
    names = {"conv a": "x", "conv b": "y", "conv c": "", "product a": "z"}
    choices = {key: {"key": key, "algorithm": algorithm} for key, algorithm in names.items()}
    exchanged = {key: choice["algorithm"] for key, choice in pinned_choices.exchanged(choices).items()}
    assert exchanged == {"conv a": "y", "conv b": "x"}, exchanged


def expect_trace():
    """Two parallel kernels count once; kernels outside the steps, or in the first step, do not count."""

    def event(name, ts, dur, cat):
        return {"ph": "X", "name": name, "ts": ts, "dur": dur, "cat": cat}

    steps = [event(f"{traces.STEP}{i}", 1000 + 100 * i, 100, "user_annotation") for i in range(-1, 3)]
    kernels = [
        event("gemm", 990, 30, "kernel"),  # 20 of it
        event("add", 1100, 60, "kernel"),
        event("copy", 1130, 60, "gpu_memcpy"),
        event("gemm", 1250, 10, "kernel"),
        event("late", 1300, 10, "kernel"),
        event("aten::mm", 1000, 300, "cpu_op"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        trace.write_text(json.dumps({"traceEvents": [*steps, *kernels]}))
        seconds, busy, count, shares = traces.read_trace(trace)
        trace.write_text(json.dumps({"traceEvents": [*steps, kernels[-1]]}))
        try:
            traces.read_trace(trace)
            raise AssertionError("a trace without kernels passed")
        except Failed:
            pass
    found, expected = (seconds, busy, count), (1e-4, (20 + 90 + 10) / 300, 4 / 3)
    assert all(abs(a / b - 1) < 1e-9 for a, b in zip(found, expected)), found
    assert {name: round(300 * share) for name, share in shares.items()} == {"gemm": 30, "add": 60, "copy": 60}, shares


sys.exit(main())
