"""Checks a disturbed run: it has the same bits as the undisturbed one and leaves nothing behind.

That each sample was used exactly once per epoch follows: which samples an EST takes at a step is a pure function of seed,
epoch, step and virtual rank; there is exactly one record for each step from the first to the last, in both files; and the
loss of every EST at each of them is, bit for bit, that of the undisturbed run, which went through its epochs in one go. So
is the data cursor of the last checkpoint, which `estrain verify` compares, too.
"""
import json
import struct
import subprocess
import time

PATIENCE = 30  # seconds for the last processes to end


def fingerprint_steps(path):
    """The steps in a file of fingerprints (core/state/record/FORMAT.md)."""
    content = path.read_bytes()
    magic, names, names_bytes = struct.unpack_from("<8sQQ", content)
    assert magic == b"ESTFPRT1", magic
    begin, record = 24 + names_bytes, 8 * (names + 2)
    return [struct.unpack_from("<q", content, at)[0] for at in range(begin, len(content) - record + 1, record)], (
        len(content) - begin) % record


def recorded_steps(run):
    steps, evaluations = [], []
    for line in (run.path / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        (evaluations if "eval" in record else steps).append(record["step"])
    return steps, evaluations


def problems_of_records(run, steps):
    found = []
    recorded, evaluations = recorded_steps(run)
    if recorded != list(range(1, steps + 1)):
        found.append(f"metrics.jsonl does not hold the steps 1 to {steps} once each: {len(recorded)} lines")
    if len(set(evaluations)) != len(evaluations):
        found.append(f"an evaluation is recorded twice: {evaluations}")
    prints, rest = fingerprint_steps(run.path / "fingerprints")
    if prints != list(range(1, steps + 1)) or rest:
        found.append(f"fingerprints does not hold the steps 1 to {steps} once each: {len(prints)}, {rest} bytes more")
    return found


def problems_of_leftovers(run):
    deadline = time.monotonic() + PATIENCE
    while left := run.members():
        if time.monotonic() > deadline:
            return [f"processes of the run are left, or hold its memory: {left}"]
        time.sleep(0.02)
    if run.saving() or list((run.path / "checkpoints").glob("*.tmp")):
        return ["a temporary file is left among the checkpoints"]
    return []


def problems_of_report(run):
    """Checks that the last launch's report contains every fault that it recorded."""
    events = run.events()
    last = max(i for i, event in enumerate(events) if event["event"] == "start")
    recorded = sum(event["event"] == "fault" for event in events[last:])
    reported = sum(len(event["faults"]) for event in events[last:] if event["event"] == "faults")
    given_up = sum(event["event"] == "resize_failed" for event in events[last:])
    if not reported <= recorded <= reported + given_up:
        return [f"{recorded} faults recorded by the last launch, {reported} in its report"]
    return []


def problems_of(run, reference, steps):
    found = problems_of_leftovers(run)
    found += problems_of_records(run, steps)
    found += problems_of_report(run)
    verify = subprocess.run([run.tools.estrain, "verify", run.path, reference], capture_output=True, text=True)
    if verify.returncode != 0:
        found.append(f"estrain verify: exit code {verify.returncode}\n{verify.stdout}{verify.stderr}")
    return found
