"""Measures the figures of RESULTS.md. See `scripts/bench --help`."""

import argparse
import fnmatch
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from all_rows import QUICK_ROWS, all_groups
from results import Results, head_of, page, write_file, write_json
from table import as_text, heading

SOURCE = Path(__file__).resolve().parents[2]
FULL, QUICK, BRIEF = "full", "quick", "brief"  # paces of a run
WORKLOADS_PYTHON = os.environ.get("WORKLOADS_PYTHON", "")  # set by scripts/bench
SHORTEST = 0.1  # seconds of a turn in a brief run


class Bench:
    """The surroundings of a measurement."""

    environment = None  # of estrain; None: this process's
    resize_options = ()  # of estrain resize
    ddp_options = ()  # of ddp_script.py

    def __init__(self, build, pace, folder, python=sys.executable, workloads_python=WORKLOADS_PYTHON):
        """pace: FULL, QUICK or BRIEF; workloads_python: the Python of examples/workloads"""
        self.build, self.pace, self.folder = build, pace, folder
        self.quick = pace != FULL
        self.estrain = build / "estrain"
        self.python, self.workloads_python = python, workloads_python
        self._folders = 0

    def rounds(self, full, quick):
        return {FULL: full, QUICK: quick, BRIEF: 1}[self.pace]

    def duration(self, full, quick):
        """In seconds."""
        return {FULL: full, QUICK: quick, BRIEF: SHORTEST}[self.pace]

    def new_folder(self):
        self._folders += 1
        path = self.folder / str(self._folders)
        path.mkdir()
        return path


class Selection:
    """The rows whose name is one of `patterns`, or contains or matches one that is no name of a row; all without any."""

    def __init__(self, groups, patterns):
        self.groups, self.patterns = groups, patterns
        self.names = {figure.name for group in groups for figure in group.figures}

    def has(self, name):
        return not self.patterns or any(self.matches(name, pattern) for pattern in self.patterns)

    def matches(self, name, pattern):
        if pattern in self.names:
            return name == pattern
        return pattern in name or fnmatch.fnmatch(name, pattern)

    def figures(self, group):
        return tuple(figure for figure in group.figures if self.has(figure.name))

    def wanted(self):
        """The groups that have a selected figure."""
        return [group for group in self.groups if self.figures(group)]


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures estrain side by side with PyTorch and with a bare LibTorch loop.",
    )
    only = "this row, or the rows whose name contains it, or matches it as a glob; may be repeated"
    parser.add_argument("--only", action="append", metavar="PATTERN", help=only)
    parser.add_argument("--json", metavar="FILE", help="write the rows there, after each that is measured")
    markdown = "write a page of all rows there, after each that is measured: scripts/benchmarks/RESULTS.md"
    parser.add_argument("--markdown", metavar="FILE", help=markdown)
    found = "measure nothing: make the page of --markdown from what --json wrote"
    parser.add_argument("--from", dest="found", metavar="FILE", help=found)
    quick = "few, short rounds; without --only, of a few rows of each kind alone: at most five minutes"
    pace = parser.add_mutually_exclusive_group()
    pace.set_defaults(pace=FULL)
    pace.add_argument("--quick", action="store_const", const=QUICK, dest="pace", help=quick)
    brief = "the rows of --quick, one short round of each: whether they can be measured; the figures mean nothing"
    pace.add_argument("--brief", action="store_const", const=BRIEF, dest="pace", help=brief)
    listing = "print the names of the rows, how each is measured, and how long that takes"
    parser.add_argument("--list", action="store_true", help=listing)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    arguments = parser.parse_args(words)
    if arguments.found and not arguments.markdown:
        parser.error("--from FILE says what the page is made of; --markdown FILE says where it goes")
    return arguments


def patterns_of(arguments):
    return arguments.only or (list(QUICK_ROWS) if arguments.pace != FULL else None)


def keep(results, arguments):
    if arguments.json:
        write_json(arguments.json, results.to_json())
    if arguments.markdown:
        write_file(arguments.markdown, page(results.to_json()))


def measure_group(bench, group, results):
    begin = time.monotonic()
    try:
        measured = group.measure(bench)
    except Exception as error:  # the other rows are measured all the same
        traceback.print_exc()
        why = (str(error).splitlines() or [""])[0]
        results.add_failed(group, f"{type(error).__name__}: {why}", time.monotonic() - begin)
    else:
        results.add(group, measured, time.monotonic() - begin)


def measure(bench, selection, results, arguments):
    keep(results, arguments)
    print(heading())
    for group in selection.wanted():
        measure_group(bench, group, results)
        for figure in selection.figures(group):
            print(as_text(results.rows[figure.name]), flush=True)
        keep(results, arguments)


def seconds_of(bench, groups):
    return sum(group.seconds(bench) for group in groups)


def in_words(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def list_rows(bench, selection):
    for group in selection.wanted():
        for figure in selection.figures(group):
            print(f"{figure.name}: {figure.how}")
        print(f"  about {in_words(group.seconds(bench))}")
    print(f"all of them, {bench.pace}: about {in_words(seconds_of(bench, selection.wanted()))}")


def run(bench, selection, arguments):
    """Measures what is selected, and says what came of it. Returns the exit code."""
    wanted = selection.wanted()
    print(f"{len(wanted)} measurements, about {in_words(seconds_of(bench, wanted))}", flush=True)
    figures = [figure for group in wanted for figure in selection.figures(group)]
    results = Results(head_of(bench, SOURCE, arguments.only), figures)
    measure(bench, selection, results, arguments)
    met, missed, failed = (results.names(verdict) for verdict in ("met", "missed", "failed"))
    print(f"\n{len(met) + len(missed)} figures in {results.seconds:.0f} s: {len(met)} met, {len(missed)} missed")
    for name in failed:
        print(f"not measured, the attempt failed: {name}")
    return 1 if failed else 0


def main():
    arguments = parse_arguments()
    if arguments.found:
        write_file(arguments.markdown, page(json.loads(Path(arguments.found).read_text())))
        return 0
    selection = Selection(all_groups(), patterns_of(arguments))
    if not selection.wanted():
        print(f"bench: no row matches {' or '.join(arguments.only)}; scripts/bench --list names them", file=sys.stderr)
        return 2
    build = Path(arguments.build).resolve()
    if arguments.list:
        list_rows(Bench(build, arguments.pace, None), selection)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))
    try:
        return run(Bench(build, arguments.pace, folder), selection, arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.chdir(SOURCE)
    sys.exit(main())
