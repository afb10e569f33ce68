"""A campaign: executes many plans, judges and counts their runs."""
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import faults  # noqa: E402
import jobs  # noqa: E402
import plans  # noqa: E402
import verdict  # noqa: E402
from retries import note_retry  # noqa: E402
from run import Lost, Run  # noqa: E402

TAIL_LINES = 25
TMPFS_MB = 24
ATTEMPTS = 4  # per scenario: on a busy machine, faults may miss their phase


TARGETS = {"estrain": "estrain", "tests/libchaos_inject.so": "chaos_inject", "tests/chaos_memory_words": "chaos_memory_words"}


def require_built(build, *files):
    missing = [file for file in files if not (build / file).exists()]
    if missing:
        raise SystemExit(f"{build} lacks {', '.join(missing)}; build with: scripts/build {build} " +
                         " ".join(f"--target {TARGETS[file]}" for file in missing))


class Tools:
    """The program under test and its observer."""

    def __init__(self, build, work):
        require_built(build, "estrain", "tests/libchaos_inject.so", "tests/chaos_memory_words")
        self.estrain = (build / "estrain").resolve()
        self.inject = (build / "tests/libchaos_inject.so").resolve()
        self.offsets = json.loads(subprocess.check_output([build / "tests/chaos_memory_words"]))
        self.mounted = set()
        work.mkdir(parents=True, exist_ok=True)
        self.text = work.resolve() / "text.txt"
        jobs.write_text(self.text)

    def mount(self, path):
        """Mounts a small file system there; False if that is not permitted."""
        path.mkdir(parents=True, exist_ok=True)
        options = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MB}m", "tmpfs", path]
        if subprocess.run(options, stderr=subprocess.DEVNULL).returncode != 0:
            return False
        self.mounted.add(path)
        return True

    def can_mount(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "probe"
            mounted = self.mount(path)
            self.unmount(path)
            return mounted

    def unmount(self, path):
        if path in self.mounted and subprocess.run(["umount", path]).returncode == 0:
            self.mounted.remove(path)

    def full_disk(self, path):
        return path in self.mounted


class Campaign:
    def __init__(self, tools, work, seed, keep):
        self.tools, self.work, self.seed, self.keep = tools, work.resolve(), seed, keep
        self.fired, self.planned = Counter(), Counter()
        self.runs = self.identical = 0
        self.skipped, self.limited = [], 0  # scenarios that cannot run here; runs without their full disk
        self.staged_again = []  # for each repeated attempt, what was wrong with its staging
        self.references, self.locks = {}, threading.Lock()
        self.talking = threading.Lock()
        self.begin = time.monotonic()

    # --- what to run

    def run_random(self, wanted, parallel):
        self.run_all((plans.draw(n, random.Random(f"{self.seed}/{n}")) for n in range(1, 100000)), parallel,
                     lambda: self.fired.total() >= wanted)

    def run_scenarios(self, folder, names, parallel):
        found = sorted(folder.glob("*.toml"))
        chosen = [path for path in found if not names or path.stem in names]
        if not chosen or len(chosen) < len(names):
            raise SystemExit(f"no such scenario; there are {', '.join(path.stem for path in found)}")
        self.run_all((plans.read(path) for path in chosen), parallel, lambda: False)

    def run_all(self, wanted, parallel, enough):
        with ThreadPoolExecutor(parallel) as pool:
            under_way = set()
            for plan in wanted:
                while len(under_way) >= parallel:
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    [future.result() for future in done]
                if enough():
                    break
                under_way.add(pool.submit(self.carry_out, plan))
            [future.result() for future in under_way]

    # --- one run

    def carry_out(self, plan):
        """Retries and counts only scenarios that the harness failed to stage, never a failed run or a wrong
        diagnosis."""
        if plan.tmpfs and plan.strict and not self.tools.can_mount():
            with self.talking:
                self.skipped.append(plan.name)
                print(f"skipped: chaos scenario {plan.name}: no file system can be mounted here (root may), so no disk gets full", flush=True)
            return
        for attempts_left in reversed(range(ATTEMPTS if plan.strict else 1)):
            if not self.attempt(plan, last=attempts_left == 0):
                return

    def attempt(self, plan, last):
        """True if the run was correct, its faults were not as planned, and attempts are left."""
        begin = time.monotonic()
        folder = self.work / plan.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        spec = folder / "job.toml"
        spec.write_text(plan.job.spec(self.tools.text, plan.checkpoint_every, plan.retries))
        run = Run(self.tools, folder, spec, plan.devices)
        if plan.tmpfs and not self.tools.mount(run.path):
            with self.talking:
                self.limited += 1
        shots, problems, unstaged = [], [], []
        try:
            reference = self.reference(plan.job)
            chance = random.Random(f"{self.seed}/{plan.name}/moments")
            shots, problems = self.disturb(run, plan, chance)
            problems = problems or verdict.problems_of(run, reference, plan.job.steps)
            problems += [problem for shot in shots for problem in shot.problems + shot.wrong_causes(run)]
            unstaged = self.unstaged(plan, shots)
            problems += self.unexpected(run, plan, staged=not unstaged)
        except Lost as lost:
            problems.append(str(lost))
        except Exception:  # an unexpected exception of a check is a finding, too
            problems.append(traceback.format_exc())
        finally:
            run.kill_everybody()
        if unstaged and not problems and not last:
            with self.talking:
                self.stage_again(f"{plan.name}: {'; '.join(unstaged)}")
            self.tools.unmount(run.path)
            return True
        self.settle(plan, run, shots, problems + unstaged, time.monotonic() - begin)
        return False

    def disturb(self, run, plan, chance):
        """Injects all faults, then runs the rest of the job. Returns shots and findings."""
        shots = []
        run.launch()
        for fault in plan.faults:
            shot = faults.fire(run, fault, chance)
            if shot:
                shots.append(shot)
            if shot and fault.gives_up:
                if run.wait(faults.PATIENCE) != 1:
                    return shots, [f"exit code {run.code()} where the job should have given up"]
                run.launch()
            elif run.code() is not None:
                break
        code = run.wait(3 * faults.PATIENCE)
        if code == 1 and shots and shots[-1].fault.kind == "disk-full":
            run.launch()  # the job ended on a full disk: it asks for space and a resume
            code = run.wait(3 * faults.PATIENCE)
        run.receive_answer()
        return shots, [] if code == 0 else [f"the launcher ended with {code}"]

    def stage_again(self, why):
        self.staged_again.append(why)
        note_retry(f"chaos: {why}")

    @staticmethod
    def unstaged(plan, shots):
        """Faults that missed, or missed their phase."""
        found = []
        for fault in plan.faults if plan.strict else []:
            shot = next((shot for shot in shots if shot.fault is fault), None)
            if not shot or not shot.evidence():
                found.append(f"did not fire: {fault}")
            elif shot.phase != fault.phase and not (fault.phase == "training" and shot.phase in ["snapshot", "save"]):
                found.append(f"fired during {shot.phase}: {fault}")
        return found

    @staticmethod
    def unexpected(run, plan, staged):
        """Recorded causes that the scenario does not expect. If some faults missed, fewer causes are right too."""
        found = []
        causes = sorted(event["cause"] for event in run.events("fault"))
        if plan.causes is not None and not match(causes, plan.causes, all_of_them=staged):
            found.append(f"causes recorded: {causes}, expected: {sorted(plan.causes)}")
        if staged and plan.launches and run.launches != plan.launches:
            found.append(f"{run.launches} launches, expected: {plan.launches}")
        return found

    def settle(self, plan, run, shots, problems, took):
        fired = [shot for shot in shots if shot.evidence()]
        with self.talking:
            self.runs += 1
            self.planned.update(fault.kind for fault in plan.faults)
            self.fired.update((shot.fault.kind, shot.phase) for shot in fired)
            self.identical += not problems
            hits = ", ".join(f"{shot.fault.kind}@{shot.phase}" + ("" if shot in fired else "?") for shot in shots)
            outcome = "FAILED" if problems else "identical"
            print(f"{plan.name}: {plan.job.name} on {plan.devices}: {len(fired)} of {len(plan.faults)} fired ({hits}), "
                  f"{run.launches} launches, {outcome}, {took:.1f} s", flush=True)
            if problems:
                self.show(run, problems)
        if run.path in self.tools.mounted:
            if problems or self.keep:
                shutil.copytree(run.path, run.folder / "run-kept", symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
            self.tools.unmount(run.path)
        if not problems and not self.keep:
            shutil.rmtree(run.folder, ignore_errors=True)

    @staticmethod
    def show(run, problems):
        for problem in problems:
            print(f"  problem: {problem}")
        print(f"  folder: {run.folder}\n  end of its output:")
        for line in run.said().splitlines()[-TAIL_LINES:]:
            print(f"    {line}")
        sys_flush()

    def reference(self, job):
        """The undisturbed run; made once."""
        with self.locks:
            lock = self.references.setdefault(job, threading.Lock())
        with lock:
            folder = self.work / f"reference-{job.name}"
            if not (folder / "done").exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                (folder / "job.toml").write_text(job.spec(self.tools.text))
                subprocess.run([self.tools.estrain, "train", folder / "job.toml", "--run", folder / "run", "--devices", "1"],
                               check=True, capture_output=True)
                (folder / "done").touch()
        return folder / "run"

    # --- the end

    def close(self, wanted):
        """Prints what fired and the closing line; the exit code."""
        phases = [phase for phase in faults.PHASES if any(at == phase for _, at in self.fired)]
        print(f"\n{'fired':20}" + "".join(f"{phase:>10}" for phase in phases) + f"{'all':>10}{'planned':>10}")
        for kind in faults.KINDS:
            counts = [self.fired[kind, phase] for phase in phases]
            if self.planned[kind]:
                print(f"{kind:20}" + "".join(f"{n or '-':>10}" for n in counts) + f"{sum(counts):>10}{self.planned[kind]:>10}")
        sums = [sum(n for (_, at), n in self.fired.items() if at == phase) for phase in phases]
        print(f"{'all':20}" + "".join(f"{n:>10}" for n in sums) + f"{sum(sums):>10}{self.planned.total():>10}")
        print(f"{time.monotonic() - self.begin:.0f} s, seed {self.seed}, {len(self.staged_again)} attempts staged again")
        if self.limited:
            print(f"skipped: a disk of their own for {self.limited} runs of chaos: no file system can be mounted here (root may); where theirs was to "
                  "get full, the scribe's files were limited")
        skipped = f", {len(self.skipped)} SKIPPED ({', '.join(self.skipped)})" if self.skipped else ""
        print(f"{self.fired.total()} faults fired, {self.runs} runs, {self.identical} identical{skipped}", flush=True)
        return 0 if self.identical == self.runs and self.fired.total() >= wanted else 1

    def clean_up(self):
        for path in list(self.tools.mounted):
            self.tools.unmount(path)
        if self.identical == self.runs and not self.keep:
            shutil.rmtree(self.work, ignore_errors=True)


def match(causes, expected, all_of_them=True):
    """Whether each cause matches an expected entry ("this" or "this|that"), each entry at most once; with `all_of_them`,
    every entry must be matched."""
    left = sorted(expected, key=lambda entry: entry.count("|"))
    for cause in causes:
        found = next((entry for entry in left if cause in entry.split("|")), None)
        if found is None:
            return False
        left.remove(found)
    return not (all_of_them and left)


def sys_flush():
    print(end="", flush=True)
