#!/usr/bin/env python3
"""Compares what other programs' own readers find in the files of a run: TensorBoard's in tensorboard/, Prometheus' client in
metrics.prom.

  standard_outputs.py BUILD_DIR

A job is killed, with all its processes and with its scribe alone, resized, and resumed until it is done. Then every
scalar that TensorBoard reads is compared with metrics.jsonl: every step once, none missing, the same number.
"""

import collections
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

STEPS = 3000
JOB = """[job]
name = "hard \\"name\\" \\\\ here"
ests = 4
[model]
name = "mlp"
hidden = [128, 128]
classes = 10
[data]
format = "synthetic"
shape = [64]
samples = 64000
batch = 16
[train]
steps = %d
eval_every = 400
[checkpoint]
every = 350
[logging]
tensorboard = true
openmetrics = true
""" % STEPS


class Run:
    def __init__(self, estrain, folder):
        self.estrain, self.path = str(estrain), folder / "run"
        self.spec = folder / "job.toml"
        self.spec.write_text(JOB)
        self.log = open(folder / "train.log", "w")
        self.launches = 0

    def launch(self):
        arguments = ["--resume"] if self.launches else [str(self.spec)]
        self.launches += 1
        command = [self.estrain, "train", *arguments, "--run", str(self.path), "--devices", "cpu,cpu"]
        self.launcher = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def step(self):
        asked = subprocess.run([self.estrain, "status", str(self.path), "--json"], capture_output=True, text=True)
        return json.loads(asked.stdout).get("step", 0) if asked.returncode == 0 else 0

    def reach(self, step):
        while self.step() < step:
            assert self.launcher.poll() is None, "the job ended before step %d" % step
            time.sleep(0.01)

    def processes(self, verb):
        """The processes of this run: those whose command line names it, or that the launcher started."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 1 and words[1] == verb and str(self.path).encode() in words:
                found.append(int(entry.name))
        return found

    def scribes(self):
        return self.processes(b"scribe")

    def kill_scribe(self):
        for pid in self.scribes():
            os.kill(pid, signal.SIGKILL)

    def kill_all(self):
        """Nobody saves anything: as when the power goes."""
        scribes = self.scribes()
        os.kill(self.launcher.pid, signal.SIGSTOP)
        for pid in scribes:
            os.kill(pid, signal.SIGKILL)
        self.launcher.kill()
        self.launcher.wait()
        while self.scribes():
            time.sleep(0.01)


def live(run):
    """The job with everything that may happen to it."""
    run.launch()
    run.reach(500)
    run.kill_scribe()
    run.reach(800)
    subprocess.run([run.estrain, "resize", str(run.path), "--devices", "cpu"], check=True, stdout=run.log)
    run.reach(1000)
    run.kill_all()
    run.launch()
    run.reach(1300)
    run.launcher.kill()  # its scribe saves the state
    run.launcher.wait()
    run.launch()
    run.reach(1600)
    run.kill_all()
    run.launch()
    assert run.launcher.wait() == 0, "the job failed"


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def recorded(run):
    """The scalars that metrics.jsonl holds: tag -> {step: value}."""
    scalars = collections.defaultdict(dict)
    for line in open(run.path / "metrics.jsonl"):
        record = json.loads(line)
        step = record["step"]
        if "eval" in record:
            scalars["test/loss"][step] = record["eval"]["loss"]
            scalars["test/accuracy"][step] = record["eval"]["accuracy"]
            continue
        scalars["train/loss"][step] = record["loss"]
        scalars["train/learning_rate"][step] = record["lr"]
        scalars["train/epoch"][step] = record["epoch"]
        if record["samples_per_s"] > 0:
            scalars["train/samples_per_second"][step] = record["samples_per_s"]
    return scalars


def check_tensorboard(run):
    expected = recorded(run)
    assert sorted(expected["train/loss"]) == list(range(1, STEPS + 1))
    files = list((run.path / "tensorboard").iterdir())
    accumulator = EventAccumulator(str(run.path / "tensorboard"), size_guidance={"tensors": 0, "scalars": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["tensors"] or accumulator.Tags()["scalars"]
    assert sorted(tags) == sorted(expected), "tags: %s" % tags
    compared = 0
    for tag, values in expected.items():
        found = {}
        if tag in accumulator.Tags()["tensors"]:
            for event in accumulator.Tensors(tag):
                assert event.step not in found, "%s: step %d twice" % (tag, event.step)
                found[event.step] = event.tensor_proto.float_val[0]
        else:
            for event in accumulator.Scalars(tag):
                assert event.step not in found, "%s: step %d twice" % (tag, event.step)
                found[event.step] = event.value
        assert sorted(found) == sorted(values), "%s: %d steps, recorded %d" % (tag, len(found), len(values))
        for step, value in values.items():
            if tag == "train/samples_per_second":  # metrics.jsonl rounds it
                assert math.isclose(found[step], value, rel_tol=1e-3, abs_tol=0.01), (tag, step)
            else:
                assert found[step] == float32(value), (tag, step, found[step], value)
            compared += 1
    return "%d scalars of %d steps in %d files" % (compared, STEPS, len(files))


def check_openmetrics(run):
    text = (run.path / "metrics.prom").read_text()
    samples = {}
    for family in openmetrics_parser.text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["job_name"] == 'hard "name" \\ here', sample
            assert sample.labels["run"] == str(run.path), sample
            samples[sample.name, sample.labels.get("event")] = sample.value
    assert samples["estrain_step", None] == STEPS
    assert samples["estrain_loss", None] == float32(recorded(run)["train/loss"][STEPS])
    assert samples["estrain_workers", None] == 2
    events = collections.Counter(json.loads(line)["event"] for line in open(run.path / "events.jsonl"))
    for name in ("start", "stage", "resize", "fault"):
        assert samples["estrain_events_total", name] == events[name], name
    as_text = {(sample.name, sample.labels.get("event")): sample.value
               for family in text_parser.text_string_to_metric_families(text) for sample in family.samples}
    assert as_text == samples, "the older text format reads otherwise"
    return "%d samples" % len(samples)


def main():
    with tempfile.TemporaryDirectory(prefix="estrain-outputs-") as name:
        folder = pathlib.Path(name)
        run = Run(pathlib.Path(sys.argv[1]) / "estrain", folder)
        try:
            live(run)
        except BaseException:
            print((folder / "train.log").read_text())
            raise
        finally:
            if run.launcher.poll() is None:
                run.launcher.kill()
        tensorboard = check_tensorboard(run)
        print("TensorBoard reads %s; Prometheus' client %s" % (tensorboard, check_openmetrics(run)))


main()
