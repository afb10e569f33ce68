#!/usr/bin/env python3
"""Tests the judgement of tests/elastic/run with fake jobs, without estrain: a job that declines faster devices is
slower than the oracle, and a refused reclaim fails the run."""
import importlib.util
import os
import sys
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import oracle  # noqa: E402

loader = SourceFileLoader("elastic_run", str(HERE / "run"))
elastic_run = importlib.util.module_from_spec(importlib.util.spec_from_loader("elastic_run", loader))
loader.exec_module(elastic_run)

LINE = [(0.0, Counter(["cpu"])), (10.0, Counter(["cpu", "cpu"])), (20.0, Counter(["cpu", "cpu:sse"])), (30.0, Counter(["cpu"]))]
SPEED = {("cpu",): 10.0, ("cpu", "cpu"): 20.0, ("cpu", "cpu:sse"): 15.0}
SCHEDULE = [{"at": 0, "do": "offer", "devices": "cpu"}, {"at": 0, "do": "reclaim", "devices": "cpu"}] * 5


class FakeJob:
    """A job that takes all offers and returns them. `refuses`: the reclaims it refuses; `ends_at`: when it ends."""

    run = "run"

    def __init__(self, refuses=(), ends_at=None, slow=()):
        self.refuses, self.ends_at, self.slow, self.reclaims, self.over = refuses, ends_at, slow, 0, False
        self.devices = Counter(["cpu"])

    def wait_for_first_step(self):
        pass

    def held(self):
        return None if self.over else self.devices

    def is_over(self, words=""):
        return self.over

    def ask(self, verb, _, device, *__):
        if verb == "offer":
            self.devices[device] += 1
            return {"taken": [device]}, 0.1, ""
        self.reclaims += 1
        if self.reclaims == self.ends_at:
            self.over = True
            return None, 0.1, "the job is ending"
        if self.reclaims in self.refuses:
            return None, 0.1, "something went wrong"
        self.devices[device] -= 1
        return {"held": []}, 3.0 if self.reclaims in self.slow else 0.1, ""


def outcome(**job):
    _, counts = elastic_run.follow(FakeJob(**job), SCHEDULE)
    return counts, oracle.faults_of(counts, same=True), oracle.late(counts)


def expect_oracle():
    assert oracle.sets_offered(LINE, "cpu") == set(SPEED)
    best = oracle.oracle_seconds(LINE, SPEED, 10 * 10 + 20 * 10 + 15 * 10 + 10 * 5, "cpu")
    assert abs(best - 35) < 1e-9, best
    # A job that stays on one device takes 50 s for these 500 steps: 1.43 times the oracle's time, and not 1.
    assert 50 / best > 1.4
    # Faster alone than with a slow one beside it: an oracle lets that pass.
    slow = SPEED | {("cpu", "cpu:sse"): 5.0}
    assert abs(oracle.oracle_seconds(LINE, slow, 10 * 10 + 20 * 10 + 10 * 10 + 10 * 5, "cpu") - 35) < 1e-9
    assert ("cpu:sse",) not in oracle.subsets(Counter(["cpu", "cpu:sse"]), "cpu")


def expect_reclaims():
    counts, faults, late = outcome()
    assert (counts["reclaims"], counts["in time"], faults, late) == (5, 5, [], 0), counts
    counts, faults, late = outcome(refuses={2})
    assert (counts["reclaims"], counts["in time"], faults, late) == (5, 4, ["1 reclaims failed"], 0), (counts, faults)
    counts, faults, late = outcome(refuses={2, 3, 4, 5})
    assert counts["reclaims failed"] == 4 and faults == ["4 reclaims failed"], (counts, faults)
    counts, faults, late = outcome(slow={3})
    assert (counts["in time"], faults, late) == (4, [], 1), (counts, faults)
    counts, faults, late = outcome(ends_at=3)  # what comes after the job's end asks nothing of it
    assert (counts["reclaims"], counts["in time"], faults, late) == (2, 2, [], 0), (counts, faults)


def expect_bits_first():
    counts, _, _ = outcome()
    assert len(oracle.faults_of(counts, same=False)) == 1
    assert len(oracle.faults_of(Counter(offers=3), same=True)) == 2  # none taken, none reclaimed


os.environ.pop("ESTRAIN_RETRIES", None)
expect_oracle()
expect_reclaims()
expect_bits_first()
print("elastic: all judgements as they should be")
