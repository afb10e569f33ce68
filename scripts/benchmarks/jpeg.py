"""One reader of JPEG files against Pillow and torchvision, on the same files."""

import statistics
import subprocess

from checkpoint_io import Served
from figures import HIGHER, Figure, Group, Measured
from paired_rounds import ratios, run_rounds

FILES, SIZE = 100, (375, 500)  # as most of ImageNet's are
ROUNDS = (9, 3)  # of a full run, of a quick one
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


def measure(bench):
    folder = bench.new_folder()
    pictures, write, read = folder / "pictures", folder / "write.py", folder / "read.py"
    write.write_text(WRITE_FILES)
    read.write_text(READ)
    subprocess.run([str(part) for part in (bench.python, write, pictures, FILES, *SIZE)], check=True)
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
    return [Group(figures, measure, lambda bench: 10 + 6 * bench.rounds(*ROUNDS))]
