#!/usr/bin/env python3
"""Turns MovieLens 1M into NeuMF's arrays.

    python movielens.py ml-1m/ratings.dat movielens

ratings.dat comes from https://grouplens.org/datasets/movielens/1m/ (its licence: research, no redistribution). Written
are movielens.h5 and movielens-test.h5 with user, item and label. As in the paper, what a user rated counts as chosen, the
last one of each user is kept for evaluation, and for each there are four items that the user did not rate, drawn here.
"""

import argparse

import h5py
import numpy

NOT_CHOSEN, SEED = 4, 0


def numbered(values):
    """Numbers from 0 in the place of names, in their order."""
    return numpy.unique(values, return_inverse=True)[1]


def write(path, draw, user, item, items, rated):
    """With NOT_CHOSEN others for each pair. rated: user * items + item of all pairs, sorted."""
    users, others = numpy.repeat(user, NOT_CHOSEN), draw.integers(0, items, len(user) * NOT_CHOSEN)
    while len(again := numpy.flatnonzero(numpy.isin(users * items + others, rated))):
        others[again] = draw.integers(0, items, len(again))
    order = draw.permutation(len(user) * (1 + NOT_CHOSEN))
    with h5py.File(path, "w") as file:
        file["user"] = numpy.concatenate([user, users])[order].astype(numpy.int32)
        file["item"] = numpy.concatenate([item, others])[order].astype(numpy.int32)
        file["label"] = numpy.repeat([1, 0], [len(user), len(others)])[order].astype(numpy.float32)
    print(f"{path}: {len(order)} samples, {user.max() + 1} users, {items} items")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ratings")
    parser.add_argument("out", help="without .h5")
    arguments = parser.parse_args()
    rows = numpy.array([line.split("::") for line in open(arguments.ratings)], numpy.int64)
    user, item, time = numbered(rows[:, 0]), numbered(rows[:, 1]), rows[:, 3]
    order = numpy.lexsort((time, user))
    user, item = user[order], item[order]
    is_last = numpy.append(user[1:] != user[:-1], True)
    rated, draw = numpy.sort(user * (item.max() + 1) + item), numpy.random.default_rng(SEED)
    write(f"{arguments.out}.h5", draw, user[~is_last], item[~is_last], item.max() + 1, rated)
    write(f"{arguments.out}-test.h5", draw, user[is_last], item[is_last], item.max() + 1, rated)


if __name__ == "__main__":
    main()
