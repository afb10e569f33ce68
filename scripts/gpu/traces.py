"""Where the time of a step goes: kernels by their names, and how long the GPU stands still, by logging.trace."""

import gzip
import json
from collections import Counter

from contestants import D2, cases
from estrain_job import EstrainJob
from report import Failed, each_by_itself

# Behind what is loaded and chosen in the first steps. A step may begin the next one's first pass, so the first one of
# a trace is not counted; and the last ones of a job save its state.
FIRST, LAST, MORE_STEPS = 12, 15, 8
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
STEP = "ProfilerStep#"
SHOWN, NAME_LENGTH, PATIENCE = 6, 60, 120


def spans_of(events, window):
    """(begin, end, name) of what lies in the window, cut to it, in order of time."""
    spans = ((max(e["ts"], window[0]), min(e["ts"] + e["dur"], window[1]), e["name"]) for e in events)
    return sorted(span for span in spans if span[0] < span[1])


def covered(spans):
    """How long at least one of them lasts."""
    total, until = 0, float("-inf")
    for begin, end, _ in spans:
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def read_trace(path, without_gpu=False):
    """(seconds of a step, share of the time in which the GPU works, kernels of a step, {name: share of the time}).
    `without_gpu`: in place of kernels, what its ESTs do."""
    complete = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
    steps = [e for e in complete if e["name"].startswith(STEP) and e.get("cat") == "user_annotation"]
    if len(steps) != LAST - FIRST + 1:
        raise Failed(f"{path}: {len(steps)} steps in the trace of {LAST - FIRST + 1}")
    steps = sorted(steps, key=lambda e: e["ts"])[1:]
    window = min(e["ts"] for e in steps), max(e["ts"] + e["dur"] for e in steps)
    work = [e for e in complete if e.get("cat") in ON_GPU]
    if without_gpu:
        work = [e for e in complete if e.get("cat") == "user_annotation" and not e["name"].startswith(STEP)]
    if not work:
        raise Failed(f"{path.name}: no kernel in the trace: CUPTI did not start, see the worker's log")
    spans = spans_of(work, window)
    whole, shares = window[1] - window[0], Counter()
    for begin, end, name in spans:
        shares[name] += (end - begin) / whole
    return whole / 1e6 / len(steps), covered(spans) / whole, len(spans) / len(steps), shares


def look(machine, case, level, job):
    """The findings of a job's trace in words."""
    options = ("--set", f"logging.trace=[{FIRST}, {LAST}]", "--set", "data.readers=4")
    with EstrainJob(machine, case, 1, machine.devices(1), LAST + MORE_STEPS, job=job, options=options) as running:
        if running.process.wait(machine.patience(PATIENCE)) != 0:
            raise Failed(f"{case.name} at {level} ended badly\n{running.log.read_text()[-3000:]}")
    trace = running.run / f"traces/step-{FIRST}-worker-0.json"
    seconds, busy, kernels, shares = read_trace(trace, machine.dry_run)
    table = "".join(f"{100 * share:6.2f} %  {kernel}\n" for kernel, share in shares.most_common())
    (running.log.parent / "shares.txt").write_text(table)
    trace.with_suffix(".json.gz").write_bytes(gzip.compress(trace.read_bytes()))
    trace.unlink()
    most = ", ".join(f"{k[:NAME_LENGTH]} {100 * s:.0f} %" for k, s in shares.most_common(SHOWN))
    return (
        f"{case.name} {level}: {1e3 * seconds:.2f} ms a step (traced), device busy {100 * busy:.1f} %, "
        f"{kernels:.0f} kernels and copies: {most}"
    )


def where(*names):
    def check(machine, report):
        words = []

        def tell(name, level, job):
            words.append(look(machine, cases(machine)[name], level, job))
            report.found(words[-1])

        both = [(name, level, job) for name in names for level, job in (("D1", ""), ("D2", D2))]
        return each_by_itself({f"{one[0]} {one[1]}": lambda one=one: tell(*one) for one in both}, words)

    return check
