"""Kills a run again and again while it writes a checkpoint (megabytes of state, after every step): all its processes at
once, so that none can save anything. Each time the newest valid checkpoint must resume it."""
import os
import random
import signal
import subprocess
import time

import jobs
import verdict
from run import Lost, Run

PATIENCE = 60
STEPS_AFTER = 10  # trained after the last kill


def kill_saves(campaign, wanted):
    chance = random.Random(campaign.seed)
    job = jobs.Job("saving", 4, jobs.STEPS["saving"])
    folder = campaign.work / "save-kills"
    folder.mkdir(parents=True)
    spec = folder / "job.toml"
    spec.write_text(job.spec("", checkpoint_every=1))
    run = Run(campaign.tools, folder, spec, 2)
    resumable = torn = fell_back = 0
    try:
        run.launch()
        for number in range(wanted):
            saved, in_write = kill_in_save(run, chance)
            torn += in_write
            run.launch()
            step = resumed_from(run)
            resumable += step >= saved
            if step < saved:
                print(f"kill {number}: went on from step {step}, but step {saved} had been saved", flush=True)
            if number % 10 == 9:
                print(f"{number + 1} kills, {resumable} resumable, at step {run.step()}, {torn} tore a file", flush=True)
        problems = finish(campaign, run, job)
    except Lost as lost:
        problems = [str(lost)]
    finally:
        run.kill_everybody()
    campaign.runs, campaign.identical = 1, not problems
    if problems:
        campaign.show(run, problems)
    print(f"{torn} of {wanted} kills left a checkpoint half written")
    print(f"{wanted} kills in a save, {resumable} resumable, {'identical' if not problems else 'NOT identical'}", flush=True)
    return 0 if resumable == wanted and not problems else 1


def kill_in_save(run, chance):
    """The newest step reported as saved before, and whether a partial file was left."""
    after = start_step(run) + chance.randint(1, 6)
    if not run.until(lambda: run.begun and run.step() >= after, PATIENCE) or not run.until(run.saving, PATIENCE, 0):
        raise Lost("a save")
    time.sleep(chance.uniform(0, 0.06))
    scribe = run.scribe()
    os.kill(scribe.pid, signal.SIGSTOP)  # from here on, only the disk's order matters
    saved = max((event["step"] for event in run.events("checkpoint")), default=0)
    for pid in [scribe.pid, run.launcher.pid] + [worker.pid for worker in run.workers()]:
        os.kill(pid, signal.SIGKILL)
    run.wait(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while run.members():
        if time.monotonic() > deadline:
            raise Lost("the end of those that were killed")
        time.sleep(0.005)
    return saved, run.saving()


def resumed_from(run):
    """The step that a launch resumes from; -1 if it fails."""
    if not run.until(lambda: run.begun and len(run.events("start")) == run.launches, PATIENCE, 0.01):
        return -1
    return start_step(run)


def start_step(run):
    starts = run.events("start")
    return starts[-1]["step"] if starts else 0


def finish(campaign, run, job):
    """Runs the job a few steps further and compares it with an undisturbed run of the same length."""
    run.launcher.send_signal(signal.SIGTERM)
    if (code := run.wait(PATIENCE)) != 75:
        return [f"exit code {code} after SIGTERM"]
    steps = run.events("stopped")[-1]["step"] + STEPS_AFTER
    more = ["--set", f"train.steps={steps}"]
    run.launch(*more)
    if (code := run.wait(PATIENCE)) != 0:
        return [f"exit code {code} at the end"]
    reference = run.folder / "reference"
    subprocess.run([campaign.tools.estrain, "train", run.spec, "--run", reference, "--devices", "1", *more,
                    "--set", "checkpoint.every=0"], check=True, capture_output=True)
    return verdict.problems_of(run, reference, steps)
