"""Figures, and the values that measurements give for them."""

from dataclasses import dataclass
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
    target: float  # stated beforehand: nothing that is measured moves it
    unit: str = ""


@dataclass(frozen=True)
class Group:
    """Figures that one measurement gives. `measure(bench)` returns {figure name: Measured}; it takes about
    `seconds(bench)`."""

    figures: tuple[Figure, ...]
    measure: Callable
    seconds: Callable


@dataclass
class Measured:
    value: float
    low: float
    high: float
    note: str = ""  # what was behind the ratio, in absolute numbers

    @staticmethod
    def of(values, note=""):
        return Measured(statistics.median(values), *spread(values), note)


@dataclass
class Row:
    figure: Figure
    measured: Measured

    @property
    def met(self):
        value, target = self.measured.value, self.figure.target
        return value >= target if self.figure.better == HIGHER else value <= target

    def to_json(self):
        return {
            "name": self.figure.name,
            "value": round(self.measured.value, 4),
            "target": round(self.figure.target, 4),
            "better": self.figure.better,
            "met": self.met,
            "how": self.figure.how,
            "unit": self.figure.unit,
            "spread": [round(self.measured.low, 4), round(self.measured.high, 4)],
            "note": self.measured.note,
        }
