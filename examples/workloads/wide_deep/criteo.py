#!/usr/bin/env python3
"""Turns Criteo's clicks (Kaggle's display advertising challenge, train.txt) into arrays.

    python criteo.py train.txt criteo

A line is a label, 13 numbers and 26 categories, between tabs; some are empty. Written are criteo.h5, and criteo-test.h5 with
the last tenth of the lines: numbers, as log(1 + x), 0 for an empty or negative one; kinds, a category's hash below 100,000;
label. Lines are read and written in parts, so that memory does not grow with the file.
"""

import argparse
import zlib

import h5py
import numpy

NUMBERS, FIELDS, CATEGORIES, LINES = 13, 26, 100_000, 100_000


def parts(path):
    """Lists of at most LINES lines, each cut at its tabs."""
    lines = []
    for line in open(path):
        lines.append(line.rstrip("\n").split("\t"))
        if len(lines) == LINES:
            yield lines
            lines = []
    yield lines


def append(file, name, rows):
    if name not in file:
        file.create_dataset(name, (0, *rows.shape[1:]), rows.dtype, maxshape=(None, *rows.shape[1:]), chunks=(LINES, *rows.shape[1:]))
    file[name].resize(len(file[name]) + len(rows), 0)
    file[name][len(file[name]) - len(rows):] = rows


def write(file, lines):
    if not lines:
        return
    numbers = [[max(0.0, float(word or 0)) for word in line[1:1 + NUMBERS]] for line in lines]
    kinds = [[zlib.crc32(word.encode()) % CATEGORIES for word in line[1 + NUMBERS:]] for line in lines]
    append(file, "numbers", numpy.log1p(numpy.array(numbers, numpy.float32)))
    append(file, "kinds", numpy.array(kinds, numpy.int32))
    append(file, "label", numpy.array([float(line[0]) for line in lines], numpy.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clicks", help="train.txt")
    parser.add_argument("out", help="without .h5")
    arguments = parser.parse_args()
    count = sum(1 for _ in open(arguments.clicks))
    left = count - count // 10
    with h5py.File(f"{arguments.out}.h5", "w") as train, h5py.File(f"{arguments.out}-test.h5", "w") as test:
        for lines in parts(arguments.clicks):
            write(train, lines[:left])
            write(test, lines[left:])
            left = max(0, left - len(lines))
    print(f"{arguments.out}.h5, {arguments.out}-test.h5: {count} samples")


if __name__ == "__main__":
    main()
