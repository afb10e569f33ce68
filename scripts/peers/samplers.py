"""What data.sampler means, in PyTorch: samplers for the DataLoader of one rank, whose epochs are dealt out as
DistributedSampler deals them out; the groups of data.per_class, restated from core/data/sampling/class_groups.h; and the
buckets of data.bucket."""

import itertools

import h5py
import numpy
import torch
from torch.utils.data import Sampler, WeightedRandomSampler

WORD = 0xFFFFFFFF
CLASS_GROUPS, BUCKETS = 4, 5  # the streams


def weights_of(section, labels):
    if section["sampler"] == "balanced":
        return 1.0 / numpy.bincount(labels)[labels]
    path, _, name = section["sample_weights"].partition(".h5:")
    if name:
        with h5py.File(path + ".h5") as file:
            return file[name][()]
    return numpy.load(path) if path.endswith(".npy") else numpy.loadtxt(path)


class Weighted(Sampler):
    """torch's WeightedRandomSampler, every rank-th of its draws."""

    def __init__(self, weights, ranks, rank, seed):
        self.weights, self.ranks, self.rank, self.seed, self.epoch = weights, ranks, rank, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return -(-len(self.weights) // self.ranks)

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        draws = list(WeightedRandomSampler(self.weights, len(self.weights), generator=generator))
        return iter(list(itertools.islice(itertools.cycle(draws), len(self) * self.ranks))[self.rank::self.ranks])


def philox(counter, key):
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k, q & WORD, (p >> 32) ^ d ^ l, p & WORD
        k, l = k + 0x9E3779B9 & WORD, l + 0xBB67AE85 & WORD
    return a, b, c, d


def step(places, i, word):
    """Step i of a shuffle."""
    j = i + (word * (len(places) - i) >> 32)
    places[i], places[j] = places[j], places[i]
    return places[i]


class Buckets(Sampler):
    """The batches of a DistributedSampler, restated from core/data/sampling/length_buckets.h."""

    def __init__(self, data, section, ranks, rank, seed):
        self.lengths = [data.length(i) for i in range(len(data))]
        self.batch, self.steps, self.drop_last = section["batch"], section["bucket"], section["drop_last"]
        self.ranks, self.rank, self.seed, self.epoch = ranks, rank, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=torch.Generator().manual_seed(self.seed + self.epoch)).tolist()
        each = -(-len(order) // self.ranks)
        order = list(itertools.islice(itertools.cycle(order), each * self.ranks))
        chunk, whole = self.batch * self.ranks, each // self.batch
        for window, first in enumerate(range(0, whole, self.steps)):
            steps = min(self.steps, whole - first)
            yield from self.batches_in(window, order[first * chunk:(first + steps) * chunk], steps)
        if each % self.batch and not self.drop_last:
            yield order[whole * chunk + self.rank::self.ranks]

    def batches_in(self, window, samples, steps):
        """The mini-batches of the rank, step by step."""
        samples = sorted(samples, key=self.lengths.__getitem__)
        batches = [None] * steps
        for c, place in enumerate(self.shuffled(window, steps, 0)):
            ests = self.shuffled(window, self.ranks, steps + c * self.ranks)
            begin = (c * self.ranks + ests.index(self.rank)) * self.batch
            batches[place] = samples[begin:begin + self.batch]
        return batches

    def shuffled(self, window, count, first):
        key, places = (self.seed & WORD, self.seed >> 32), list(range(count))
        for i in range(count):
            step(places, i, philox((window, (first + i) // 4, self.epoch, BUCKETS), key)[(first + i) % 4])
        return places


class PerClass:
    """Batches for a DataLoader's batch_sampler."""

    def __init__(self, labels, section, ranks, rank, seed):
        self.classes = [numpy.flatnonzero(labels == label).tolist() for label in numpy.unique(labels)]
        self.each, self.batch, self.drop_last = section["per_class"], section["batch"], section["drop_last"]
        self.length = -(-len(labels) // ranks) // self.each * self.each
        self.ranks, self.rank, self.seed, self.epoch = ranks, rank, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        for start in range(0, self.length, self.batch):
            size = min(self.batch, self.length - start)
            if size == self.batch or not self.drop_last:
                yield self.mini_batch(start * self.ranks + self.rank, size)

    def mini_batch(self, place, size):
        key = self.seed & WORD, self.seed >> 32

        def word(k):
            return philox((place, k // 4, self.epoch, CLASS_GROUPS), key)[k % 4]

        classes, samples = list(range(len(self.classes))), []
        for group in range(size // self.each):
            first = group * (self.each + 1)
            members = list(self.classes[step(classes, group, word(first))])
            few = len(members) < self.each
            for i in range(self.each):
                drawn = word(first + 1 + i)
                samples.append(members[drawn * len(members) >> 32] if few else step(members, i, drawn))
        return samples
