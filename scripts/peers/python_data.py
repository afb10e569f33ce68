"""Datasets of users, for data.format = "python": pictures under torchvision's random transforms, which draw from torch's and
Python's generators, with noise of numpy's."""

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


def train():
    return Pictures(70, True)


def evaluation():
    return Pictures(18, False)
