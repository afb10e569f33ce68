"""Results as lines of text and as Markdown, for README."""

from figures import HIGHER
from table import number, target_text

DIGITS = 120  # of what a check says, in a table


def heading():
    return f"{'':8} {'':8}  {'check':36} what came out"


def told(figure):
    low, high = figure["spread"]
    value = f"{number(figure['value'])}{figure['unit']} [{number(low)}, {number(high)}]"
    if figure["met"]:
        return value + ", met"
    way = "below" if figure["better"] == HIGHER else "above"
    return f"{value}, missed: {way} {number(figure['target'])}{figure['unit']}"


def line_of(result):
    words = result["words"].splitlines()[0] if result["words"] else ""
    lines = [f"{result['verdict']:8} {result['seconds']:6.1f} s  {result['check']:36} {words}"]
    lines += [f"{'':20} {figure['name']:36} {told(figure)}" for figure in result["figures"]]
    return "\n".join(lines)


def cell(text):
    return text.replace("|", "\\|")


def markdown(machine, results):
    lines = [f"{machine['gpu']}; torch {machine['torch']}; {machine['time']}" + ("; DRY RUN" * machine["dry_run"]), ""]
    lines += ["| check | verdict | what came out |", "|---|---|---|"]
    for result in results:
        words = result["words"].splitlines()[0][:DIGITS] if result["words"] else ""
        lines.append(f"| {result['check']} | {result['verdict']} | {cell(words)} |")
    lines += ["", "| figure | measured | target | how |", "|---|---|---|---|"]
    for result in results:
        for figure in result["figures"]:
            target = target_text(figure["target"], figure["better"]) + figure["unit"]
            note = f"; {cell(figure['note'])}" if figure["note"] else ""
            lines.append(f"| {figure['name']} | {told(figure)}{note} | {target} | {cell(figure['how'])} |")
    return "\n".join(lines) + "\n"
