"""Datasets of users, for data.format = "python": pictures under torchvision's random transforms, which draw from torch's and
Python's generators, with noise of numpy's; and texts of any length."""

import os
import time

import numpy
import torch
from PIL import Image
from torchvision import transforms


class Pictures(torch.utils.data.Dataset):
    classes = ["flat", "steep", "grey", "dark"]

    def __init__(self, samples, augments):
        pixels = numpy.random.RandomState(samples).randint(0, 256, (samples, 40, 36, 3), numpy.uint8)
        self.pictures = [Image.fromarray(each) for each in pixels]
        random = [transforms.RandomResizedCrop(28), transforms.RandomHorizontalFlip(),
                  transforms.RandomChoice([transforms.ColorJitter(0.4), transforms.Grayscale(3)])]
        self.show = transforms.Compose((random if augments else [transforms.Resize((28, 28))])
                                       + [transforms.Grayscale(1), transforms.ToTensor()])

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        image = self.show(self.pictures[i])
        return image + torch.from_numpy(numpy.random.rand(1, 28, 28).astype(numpy.float32)) / 16, i % 4


class Texts(torch.utils.data.Dataset):
    """As ddp_jobs.write_ragged() writes them. As long as there is a file PEERS_SLOW, a sample takes a while."""

    def __init__(self, samples):
        draw = numpy.random.RandomState(samples)
        each = 1 + (draw.rand(samples) ** 3 * 20).astype(numpy.int64)
        self.texts = [torch.from_numpy(draw.randint(0, 40, length).astype(numpy.uint8)) for length in each]
        self.lengths = {"tokens": each, "tags": each.tolist()}

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        if os.path.exists(os.environ.get("PEERS_SLOW", "")):
            time.sleep(0.2)
        return {"tokens": self.texts[i], "tags": self.texts[i].to(torch.int64) % 5}


def texts():
    return Texts(61)


def test_texts():
    return Texts(13)


def train():
    return Pictures(70, True)


def evaluation():
    return Pictures(18, False)
