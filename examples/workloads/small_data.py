#!/usr/bin/env python3
"""Writes the small data sets of examples/workloads, in the formats of the real ones.

    python examples/workloads/small_data.py FOLDER [NAME...]     pictures boxes ratings clicks questions words spans; default: all

pictures   a folder of JPEG files for each class, as ImageNet: Fashion-MNIST's images, enlarged, tinted, of different
           sizes. Debian's package dataset-fashion-mnist, MIT licence
boxes      PASCAL VOC's layout: one to four of those images on a canvas, and where they are
ratings    NeuMF's samples: users' choices drawn from factors of their own, four items not chosen for each that was
clicks     Criteo's samples: numbers, and categories in the shares of a power law; clicks drawn from weights of both
questions  SQuAD's samples: a verse, words out of it as the question, and where the words behind them are. The King James
           Bible, public domain, Debian's package bible-kjv-text; a vocabulary of its most frequent words
words      its text as numbers of words, 16 bits each
spans      T5's samples: verses with words left out, and what was left out

Needs numpy, pillow and h5py. The same files come out every time.
"""

import gzip
import pathlib
import re
import subprocess
import sys

import h5py
import numpy
from PIL import Image

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
TRAIN, TEST = 320, 48  # samples of each data set
VOCABULARY = 2000
PADDING, UNKNOWN, SEPARATOR, START = range(4)  # numbers of words that are none
LENGTH = 48  # of a question with its verse


def fashion(part):
    def read(name, header):
        data = gzip.decompress((FASHION / f"{part}-{name}-ubyte.gz").read_bytes())
        return numpy.frombuffer(data, numpy.uint8, offset=header)
    labels = read("labels-idx1", 8)
    return read("images-idx3", 16).reshape(len(labels), 28, 28), labels


def enlarged(draw, image, low, high):
    """In colours of its own, with sides between `low` and `high`."""
    width, height = (int(side) for side in draw.integers(low, high + 1, 2))
    grey = numpy.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC), numpy.float32)
    tint = draw.uniform(0.4, 1, 3)
    return (grey[..., None] * tint).clip(0, 255).astype(numpy.uint8)


def pictures(folder):
    draw = numpy.random.default_rng(1)
    for part, name, count in ("train", "train", TRAIN), ("test", "t10k", TEST):
        images, labels = fashion(name)
        for i in range(count):
            where = folder / part / f"{labels[i]}-{CLASSES[labels[i]]}"
            where.mkdir(parents=True, exist_ok=True)
            Image.fromarray(enlarged(draw, images[i], 66, 96)).save(where / f"{i:05}.jpg", quality=90)


def boxes(folder):
    draw = numpy.random.default_rng(2)
    for part in "JPEGImages", "Annotations", "ImageSets/Main":
        (folder / part).mkdir(parents=True, exist_ok=True)
    for part, name, first, count in ("train", "train", 0, TRAIN), ("val", "t10k", TRAIN, TEST):
        images, labels = fashion(name)
        names = []
        for i in range(count):
            names.append(f"{first + i:06}")
            width, height = (int(side) for side in draw.integers(90, 140, 2))
            canvas = numpy.full((height, width, 3), draw.integers(0, 60, 3), numpy.uint8)
            objects = []
            for _ in range(draw.integers(1, 5)):
                which = int(draw.integers(len(images)))
                thing = enlarged(draw, images[which], 20, 56)
                h, w = thing.shape[:2]
                x, y = int(draw.integers(0, width - w)), int(draw.integers(0, height - h))
                canvas[y:y + h, x:x + w] = numpy.maximum(canvas[y:y + h, x:x + w], thing)
                objects.append((CLASSES[labels[which]], x + 1, y + 1, x + w, y + h))
            Image.fromarray(canvas).save(folder / "JPEGImages" / f"{names[-1]}.jpg", quality=90)
            (folder / "Annotations" / f"{names[-1]}.xml").write_text(annotation(names[-1], width, height, objects))
        (folder / "ImageSets/Main" / f"{part}.txt").write_text("".join(f"{name}\n" for name in names))


def annotation(name, width, height, objects):
    parts = "".join(f"""\
  <object>
    <name>{kind}</name>
    <difficult>0</difficult>
    <bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox>
  </object>
""" for kind, x1, y1, x2, y2 in objects)
    return f"""<annotation>
  <filename>{name}.jpg</filename>
  <size><width>{width}</width><height>{height}</height><depth>3</depth></size>
{parts}</annotation>
"""


USERS, ITEMS, NOT_CHOSEN = 200, 120, 4


