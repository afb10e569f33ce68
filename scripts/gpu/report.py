"""Writes the findings of a check line by line as it finds them: if the check is killed, they stay."""

import json
import traceback

from figures import Figure, Measured, Row


class Failed(Exception):
    """A check found what must not be."""


class Skipped(Exception):
    """A check cannot be made here."""


def each_by_itself(parts, words):
    """Calls {name: function}, each of which adds to `words` what it found: one that fails, by whatever exception but
    Skipped, takes none of the others along. Returns the words; throws Failed in the end."""
    faults = []
    for name, part in parts.items():
        try:
            part()
        except Skipped:
            raise
        except Exception as fault:  # noqa: BLE001
            if not isinstance(fault, Failed):
                traceback.print_exc()
            faults.append(f"{name}: {fault if isinstance(fault, Failed) else repr(fault)}")
    if faults:
        raise Failed("\n".join(faults + words))
    return "; ".join(words)


class Report:
    def __init__(self, path):
        self.path = path

    def _write(self, line):
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def figure(self, name, better, target, values, how, unit="", note="", more=None):
        """`values`: one for each round; their median is the figure. `more`: what was behind it, as numbers."""
        row = Row(Figure(name, better, how, target, unit), Measured.of(values, note=note)).to_json()
        self._write({"figure": row | {"verdict": "met" if row["met"] else "missed", "rounds": values} | (more or {})})

    def found(self, words):
        """Counts where the check does not come to its end."""
        print(words, flush=True)
        self._write({"found": words})

    def end(self, verdict, words):
        self._write({"end": {"verdict": verdict, "words": words}})


def read_report(path):
    """(figures, what was found in words, {"verdict", "words"} or None where the check did not come to its end)."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    ends = [line["end"] for line in lines if "end" in line]
    figures = [line["figure"] for line in lines if "figure" in line]
    return figures, [line["found"] for line in lines if "found" in line], ends[-1] if ends else None
