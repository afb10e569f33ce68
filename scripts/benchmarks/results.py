"""The findings of a run of the bench: kept as JSON, printed as a page."""

import datetime
import json
import os
import subprocess
from pathlib import Path

from figures import Row
from table import cell, number, target_text, told

VERDICTS = ("met", "missed", "failed", "not measured")
KINDS = {
    "full": "full",
    "quick": "quick: few, short rounds, which tell whether it works",
    "brief": "brief: one short round, which tells whether it can be measured",
}


def run(*command, folder=None):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, cwd=folder).stdout.strip()


def commit_of(tree):
    """The commit that git names, and whether files differ from it."""
    try:
        commit = run("git", "rev-parse", "HEAD", folder=tree)
        changed = run("git", "status", "--porcelain", "--untracked-files=no", folder=tree).splitlines()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + (f", with {len(changed)} files changed since" if changed else "")


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")


def head_of(bench, tree, patterns):
    """patterns: of rows that were asked for; nothing: all."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit_of(tree),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "kind": bench.pace,
        "only": patterns or [],
        "torch": run(bench.python, "-c", "import torch; print(torch.__version__)"),
    }


class Results:
    """Results of all rows that were asked for. They are written after each group: a bench that is cut short keeps what
    it measured."""

    def __init__(self, head, figures):
        self.head, self.seconds = head, 0.0
        self.rows = {figure.name: row_of(figure, "not measured") for figure in figures}

    def add(self, group, measured, seconds):
        for figure in group.figures:
            if figure.name in self.rows and figure.name in measured:
                row = Row(figure, measured[figure.name]).to_json()
                self.rows[figure.name] = row | {"verdict": "met" if row["met"] else "missed"}
            elif figure.name in self.rows:
                self.rows[figure.name] = row_of(figure, "failed", "the measurement gave no such figure")
        self.seconds += seconds

    def add_failed(self, group, why, seconds):
        for figure in group.figures:
            if figure.name in self.rows:
                self.rows[figure.name] = row_of(figure, "failed", why)
        self.seconds += seconds

    def names(self, verdict):
        return [name for name, row in self.rows.items() if row["verdict"] == verdict]

    def to_json(self):
        return {"head": self.head, "seconds": round(self.seconds), "rows": list(self.rows.values())}


def row_of(figure, verdict, note=""):
    """A row without a value."""
    target = {"target": figure.target, "better": figure.better, "unit": figure.unit}
    return {"name": figure.name, "verdict": verdict, "how": figure.how, "note": note} | target


def write_file(path, text):
    """At no time is half of it there."""
    path = Path(path)
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def write_json(path, results):
    write_file(path, json.dumps(results, indent=1) + "\n")


def counts(rows):
    told = ((verdict, sum(row["verdict"] == verdict for row in rows)) for verdict in VERDICTS)
    return ", ".join(f"{count} {verdict}" for verdict, count in told if count)


def page(results):
    """Markdown of what Results.to_json() gave."""
    rows = results["rows"]
    lines = ["# What `scripts/bench` measured", "", *head_lines(results), ""]
    lines += ["A ratio is the median over rounds in which the contestants took turns, with the middle half of them."]
    lines += ["Each row says by which command it is printed, and below each table is how its rows are measured.", ""]
    lines += throughput_lines(rows)
    for section in dict.fromkeys(row["name"].split("/")[0] for row in rows):
        lines += section_lines(section, [row for row in rows if row["name"].split("/")[0] == section], results["head"])
    return "\n".join(lines).rstrip() + "\n"


def head_lines(results):
    head, rows = results["head"], results["rows"]
    kind = KINDS[head["kind"]]
    facts = {
        "date": head["date"],
        "commit": head["commit"],
        "machine": f"{head['processor']}, {head['cores']} cores; load {head['load']} when the run began",
        "PyTorch": head["torch"],
        "run": f"{kind}; {results['seconds'] / 60:.0f} min",
        "rows": f"{len(rows)}: {counts(rows)}",
        "command": f"`scripts/bench{options(head, head['only'])} --json FILE --markdown FILE`",
    }
    return ["| | |", "|---|---|"] + [f"| {name} | {cell(str(fact))} |" for name, fact in facts.items()]


def options(head, patterns):
    return ("" if head["kind"] == "full" else f" --{head['kind']}") + "".join(f" --only '{pattern}'" for pattern in patterns)


def section_lines(section, rows, head):
    lines = [f"## {section}", "", "| figure | value | spread | target | | behind it | command |", "|" + "---|" * 7]
    for row in rows:
        value, low_to_high = told(row)
        target = target_text(row["target"], row["better"]) + row["unit"]
        command = f"`scripts/bench{options(head, [row['name']])}`"
        cells = (row["name"], value, low_to_high, target, row["verdict"], cell(row["note"]), command)
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for how in dict.fromkeys(row["how"] for row in rows):
        names = [row["name"].removeprefix(section + "/") for row in rows if row["how"] == how]
        lines.append(f"- {', '.join(names)}: {how}.")
    return [*lines, ""]


def throughput_lines(rows):
    """Jobs against all opponents side by side."""
    jobs, opponents = {}, []
    for row in rows:
        if row["name"].startswith("throughput/"):
            job, opponent = row["name"].removeprefix("throughput/").rsplit("/", 1)
            jobs.setdefault(job, {})[opponent] = row
            opponents += [opponent] if opponent not in opponents else []
    if not jobs:
        return []
    lines = ["## Samples per second, against all side by side", ""]
    lines += ["| job | " + " | ".join(opponents) + " |", "|" + "---|" * (1 + len(opponents))]
    for job, against in jobs.items():
        cells = (ratio_text(against[opponent]) if opponent in against else "" for opponent in opponents)
        lines.append(f"| {job} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def ratio_text(row):
    if "value" not in row:
        return row["verdict"]
    low, high = row["spread"]
    return f"{number(row['value'])} [{number(low)}, {number(high)}]" + ("" if row["met"] else " (missed)")
