"""Rows as text."""

from figures import HIGHER

NAME_WIDTH = 46


def heading():
    return f"{'figure':<{NAME_WIDTH}} {'value':>8}  {'spread':<15} {'target':>9}  {'':<6} behind it"


def number(value):
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3f}" if 0 < abs(value) < 0.0995 else f"{value:.2f}"


def target_text(target, better):
    return ("≥ " if better == HIGHER else "≤ ") + number(target)


def cell(text):
    """The text as a cell of a table in Markdown."""
    return " ".join(text.replace("|", "\\|").split())


def told(row):
    """(value, spread) of a row in words."""
    if "value" not in row:
        return "-", "-"
    low, high = row["spread"]
    return number(row["value"]) + row["unit"], f"{number(low)} … {number(high)}"


def as_text(row):
    value, spread = told(row)
    verdict = row["verdict"] if row["verdict"] == "met" else row["verdict"].upper()
    target = target_text(row["target"], row["better"])
    return f"{row['name']:<{NAME_WIDTH}} {value:>8}  {spread:<15} {target:>9}  {verdict:<6} {row['note']}"
