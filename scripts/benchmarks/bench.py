"""Measures the figures that README shows. See `scripts/bench --help`."""

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

from figures import Row, all_groups
from table import as_markdown, as_text, heading

SOURCE = Path(__file__).resolve().parents[2]


class Bench:
    """What a measurement is given."""

    environment = None  # of estrain; None: this process's
    resize_options = ()  # of estrain resize
    ddp_options = ()  # of ddp_script.py

    def __init__(self, build, quick, folder):
        self.build, self.quick, self.folder = build, quick, folder
        self.estrain = build / "estrain"
        self.python = sys.executable
        self._folders = 0

    def rounds(self, full, quick):
        return quick if self.quick else full

    def new_folder(self):
        self._folders += 1
        path = self.folder / str(self._folders)
        path.mkdir()
        return path


def matches(name, patterns):
    return not patterns or any(pattern in name or fnmatch.fnmatch(name, pattern) for pattern in patterns)


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures estrain side by side with PyTorch and with a bare LibTorch loop.",
    )
    only = "rows whose name contains it, or matches it as a glob; may be repeated"
    parser.add_argument("--only", action="append", metavar="PATTERN", help=only)
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    parser.add_argument("--quick", action="store_true", help="few, short rounds: whether it works, not what it gives")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and how each is measured")
    markdown = "print a table for README from what --json wrote; measures nothing"
    parser.add_argument("--markdown", metavar="FILE", help=markdown)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    return parser.parse_args()


def write_json(path, rows):
    Path(path).write_text(json.dumps([row.to_json() for row in rows], indent=1) + "\n")


def measure(bench, groups, patterns, json_path):
    rows, failed = [], []
    print(heading())
    for group in groups:
        wanted = [figure for figure in group.figures if matches(figure.name, patterns)]
        if not wanted:
            continue
        try:
            results = group.measure(bench)
        except Exception:
            traceback.print_exc()
            failed += [figure.name for figure in wanted]
            continue
        for figure in wanted:
            rows.append(Row(figure, results[figure.name]))
            print(as_text(rows[-1]), flush=True)
        if json_path:
            write_json(json_path, rows)  # after each group: a bench that is cut short keeps what it measured
    return rows, failed


def main():
    arguments = parse_arguments()
    groups = all_groups()
    if arguments.markdown:
        print(as_markdown(json.loads(Path(arguments.markdown).read_text())))
        return 0
    if arguments.list:
        for figure in (figure for group in groups for figure in group.figures if matches(figure.name, arguments.only)):
            print(f"{figure.name}: {figure.how}")
        return 0
    if not any(matches(figure.name, arguments.only) for group in groups for figure in group.figures):
        print(f"bench: no row matches {' or '.join(arguments.only)}; scripts/bench --list names them", file=sys.stderr)
        return 2
    build = Path(arguments.build).resolve()
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))
    begin = time.monotonic()
    try:
        rows, failed = measure(Bench(build, arguments.quick, folder), groups, arguments.only, arguments.json)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missed = [row.figure.name for row in rows if not row.met]
    seconds = time.monotonic() - begin
    print(f"\n{len(rows)} figures in {seconds:.0f} s: {len(rows) - len(missed)} met, {len(missed)} missed")
    for name in failed:
        print(f"not measured, the attempt failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    os.chdir(SOURCE)
    sys.exit(main())
