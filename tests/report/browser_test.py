#!/usr/bin/env python3
"""Opens a report in a real browser, for a run with 100,000 steps and 50 faults with hostile texts.

  browser_test.py ESTRAIN

Requirements: made within 2 s, less than 2 MB, opened within 1 s more than an empty page, on a screen and on a phone.
The browser finds every part of it, no executed script, and no horizontal scrolling. Exit code 77: no chromium. """

import collections
import datetime
import html.parser
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from retries import note_retry  # noqa: E402

STEPS, FAULTS = 100_000, 50
HOSTILE = "<script>document.title = 'it ran'</script>\"><img src=x onerror=\"document.title = 'it ran'\">"

HOSTILE_NAME = "<img src=x onerror=\"document.title = 'it ran'\"><script>document.title = 'it ran'"  # a name cannot
                                                                                                     # contain "/"


def bits(value):
    return "%08x" % struct.unpack("<I", struct.pack("<f", value))[0]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def write_metrics(path):
    with open(path, "w") as file:
        for step in range(1, STEPS + 1):
            losses = [float32(2.3 / math.sqrt(step) + 0.1 * math.sin(step * (est + 1))) for est in range(8)]
            loss = float32(sum(losses) / 8)
            record = {"step": step, "epoch": step // 1000, "loss": loss, "loss_bits": bits(loss), "est_losses": losses,
                      "est_loss_bits": [bits(one) for one in losses], "lr": 0.1 * (1 - step / STEPS),
                      "samples_per_s": 5000 + step % 997}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            if step % 1000 == 0:
                accuracy = {"loss": 1 / math.sqrt(step), "accuracy": 1 - step**-0.3, "predictions": 1000}
                file.write(json.dumps({"step": step, "eval": accuracy}) + "\n")


def events():
    ranges = [[0, 2], [2, 4], [4, 6], [6, 8]]

    def stage(number, step):
        return "stage", {"stage": number, "step": step, "devices": ["cpu", "cpu", HOSTILE, "cpu"], "ranges": ranges}

    yield 0, "start", {"step": 0, "devices": "cpu*4"}
    yield 1, *stage(0, 0)
    for number in range(FAULTS):
        step = STEPS // FAULTS * number + 1000
        yield 60, "fault", {"worker": number % 4, "device": "cpu", "ests": ranges[number % 4], "step": step,
                            "what": HOSTILE, "cause": HOSTILE, "advice": HOSTILE}
        yield 2, *stage(number + 1, step)
        yield 0.2, "recovered", {"step": step, "worker": number % 4, "seconds_to_next_step": 2.4}
        yield 0, "stage_speed", {"seconds": 55, "exchange_seconds": 4, "workers": [
            {"worker": 0, "device": HOSTILE, "mini_batches": 1800, "computing_seconds": 40}]}
        yield 20, "checkpoint", {"step": step, "seconds": 0.1}
    yield 20, "finished", {"step": STEPS}


def write_run(folder):
    folder.mkdir()
    (folder / "job.toml").write_text(
        "[job]\nname = '''%s'''\nests = 8\n[model]\nname = 'mlp'\n[data]\nformat = 'synthetic'\nshape = [4]\n"
        "samples = 100\n[train]\nsteps = %d\n" % (HOSTILE_NAME, STEPS))
    write_metrics(folder / "metrics.jsonl")
    now = datetime.datetime(2031, 5, 4)
    with open(folder / "events.jsonl", "w") as file:
        for seconds, name, fields in events():
            now += datetime.timedelta(seconds=seconds)
            stamp = now.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (now.microsecond // 1000)
            file.write(json.dumps({"time": stamp, "event": name, **fields}) + "\n")


class Structure(html.parser.HTMLParser):
    """A document's elements by name and by class, and its title."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.classes = collections.Counter(), collections.Counter()
        self.handlers, self.title, self.open = [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements[tag] += 1
        self.open = tag
        for name, value in attributes:
            if name == "class":
                self.classes.update((tag, one) for one in value.split())
            if name.startswith("on"):
                self.handlers.append((tag, name))

    def handle_data(self, data):
        if self.open == "title":
            self.title += data
        self.open = ""


class Browser:
    def __init__(self, program, folder):
        self.command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        "--user-data-dir=%s" % (folder / "profile")]

    def run(self, *arguments):
        """The output and the seconds it took."""
        begin = time.monotonic()
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout, time.monotonic() - begin

    def seconds_to_open(self, url, window):
        return min(self.run("--window-size=" + window, "--dump-dom", url)[1] for _ in range(3))


def check(holds, words):
    print(("ok    " if holds else "WRONG ") + words)
    return holds


def main():
    program, estrain = shutil.which("chromium"), sys.argv[1]
    if not program:
        print("skipped: there is no chromium; scripts/setup --checks installs it")
        return 77
    good = True
    with tempfile.TemporaryDirectory(prefix="estrain-browser-") as name:
        folder = pathlib.Path(name)
        write_run(folder / "run")
        page = folder / "report.html"
        begin = time.monotonic()
        subprocess.run([estrain, "report", str(folder / "run"), "--html", str(page)], check=True)
        took = time.monotonic() - begin
        size = page.stat().st_size
        good &= check(took < 2, "made in %.2f s" % took)
        good &= check(size < 2_000_000, "%d bytes" % size)

        browser, url = Browser(program, folder), page.as_uri()
        browser.run("--dump-dom", "about:blank")  # creates its profile
        for window in ("1100,900", "400,800"):
            for last in (False, False, True):
                more = browser.seconds_to_open(url, window) - browser.seconds_to_open("about:blank", window)
                if more < 1 or last:
                    break
                note_retry("report: opened at %s in %.2f s more than an empty page" % (window, more))
            good &= check(more < 1, "opened at %s in %.2f s more than an empty page" % (window, more))

        found = Structure(browser.run("--dump-dom", url)[0])
        good &= check(found.title == HOSTILE_NAME + " - estrain report", "the title is the job's name, as text")
        for tag in ("script", "img", "iframe", "link", "object"):
            good &= check(found.elements[tag] == 0, "no <%s>" % tag)
        good &= check(not found.handlers, "no handlers of events: %s" % found.handlers)
        good &= check(found.elements["figure"] == 6, "5 charts and a time line: %d" % found.elements["figure"])
        good &= check(found.elements["svg"] == 6, "a picture for each: %d" % found.elements["svg"])
        good &= check(found.classes["a", "fault"] == FAULTS, "%d faults" % found.classes["a", "fault"])
        good &= check(found.classes["a", "recovered"] == FAULTS, "%d recoveries" % found.classes["a", "recovered"])
        good &= check(found.elements["input"] > 5 * 20, "%d places to stop at" % found.elements["input"])
        good &= check(found.elements["table"] >= 9, "%d tables" % found.elements["table"])

        for window in ("1100,900", "400,800"):
            picture = folder / ("screen-%s.png" % window)
            browser.run("--window-size=" + window, "--screenshot=%s" % picture, url)
            good &= check(picture.stat().st_size > 10_000, "a picture at %s of %d bytes" %
                          (window, picture.stat().st_size))
    return 0 if good else 1


sys.exit(main())