def ratings(folder):
    draw = numpy.random.default_rng(3)
    taste = draw.standard_normal((USERS, 6)) @ draw.standard_normal((6, ITEMS)) + draw.standard_normal(ITEMS)
    rows = []
    for user in range(USERS):
        chosen = numpy.argsort(-taste[user] + draw.gumbel(size=ITEMS))[:12]
        others = numpy.setdiff1d(numpy.arange(ITEMS), chosen)
        for item in chosen:
            rows.append((user, item, 1))
            rows += [(user, other, 0) for other in draw.choice(others, NOT_CHOSEN, replace=False)]
    rows = numpy.array(rows)[draw.permutation(len(rows))]
    for part, some in ("ratings", rows[:-600]), ("ratings-test", rows[-600:]):
        write_arrays(folder / f"{part}.h5", user=some[:, 0], item=some[:, 1], label=some[:, 2].astype(numpy.float32))


NUMBERS, FIELDS, CATEGORIES = 13, 26, 300


def clicks(folder):
    draw = numpy.random.default_rng(5)
    count = 3000 + 600
    numbers = numpy.log1p(draw.geometric(0.1, (count, NUMBERS))).astype(numpy.float32)
    kinds = (CATEGORIES * draw.random((count, FIELDS)) ** 3).astype(numpy.int32)
    weights = 0.5 * draw.standard_normal((FIELDS, CATEGORIES))
    score = weights[numpy.arange(FIELDS), kinds].sum(1) + (numbers - numbers.mean(0)) @ (0.3 * draw.standard_normal(NUMBERS)) - 1
    label = (draw.random(count) < 1 / (1 + numpy.exp(-score))).astype(numpy.float32)
    for part, some in ("clicks", slice(0, -600)), ("clicks-test", slice(-600, None)):
        write_arrays(folder / f"{part}.h5", numbers=numbers[some], kinds=kinds[some], label=label[some])


def verses():
    """The Bible's, as lists of numbers: 4 stands for the most frequent word, and so on."""
    text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          check=True, text=True).stdout
    lines = [re.findall(r"[a-z]+", line.partition(" ")[2].lower()) for line in text.splitlines()]
    counts = {}
    for word in (word for line in lines for word in line):
        counts[word] = counts.get(word, 0) + 1
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:VOCABULARY - START - 1]
    numbers = {word: START + 1 + i for i, word in enumerate(ranked)}
    return [[numbers.get(word, UNKNOWN) for word in line] for line in lines]


def questions(folder):
    draw = numpy.random.default_rng(4)
    usable = [verse for verse in verses() if 12 <= len(verse) <= 34]
    samples = []
    for which in draw.permutation(len(usable))[:TRAIN + TEST]:
        verse = usable[which]
        at = int(draw.integers(0, len(verse) - 6))
        asked, answer = verse[at:at + 4], (at + 4, at + 4 + int(draw.integers(1, 3)) - 1)
        ids = [START, *asked, SEPARATOR, *verse, SEPARATOR]
        samples.append((ids + [PADDING] * (LENGTH - len(ids)), [1] * len(ids) + [0] * (LENGTH - len(ids)),
                        [0] * 6 + [1] * (len(ids) - 6) + [0] * (LENGTH - len(ids)), answer[0] + 6, answer[1] + 6))
    for part, some in ("questions", samples[:TRAIN]), ("questions-test", samples[TRAIN:]):
        ids, mask, types, start, end = (numpy.array(column) for column in zip(*some))
        write_arrays(folder / f"{part}.h5", ids=ids, mask=mask, types=types, start=start, end=end)


def words(folder):
    numbers = numpy.array([word for verse in verses()[:4000] for word in [*verse, SEPARATOR]], numpy.uint16)
    numbers[:-4000].tofile(folder / "words.bin")
    numbers[-4000:].tofile(folder / "words-test.bin")


def spans(folder):
    draw = numpy.random.default_rng(6)
    usable = [verse for verse in verses() if 16 <= len(verse) <= 30]
    samples = []
    for which in draw.permutation(len(usable))[:TRAIN + TEST]:
        verse = usable[which]
        at, count = int(draw.integers(0, len(verse) - 4)), int(draw.integers(2, 5))
        ids = [*verse[:at], START, *verse[at + count:], SEPARATOR]
        labels = [START, *verse[at:at + count], SEPARATOR]
        samples.append((ids + [PADDING] * (32 - len(ids)), [1] * len(ids) + [0] * (32 - len(ids)),
                        labels + [-100] * (8 - len(labels))))  # -100: no word to be said
    for part, some in ("spans", samples[:TRAIN]), ("spans-test", samples[TRAIN:]):
        ids, mask, labels = (numpy.array(column) for column in zip(*some))
        write_arrays(folder / f"{part}.h5", ids=ids, mask=mask, labels=labels)


def write_arrays(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


ALL = {"pictures": pictures, "boxes": boxes, "ratings": ratings, "clicks": clicks, "questions": questions, "words": words, "spans": spans}


def write(folder, names=ALL):
    folder = pathlib.Path(folder)
    for name in names:
        where = folder / name if name in ("pictures", "boxes") else folder
        where.mkdir(parents=True, exist_ok=True)
        ALL[name](where)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2:] or ALL)
