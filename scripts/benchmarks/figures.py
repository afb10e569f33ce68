"""What a figure is, and the one list of all of them."""

from dataclasses import dataclass, field
from typing import Callable

import statistics

from paired_rounds import spread

HIGHER, LOWER = "higher", "lower"


@dataclass(frozen=True)
class Figure:
    """A row of the table: a ratio (or what `unit` says) with a target, measured as `how` says."""

    name: str
    better: str
    how: str
    target: float | None = None  # None: it comes out of the measurement, which then gives it
    unit: str = ""


@dataclass(frozen=True)
class Group:
    """Figures that one measurement gives. `measure(bench)` returns {figure name: Measured}."""

    figures: tuple[Figure, ...]
    measure: Callable


@dataclass
class Measured:
    value: float
    low: float
    high: float
    target: float | None = None
    note: str = ""  # what was behind the ratio, in absolute numbers

    @staticmethod
    def of(values, target=None, note=""):
        return Measured(statistics.median(values), *spread(values), target, note)


@dataclass
class Row:
    figure: Figure
    measured: Measured
    target: float = field(init=False)

    def __post_init__(self):
        self.target = self.measured.target if self.figure.target is None else self.figure.target

    @property
    def met(self):
        value = self.measured.value
        return value >= self.target if self.figure.better == HIGHER else value <= self.target

    def to_json(self):
        return {
            "name": self.figure.name,
            "value": round(self.measured.value, 4),
            "target": round(self.target, 4),
            "better": self.figure.better,
            "met": self.met,
            "how": self.figure.how,
            "unit": self.figure.unit,
            "spread": [round(self.measured.low, 4), round(self.measured.high, 4)],
            "note": self.measured.note,
        }


def all_groups():
    import checkpoint_io, first_batch, kernel_speed, memory, plan, portable, recovery, resize, start, straggler, switching
    import throughput

    modules = (
        throughput, portable, kernel_speed, switching, memory, first_batch, start, resize, recovery, checkpoint_io, plan,
        straggler,
    )
    return [group for module in modules for group in module.groups()]
