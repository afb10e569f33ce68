"""Rows as text and as a table for README."""

from figures import HIGHER

NAME_WIDTH = 46


def heading():
    return f"{'figure':<{NAME_WIDTH}} {'value':>8}  {'spread':<15} {'target':>9}  {'':<6} behind it"


def number(value):
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def target_text(target, better):
    return ("≥ " if better == HIGHER else "≤ ") + number(target)


def as_text(row):
    measured, figure = row.measured, row.figure
    spread = f"{number(measured.low)} … {number(measured.high)}"
    value = number(measured.value) + figure.unit
    met = "met" if row.met else "MISSED"
    return (
        f"{figure.name:<{NAME_WIDTH}} {value:>8}  {spread:<15} {target_text(row.target, figure.better):>9}  {met:<6} "
        f"{measured.note}"
    )


def as_markdown(rows):
    lines = ["| figure | value | spread | target | met | method |", "|---|---|---|---|---|---|"]
    for row in rows:
        low, high = row["spread"]
        lines.append(
            f"| {row['name']} | {number(row['value'])}{row['unit']} | {number(low)} to {number(high)} "
            f"| {target_text(row['target'], row['better'])} | {'yes' if row['met'] else 'no'} | {row['how']} |"
        )
    return "\n".join(lines)
