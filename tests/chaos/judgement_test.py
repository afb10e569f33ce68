#!/usr/bin/env python3
"""How scripts/chaos judges a run: it repeats and counts a scenario whose fault came too late; a wrong cause or wrong
bits fail at the first attempt."""
import io
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import campaign  # noqa: E402
import verdict  # noqa: E402
from campaign import ATTEMPTS, Campaign, match  # noqa: E402
from faults import Fault, Shot, process_fault  # noqa: E402
from jobs import Job  # noqa: E402
from plans import Plan  # noqa: E402

PID = 4711
KILL = Fault("worker-kill", "training", 60)


class FakeRun:
    """A run whose only worker, PID, was killed. `happens`: the recorded cause, or None: the run ended before."""

    launches = 1

    def __init__(self, happens, phase="training"):
        self.happens, self.phase, self.struck, self.folder = happens, phase, {PID}, None
        self.path = self

    def events(self, *_):
        return [{"event": "fault", "cause": self.happens, "pid": PID}] if self.happens else []

    def shots(self):
        return [Shot(KILL, self.phase, 60, 1, PID, process_fault(self, PID), ["killed"])] if self.happens else []

    def kill_everybody(self):
        pass

    def said(self):
        return ""


class Tools:
    mounted, text = (), ""

    def unmount(self, path):
        pass


def carry_out(runs, strict=True, causes=None, problems=None):
    """The campaign after these attempts, and their number."""
    with tempfile.TemporaryDirectory() as name:
        chaos = Campaign(Tools(), Path(name), 1, True)
        chaos.reference = lambda job: None
        left, taken = list(runs), []

        def next_run(*_):
            taken.append(left.pop(0))
            taken[-1].folder = Path(name) / "run"
            return taken[-1]

        chaos.disturb = lambda run, plan, chance: (run.shots(), [])
        campaign.Run, verdict.problems_of = next_run, lambda *_: problems or []
        retries = Path(name) / "retries"
        os.environ["ESTRAIN_RETRIES"] = str(retries)
        with redirect_stdout(io.StringIO()) as said:
            chaos.carry_out(Plan("made-up", Job("mlp", 4, 300), 2, [KILL], causes=causes, strict=strict))
        noted = retries.read_text().splitlines() if retries.exists() else []
        assert len(noted) == len(chaos.staged_again) == said.getvalue().count("tried again: chaos:"), (noted, said.getvalue())
        assert chaos.runs == 1
        return chaos, len(taken), said.getvalue()


def expect_verdicts():
    chaos, attempts, _ = carry_out([FakeRun("killed")], causes=["killed"])
    assert (attempts, chaos.identical, chaos.staged_again) == (1, 1, [])
    chaos, attempts, _ = carry_out([FakeRun(None), FakeRun("killed", "save"), FakeRun("killed")], causes=["killed"])
    assert (attempts, chaos.identical, len(chaos.staged_again)) == (2, 1, 1)
    chaos, attempts, _ = carry_out([FakeRun("killed", "recovery")] * ATTEMPTS, causes=["killed"])
    assert (attempts, chaos.identical, len(chaos.staged_again)) == (ATTEMPTS, 0, ATTEMPTS - 1)


def expect_wrong_causes_to_fail():
    for strict, causes in [(True, ["killed"]), (True, None), (False, None)]:
        chaos, attempts, said = carry_out([FakeRun("hung"), FakeRun("killed")], strict, causes)
        assert (attempts, chaos.identical) == (1, 0), (strict, causes)
        assert f"process {PID} was hit by worker-kill, and the run names hung instead of killed" in said, said
    # The fault missed its phase, and the run reported a fault that did not happen.
    chaos, attempts, said = carry_out([FakeRun("hung", "start"), FakeRun("killed")], causes=["killed"])
    assert (attempts, chaos.identical) == (1, 0), said


def expect_wrong_bits_to_fail():
    chaos, attempts, _ = carry_out([FakeRun("killed"), FakeRun("killed")], causes=["killed"], problems=["step 3 differs"])
    assert (attempts, chaos.identical) == (1, 0)
    chaos, attempts, _ = carry_out([FakeRun(None), FakeRun("killed")], causes=["killed"], problems=["step 3 differs"])
    assert (attempts, chaos.identical) == (1, 0)


def expect_blameless():
    """A briefly paused worker must not be diagnosed as hung, unless another fault hit it."""
    run = FakeRun("hung")
    paused = Shot(Fault("worker-pause"), "training", 60, 1, PID, lambda: True, [])
    assert paused.wrong_causes(run) == []
    run.struck = set()
    assert "instead of nothing" in paused.wrong_causes(run)[0]


def expect_matches():
    assert match(["a", "b"], ["b", "a|c"]) and match(["a"], ["a", "b"], all_of_them=False)
    assert not match(["a"], ["a", "b"]) and not match(["a", "a"], ["a", "b"], all_of_them=False)
    assert match(["a", "c"], ["a|c", "a"]) and not match(["d"], ["a|c"], all_of_them=False)


def expect_words_for_missing_targets():
    """A traceback is for who writes these tools."""
    with tempfile.TemporaryDirectory() as empty:
        for options in (["--faults", "1"], ["--scenarios"], ["--save-kills", "1"], ["--hosts", "2", "--faults", "1"]):
            command = [Path(__file__).parents[2] / "scripts/chaos", "--build", empty, "--work", Path(empty) / "work", *options]
            ended = subprocess.run(command, capture_output=True, text=True)
            assert ended.returncode == 1, ended
            assert ended.stderr.startswith(f"{empty} lacks estrain"), ended.stderr
            assert f"build with: scripts/build {empty} --target estrain" in ended.stderr, ended.stderr
            assert "Traceback" not in ended.stderr, ended.stderr


expect_matches()
expect_words_for_missing_targets()
expect_blameless()
expect_verdicts()
expect_wrong_causes_to_fail()
expect_wrong_bits_to_fail()
print("chaos: all judgements as they should be")
