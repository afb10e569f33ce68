"""One reader of JPEG files against Pillow and torchvision, on the same files; and how long training waits for them."""

import statistics
import subprocess

from dataclasses import dataclass
from pathlib import Path

from checkpoint_io import Served
from estrain_job import EstrainJob
from figures import HIGHER, LOWER, Figure, Group, Measured
from paired_rounds import ratios, run_rounds

FILES, SIZE = 100, (375, 500)  # as most of ImageNet's are
ROUNDS = (9, 3)  # of a full run, of a quick one
PIXELS, WAITING_STEPS, WAITING_ROUNDS = 96, 300, (5, 1)
HOW_WAITING = (
    "part of its time in which the one worker of a job waits for data: resnet18 on the same photos, cut to 96x96, batch "
    "8, data.readers = 0 and data.prefetch = 0; the first steps left out"
)
HOW = (
    "{} by one reader over {}, one thread each: 100 files of 375x500, quality 90, of smoothed noise; alternating, median "
    "of the ratios of the rounds, spread is their middle half"
)
SAMPLE = "training samples (RandomResizedCrop 224, flip, normalised floats) a second"
WRITE_FILES = """
import pathlib, sys, numpy
from PIL import Image
draw = numpy.random.default_rng(0)
for i in range(int(sys.argv[2])):
    folder = pathlib.Path(sys.argv[1], str(i % 2))
    folder.mkdir(parents=True, exist_ok=True)
    height, width = map(int, sys.argv[3:])
    coarse = Image.fromarray(draw.integers(0, 256, (height // 25, width // 25, 3), dtype=numpy.uint8))
    pixels = numpy.asarray(coarse.resize((width, height), Image.BICUBIC)).astype(int) + draw.integers(-12, 13, (height, width, 3))
    Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(folder / f"{i}.jpg", quality=90)
"""
READ = """
import pathlib, sys, time, numpy, torch, torchvision
from PIL import Image
from torchvision.transforms import v2
torch.set_num_threads(1)
files = sorted(str(path) for path in pathlib.Path(sys.argv[1]).glob("*/*.jpg"))
cut = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
scaled = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
of_pillow, of_tensor = v2.Compose([*cut, v2.ToImage(), *scaled]), v2.Compose([*cut, *scaled])
pillow = lambda file: Image.open(file).convert("RGB")
tensor = lambda file: torchvision.io.decode_jpeg(torchvision.io.read_file(file), mode="RGB")
work = {
    "pillow": pillow, "torchvision": tensor,
    "pillow-sample": lambda file: of_pillow(pillow(file)), "torchvision-sample": lambda file: of_tensor(tensor(file)),
}
print("ready", flush=True)
for line in sys.stdin:
    begin = time.perf_counter()
    for file in files:
        work[line.strip()](file)
    print(time.perf_counter() - begin, flush=True)
"""


@dataclass(frozen=True)
class PhotoJob:
    """A job on a folder of photos, as EstrainJob takes one."""

    pictures: Path
    batch: int = 8

    def spec(self, folder, ests, steps, sections="", job=""):
        path = folder / "job.toml"
        path.write_text(
            f'[job]\nname = "bench"\nests = {ests}\n{job}\n[model]\nname = "resnet18"\nclasses = 2\n\n'
            f'[data]\nformat = "images"\npath = "{self.pictures}"\nbatch = {self.batch}\ncrop = [{PIXELS}, {PIXELS}]\n'
            f"scale = [0.08, 1.0]\nflip = true\nmean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\n"
            f'readers = 0\nprefetch = 0\n\n[train]\nsteps = {steps}\neval_every = "never"\n' + sections
        )
        return path


def write_pictures(bench, folder):
    pictures, write = folder / "pictures", folder / "write.py"
    write.write_text(WRITE_FILES)
    subprocess.run([str(part) for part in (bench.python, write, pictures, FILES, *SIZE)], check=True)
    return pictures


def measure_waiting(bench):
    pictures = write_pictures(bench, bench.new_folder())
    percent, per_second = [], []
    for _ in range(bench.rounds(*WAITING_ROUNDS)):
        with EstrainJob(bench, PhotoJob(pictures), steps=WAITING_STEPS) as job:
            job.wait_for_step(WAITING_STEPS)
            job.process.wait(timeout=60)
            (stage,) = job.events("stage_speed")
            (worker,) = stage["workers"]
            percent.append(100 * worker["seconds_waiting_for_data"] / worker["computing_seconds"])
            per_second.append(stage["steps"] * job.samples_per_step / stage["seconds"])
    note = f"{statistics.median(per_second):.0f} images/s trained with"
    return {"jpeg/waiting": Measured.of(percent, note=note)}


def measure(bench):
    folder = bench.new_folder()
    read = folder / "read.py"
    read.write_text(READ)
    pictures = write_pictures(bench, folder)
    program = bench.build / "scripts/benchmarks/jpeg_reading"
    with Served([program, pictures]) as ours, Served([bench.python, read, pictures]) as theirs:
        verbs = ("pillow", "torchvision", "pillow-sample", "torchvision-sample")
        contestants = {verb: lambda verb=verb: ours.ask(verb) for verb in ("decode", "sample")}
        contestants |= {verb: lambda verb=verb: theirs.ask(verb) for verb in verbs}
        seconds = run_rounds(contestants, bench.rounds(*ROUNDS))
    note = "images/s: " + ", ".join(f"{name} {FILES / statistics.median(taken):.0f}" for name, taken in seconds.items())
    pairs = {
        "jpeg/decode/pillow": ("pillow", "decode"),
        "jpeg/decode/torchvision": ("torchvision", "decode"),
        "jpeg/sample/pillow": ("pillow-sample", "sample"),
        "jpeg/sample/torchvision": ("torchvision-sample", "sample"),
    }
    return {row: Measured.of(ratios(seconds[theirs], seconds[ours]), note=note) for row, (theirs, ours) in pairs.items()}


def groups():
    decoder = "images a second decoded to RGB"
    figures = (
        Figure("jpeg/decode/pillow", HIGHER, HOW.format(decoder, "Pillow's"), target=1.0),
        Figure("jpeg/decode/torchvision", HIGHER, HOW.format(decoder, "torchvision.io.decode_jpeg's"), target=1.0),
        Figure("jpeg/sample/pillow", HIGHER, HOW.format(SAMPLE, "torchvision.transforms.v2's of Pillow's images"), target=1.0),
        Figure("jpeg/sample/torchvision", HIGHER, HOW.format(SAMPLE, "torchvision.transforms.v2's of its tensors"), target=1.0),
    )
    waiting = Figure("jpeg/waiting", LOWER, HOW_WAITING, target=1.0, unit="%")
    return [
        Group(figures, measure, lambda bench: 10 + 6 * bench.rounds(*ROUNDS)),
        Group((waiting,), measure_waiting, lambda bench: 30 * bench.rounds(*WAITING_ROUNDS)),
    ]
