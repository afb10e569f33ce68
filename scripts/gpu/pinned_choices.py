"""Algorithms that are written down decide the bits: others in their place give other bits, and keep giving them."""

import json

from equality import ESTS, models
from jobs import Run, compare, differ
from machine import CHOICES
from report import Failed, Skipped

STEPS, MORE_STEPS = 6, 4


def exchanged(choices):
    """Each choice with an algorithm that another shape of the same kind of operation has, where they have several."""
    found = {}
    for key, choice in choices.items():
        kind = key.split()[0]
        others = {c["algorithm"] for k, c in choices.items() if k.split()[0] == kind and c["algorithm"]}
        ordered = sorted(others)
        if choice["algorithm"] and len(ordered) > 1:
            next_one = ordered[(ordered.index(choice["algorithm"]) + 1) % len(ordered)]
            found[key] = choice | {"algorithm": next_one}
    return found


def check(name):
    def measure(machine, report):
        if machine.dry_run:
            raise Skipped("needs a GPU: algorithms are pinned there")
        model = models(machine)[name]

        def train(what, steps, profiles=None):
            folder = machine.new_folder(f"{name}-{what}")
            with Run(machine, model, folder, ESTS, steps, machine.devices(1), profiles=profiles) as run:
                return run.finish()

        one = train("one", STEPS)
        chosen = one.choices()
        store = machine.new_folder("store")
        lines = [json.dumps(choice) + "\n" for choice in (chosen | exchanged(chosen)).values()]
        (store / CHOICES).write_text("".join(lines))
        run = train("others", STEPS, store / "profiles.json")
        # Choices that do not fit the other shape are made anew.
        taken = [key for key, choice in run.choices().items() if choice != chosen.get(key)]
        if not taken:
            raise Skipped(f"{len(chosen)} algorithms, and none of them computes another shape")
        words, _ = differ(machine, one, run)
        if not words:
            raise Failed(f"{len(taken)} of {len(chosen)} algorithms are others, the bits are not")
        report.found(f"{len(taken)} of {len(chosen)} algorithms are others, so are the bits")
        # Only the checkpoint knows of them; the store has those of before.
        (run.run / "algorithms.jsonl").unlink()
        with Run.resumed(machine, run.folder, machine.devices(2), STEPS + MORE_STEPS) as resumed:
            resumed.finish()
        anew = train("others-again", STEPS + MORE_STEPS, store / "profiles.json")
        again = compare(machine, anew, resumed, STEPS + MORE_STEPS)
        return f"{len(taken)} of {len(chosen)} algorithms exchanged: other bits, kept through a resume: {again}"

    return measure
