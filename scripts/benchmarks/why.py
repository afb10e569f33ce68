"""Trains one job on several numbers of workers, in PyTorch and in estrain, and draws how the accuracy depends on them.
See `scripts/why`."""

import argparse
import concurrent.futures
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE / "scripts/peers"), str(TREE / "examples")]

import accuracy_script  # noqa: E402
import load_checkpoint  # noqa: E402
import torch  # noqa: E402
import twins  # noqa: E402
from torch_ddp import ALONE, torchrun  # noqa: E402

DATA = Path("/usr/share/datasets/fashion-mnist")
CLASSES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
ESTS, BATCH, IMAGES, EPOCHS = 4, 32, 60000, 3
STEPS_OF_EPOCH = -(-IMAGES // (ESTS * BATCH))
EVALUATIONS = 7  # 3 epochs have 1407 steps, 7 times 201
BRIEF_STEPS, BRIEF_EVALUATIONS = 12, 3
# The workers of each third of the training.
WAYS = {"1 worker": (1, 1, 1), "2 workers": (2, 2, 2), "4 workers": (4, 4, 4), "4, then 1, then 2 workers": (4, 1, 2)}
SYSTEMS = {"pytorch": "PyTorch DistributedDataParallel", "estrain": f"estrain, {ESTS} ESTs"}
# Model: its section, and the learning rate for ESTS workers.
MODELS = {
    "lenet": ('name = "lenet"', 0.08),
    "mlp": ('name = "mlp"\nhidden = [128]', 0.08),
    "resnet18": ('name = "resnet18"', 0.08),
}
SPEC = """[job]
name = "why-{model}"
ests = {ests}
[model]
{section}
[data]
format = "idx"
path = "{data}"
batch = {batch}
mean = [0.2860]
std = [0.3530]
[optimizer]
name = "sgd"
lr = {lr}
momentum = 0.9
[schedule]
name = "linear"
unit = "step"
period = {steps}
start_factor = 1.0
end_factor = 0.02
[train]
steps = {steps}
eval_every = {eval_every}
eval_batch = 1000
"""


def fail(text):
    sys.exit(f"why: error: {text}")


def launches(workers):
    """(workers, begin, end) of each launch, as shares of the training."""
    if len(set(workers)) == 1:
        return [(workers[0], 0, 1)]
    return [(number, third / 3, (third + 1) / 3) for third, number in enumerate(workers)]


class Experiment:
    """The job of a model, its seeds, and a folder for the runs."""

    def __init__(self, estrain, folder, model, seeds, brief):
        self.estrain, self.folder, self.seeds, self.brief = estrain, folder, seeds, brief
        self.steps = BRIEF_STEPS if brief else EPOCHS * STEPS_OF_EPOCH
        self.evaluations = BRIEF_EVALUATIONS if brief else EVALUATIONS
        section, lr = MODELS[model]
        self.spec = folder / "job.toml"
        self.spec.write_text(
            SPEC.format(model=model, section=section, lr=lr, ests=ESTS, data=DATA, batch=BATCH, steps=self.steps,
                        eval_every=self.steps // self.evaluations))
        self.test = accuracy_script.read_images(tomllib.loads(self.spec.read_text()))[1]

    def result(self, curve, right):
        """What why.json has of a run: the curve, and the accuracy of each class at the end."""
        right, labels = torch.as_tensor(right), self.test[1]
        classes = [right[labels == i].double().mean().item() for i in range(len(CLASSES))]
        return {"curve": curve, "classes": classes}

    def pytorch(self, workers):
        """{seed: result} of DistributedDataParallel; `workers` of each third."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        curves, last = {str(seed): [] for seed in self.seeds}, {}
        for number, begin, end in launches(workers):
            plan = {"spec": str(self.spec), "steps": self.steps, "epochs": 0 if self.brief else EPOCHS, "begin": begin,
                    "end": end, "evaluations": self.evaluations, "seeds": self.seeds, "folder": str(folder),
                    "results": str(folder / "results.json")}
            (folder / "plan.json").write_text(json.dumps(plan))
            script = Path(__file__).with_name("why_script.py")
            command = torchrun(sys.executable, number, folder.name, script, folder / "plan.json")
            run_or_fail(command, os.environ | ALONE)
            last = json.loads((folder / "results.json").read_text())
            for seed in curves:
                curves[seed] += last[seed]["curve"]
        return {seed: self.result(curves[seed], last[seed]["right"]) for seed in curves}

    def of_estrain(self, seed):
        """{way: result} of estrain's runs with a seed, which have the same bits at every step."""
        results, runs = {}, []
        for way, workers in WAYS.items():
            run = Path(tempfile.mkdtemp(dir=self.folder)) / "run"
            for number, begin, end in launches(workers):
                command = [self.estrain, "train", self.spec, "--run", run, "--devices", str(number),
                           "--set", f"job.seed={seed}", "--set", f"train.steps={round(end * self.steps)}"]
                run_or_fail(command + (["--resume"] if begin else []))
            if runs:
                run_or_fail([self.estrain, "verify", runs[0], run])
            runs.append(run)
            results[way] = self.result_of(run)
        return results

    def result_of(self, run):
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        every = self.steps // self.evaluations
        curve = [[line["step"] / self.steps, line["eval"]["accuracy"]] for line in lines
                 if "eval" in line and line["step"] % every == 0]
        spec = tomllib.loads(self.spec.read_text())
        options = {key: value for key, value in spec["model"].items() if key != "name"}
        model = twins.twin(spec["model"]["name"], list(self.test[0].shape[1:]), len(CLASSES), **options)
        load_checkpoint.load(model, run / "checkpoints/latest")
        right = accuracy_script.right(model, *self.test)
        if right.sum().item() != round(curve[-1][1] * len(right)):
            fail(f"{run}: the last checkpoint gets {right.sum()} images right, the last evaluation {curve[-1][1]}")
        return self.result(curve, right)

    def measure(self):
        """{system: {way: {seed: result}}}"""
        found = {"pytorch": {}, "estrain": {way: {} for way in WAYS}}
        for way, workers in WAYS.items():
            found["pytorch"][way] = self.pytorch(workers)
            print(f"why: PyTorch on {way}: done", flush=True)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for seed, by_way in zip(self.seeds, pool.map(self.of_estrain, self.seeds)):
                for way, result in by_way.items():
                    found["estrain"][way][str(seed)] = result
        print(f"why: estrain: the {len(WAYS)} runs of each seed are equal, bit for bit, at every step", flush=True)
        return found


def run_or_fail(command, environment=None):
    command = list(map(str, command))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    if done.returncode:
        fail(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")


def width(values):
    return max(values) - min(values)


def final(result):
    return result["curve"][-1][1]


def spreads(of_system):
    """In percent: how far final accuracies lie apart over the ways with one seed, and over the seeds of one way: (mean,
    most) each. And how far those of a class do over the ways with one seed."""
    seeds = list(next(iter(of_system.values())))
    ends = {way: [100 * final(of_system[way][seed]) for seed in seeds] for way in of_system}
    over_ways = [width(of_seed) for of_seed in zip(*ends.values())]
    over_seeds = [width(of_way) for of_way in ends.values()]
    by_seed = [zip(*(of_system[way][seed]["classes"] for way in of_system)) for seed in seeds]
    classes = [100 * width(of_class) for by_class in by_seed for of_class in by_class]
    return {name: (sum(found) / len(found), max(found)) for name, found in
            (("workers", over_ways), ("seeds", over_seeds), ("workers, a class", classes))}


def table(found):
    lines = [f"{'test accuracy in %':<40}" + "".join(f"{way:>27}" for way in WAYS)]
    for system, title in SYSTEMS.items():
        for seed in found[system]["1 worker"]:
            cells = "".join(f"{100 * final(found[system][way][seed]):>27.2f}" for way in WAYS)
            lines.append(f"{title + ', seed ' + seed:<40}" + cells)
    for system, title in SYSTEMS.items():
        for over, (mean, most) in spreads(found[system]).items():
            lines.append(f"{title}, apart over {over}: {mean:.2f} on average, {most:.2f} at most")
    return "\n".join(lines)


class Picture:
    """An SVG of rows and two columns: PyTorch at the left, estrain at the right, on the same axes. The line of the
    first way is widest and the line of the last way narrowest, so all lines stay visible. Dots stand side by side."""

    COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc3377")
    LINES, RADIUS, APART = (5.5, 3.9, 2.5, 1.2), 3, 6.5
    WIDTH, HEIGHT, LEFT, TOP, GAP = 430, 170, 46, 86, 46

    def __init__(self, title, rows):
        height = self.TOP + rows * (self.HEIGHT + self.GAP) - 14
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * self.WIDTH}" height="{height}" '
            'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
        ]
        self.text(12, 18, title, size=13)
        for i, (way, colour) in enumerate(zip(WAYS, self.COLOURS)):
            self.parts.append(f'<circle cx="{18 + 110 * i}" cy="36" r="5" fill="{colour}"/>')
            self.text(28 + 110 * i, 40, way)
        for column, name in enumerate(SYSTEMS.values()):
            self.text(column * self.WIDTH + self.LEFT, 62, name, size=13)

    def text(self, x, y, words, anchor="start", size=11):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{words}</text>')

    def frame(self, row, title, values, shares, names):
        """Draws both frames of a row, for values in percent, and `names` below at these shares of the width. Lines and
        dots then go into these frames."""
        step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if width(values) <= 7 * step or step == 20)
        low, high = math.floor(min(values) / step), math.floor(max(values) / step) + 1
        self.low, self.high, self.y0 = low * step, high * step, self.TOP + row * (self.HEIGHT + self.GAP)
        for column in range(2):
            left, right = column * self.WIDTH + self.LEFT, (column + 1) * self.WIDTH - 10
            self.text(left, self.y0, title)
            for i in range(low, high + 1):
                y = self.y(i * step)
                self.parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
                self.text(left - 5, y + 4, f"{i * step:g} %", "end")
            for i, (share, name) in enumerate(zip(shares, names)):
                lower = 10 * (i % 2) if len(names) > 5 else 0  # long rows of names take two lines
                self.text(self.x(column, share), self.y0 + self.HEIGHT + 10 + lower, name, "middle", 10)

    def y(self, percent):
        return self.y0 + 10 + (self.HEIGHT - 16) * (self.high - percent) / (self.high - self.low)

    def x(self, column, share):
        return column * self.WIDTH + self.LEFT + 8 + (self.WIDTH - self.LEFT - 26) * share

    def lines(self, column, by_way):
        for points, colour, wide in zip(by_way, self.COLOURS, self.LINES):
            places = " ".join(f"{self.x(column, share):.1f},{self.y(100 * value):.1f}" for share, value in points)
            self.parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{wide}"/>')

    def dots(self, column, share, by_way):
        for i, (value, colour) in enumerate(zip(by_way, self.COLOURS)):
            x, y = self.x(column, share) + self.APART * (i - 1.5), self.y(100 * value)
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{self.RADIUS}" fill="{colour}"/>')

    def write(self, path):
        path.write_text("\n".join(self.parts) + "\n</svg>\n")


def draw(path, model, found):
    seeds = list(found["pytorch"]["1 worker"])
    first = seeds[0]
    picture = Picture(f"{model} on Fashion-MNIST: accuracy on the 10,000 test images, by the number of workers", 3)

    def of_ways(system, seed, part):
        return [part(found[system][way][seed]) for way in WAYS]

    def all_of(seeds, part):
        found_there = (of_ways(system, seed, part) for system in SYSTEMS for seed in seeds)
        return [100 * value for by_way in found_there for values in by_way for value in values]

    def middles(number):
        return [(i + 0.5) / number for i in range(number)]

    values = all_of([first], lambda result: [accuracy for _, accuracy in result["curve"]])
    picture.frame(0, f"during the training, seed {first}", values, (1 / 3, 2 / 3, 1), ("1/3", "2/3", "end"))
    for column, system in enumerate(SYSTEMS):
        picture.lines(column, of_ways(system, first, lambda result: result["curve"]))
    places = middles(len(seeds))
    values = all_of(seeds, lambda result: [final(result)])
    picture.frame(1, "at the end, each seed", values, places, [f"seed {seed}" for seed in seeds])
    for column, system in enumerate(SYSTEMS):
        for place, seed in zip(places, seeds):
            picture.dots(column, place, of_ways(system, seed, final))
    places = middles(len(CLASSES))
    values = all_of([first], lambda result: result["classes"])
    picture.frame(2, f"at the end, each class, seed {first}", values, places, CLASSES)
    for column, system in enumerate(SYSTEMS):
        for i, place in enumerate(places):
            picture.dots(column, place, of_ways(system, first, lambda result: result["classes"][i]))
    picture.write(path)


def check_picture(path, seeds):
    """The picture is whole: a line for each way, and a dot for each way, seed and class, of both systems."""
    shapes = [element.tag.rpartition("}")[2] for element in xml.etree.ElementTree.parse(path).iter()]
    lines, dots = 2 * len(WAYS), len(WAYS) * (1 + 2 * (seeds + len(CLASSES)))
    if (shapes.count("polyline"), shapes.count("circle")) != (lines, dots):
        fail(f"{path}: {lines} lines and {dots} dots were expected")


def main():
    parser = argparse.ArgumentParser(prog="scripts/why", description=__doc__)
    parser.add_argument("--model", default="lenet", choices=MODELS)
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, default=TREE / "runs/why")
    parser.add_argument("--build", type=Path, default=TREE / "build")
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        fail("--seeds must be 1 or more")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.source:
        report = json.loads(arguments.source.read_text())
    else:
        if not DATA.is_dir():
            fail(f"there is no {DATA}; run scripts/setup --data first")
        estrain = arguments.build.resolve() / "estrain"
        if not estrain.exists():
            fail(f"there is no {estrain}; run scripts/build first")
        seeds = list(range(1 if arguments.brief else arguments.seeds))
        runs = Path(tempfile.mkdtemp(prefix="runs-", dir=arguments.out.resolve()))
        torch.set_num_threads(1)
        if arguments.brief:
            del WAYS["2 workers"], WAYS["4 workers"]
        found = Experiment(estrain, runs, arguments.model, seeds, arguments.brief).measure()
        shutil.rmtree(runs)
        report = {"model": arguments.model, "found": found}
        (arguments.out / "why.json").write_text(json.dumps(report))
    picture = arguments.out / "why.svg"
    draw(picture, report["model"], report["found"])
    check_picture(picture, len(report["found"]["pytorch"]["1 worker"]))
    print(table(report["found"]))
    print(f"the picture: {picture}")


main()
