"""A Dataset of one's own for estrain: photos in a folder for each class, under transforms of torchvision.

  data = { format = "python", file = "data.py:train", test_file = "data.py:evaluation", readers = 4 }

README.md says what estrain promises.
"""
import os

from torchvision import datasets, transforms

FOLDER = os.environ.get("PHOTOS", "photos")


def train():
    return datasets.ImageFolder(f"{FOLDER}/train", transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ColorJitter(0.2, 0.2),
        transforms.ToTensor()]))


def evaluation():
    return datasets.ImageFolder(f"{FOLDER}/val", transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]))
