"""The data sets of a job spec as PyTorch datasets, read anew from what core/data/*.h say about the formats.

No random crops and flips, except in a user's own Dataset: the random numbers of estrain's augmentation are its own.
"""

import glob
import gzip
import hashlib
import importlib
import math
import pathlib
import random
import struct
import sys
import xml.etree.ElementTree

import numpy
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset


class Images(Dataset):
    """classes, shape of a sample; items are (image, label)."""

    def __init__(self, pixels, labels, section, classes=None):
        if section["crop"] or section["flip"]:
            raise SystemExit("data.crop and data.flip cannot be repeated in Python")
        self.pixels = pixels if pixels.dim() == 4 else pixels[:, None]
        self.labels = labels.to(torch.int64)
        self.section = section
        self.classes = classes or int(self.labels.max()) + 1
        self.shape = list(self[0][0].shape)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image, section = self.pixels[i], self.section
        if image.dtype == torch.uint8:
            image = image.float().div(255)
        image = image.expand(section.get("channels", -1), -1, -1)
        if section["resize"]:
            image = F.interpolate(image[None], section["resize"], mode="bilinear", align_corners=False)[0]
        image = F.pad(image, [section["pad"]] * 4)
        if section["mean"]:
            image = image.sub(torch.tensor(section["mean"])[:, None, None])
        if section["std"]:
            image = image.div(torch.tensor(section["std"])[:, None, None])
        return image, self.labels[i]


class Photos(Dataset):
    """A folder for each class; items are (image, label). Decoded when they are asked for."""

    def __init__(self, path, section):
        import torchvision  # not needed for the other formats
        if section["scale"] or section["flip"]:
            raise SystemExit("data.scale and data.flip cannot be repeated in Python")
        steps = torchvision.transforms
        resize = section["resize"]
        self.files = torchvision.datasets.ImageFolder(path, steps.Compose(
            ([steps.Resize(resize[0] if len(resize) == 1 else resize)] if resize else [])
            + ([steps.CenterCrop(section["crop"])] if section["crop"] else []) + [steps.ToTensor()]
            + ([steps.Normalize(section["mean"], section["std"])] if section["mean"] else [])))
        self.classes = len(self.files.classes)
        self.shape = list(self[0][0].shape)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return self.files[i]


class Voc(Dataset):
    """PASCAL VOC; items are {"images", "boxes", "labels"}."""

    def __init__(self, path, listed, section):
        from torchvision import transforms  # not needed for the other formats
        if section["scale"] or section["flip"] or section["crop"]:
            raise SystemExit("data.scale, data.flip and data.crop of voc cannot be repeated in Python")
        self.folder, self.section = pathlib.Path(path), section
        self.stems = (self.folder / "ImageSets/Main" / f"{listed}.txt").read_text().split()
        self.classes, self.shape = len(section["names"]), []
        self.show = transforms.Compose([transforms.Resize(section["resize"]), transforms.ToTensor(),
                                        transforms.Normalize(section["mean"], section["std"])])

    def __len__(self):
        return len(self.stems)

    def __getitem__(self, i):
        from PIL import Image
        most = self.section["boxes"]
        boxes, labels = torch.zeros(most, 4), torch.full((most,), -1)
        image = Image.open(self.folder / "JPEGImages" / f"{self.stems[i]}.jpg").convert("RGB")
        tree = xml.etree.ElementTree.parse(self.folder / "Annotations" / f"{self.stems[i]}.xml")
        for n, thing in enumerate(tree.iter("object")):
            left, top, right, bottom = (int(thing.find(f"bndbox/{edge}").text) for edge in ("xmin", "ymin", "xmax", "ymax"))
            (height, width), (w, h) = self.section["resize"], image.size
            boxes[n] = torch.tensor([(left - 1) * width / w / width, (top - 1) * height / h / height,
                                     right * width / w / width, bottom * height / h / height], dtype=torch.float64)
            labels[n] = self.section["names"].index(thing.find("name").text)
        return {"images": self.show(image), "boxes": boxes, "labels": labels}


class Text(Dataset):
    """Items are (tokens, next tokens)."""
    classes, shape = 256, []

    def __init__(self, data, context, dtype=torch.uint8):
        self.data = torch.frombuffer(bytearray(data), dtype=dtype).to(torch.int64)
        self.context = context

    def __len__(self):
        return (len(self.data) - 1) // self.context

    def __getitem__(self, i):
        window = self.data[i * self.context:(i + 1) * self.context + 1]
        return window[:-1], window[1:]


class Padded(Dataset):
    """Items are {name: value}; the arrays in `ragged` are of any length, and `collate` pads them."""
    ragged = ()

    def pads_as(self, section):
        self.pads = {name: float(value) for name, value in (text.split("=") for text in section.get("pad_values", []))}
        self.multiple = section.get("pad_multiple", 1)

    def collate(self, samples):
        """As a user would, by pad_sequence."""
        if not self.ragged:
            return torch.utils.data.default_collate(samples)
        whole = [{name: value for name, value in sample.items() if name not in self.ragged} for sample in samples]
        batch = torch.utils.data.default_collate(whole) if whole[0] else {}
        for name in self.ragged:
            pad = self.pads.get(name, 0.0)
            values = torch.nn.utils.rnn.pad_sequence([sample[name] for sample in samples], True, pad)
            missing = -values.shape[1] % self.multiple
            batch[name] = F.pad(values, (0, 0) * (values.dim() - 2) + (0, missing), value=pad)
            lengths = batch[f"{name}_lengths"] = torch.tensor([len(sample[name]) for sample in samples])
            batch[f"{name}_mask"] = torch.arange(batch[name].shape[1]) < lengths[:, None]
        return batch


class Arrays(Padded):
    """Of all arrays in a file. Ragged ones, which have offsets, are lists of tensors."""
    classes, shape = 1, []

    def __init__(self, path, section):
        import h5py  # not needed for the other formats
        with h5py.File(path) as file:
            self.arrays = {name: torch.from_numpy(data[()]) for name, data in file.items()}
        self.ragged = [name for name in self.arrays if f"{name}.offsets" in self.arrays]
        for name in self.ragged:
            lengths = self.arrays.pop(f"{name}.offsets").diff().tolist()
            self.arrays[name] = self.arrays[name].split(lengths)
        self.pads_as(section)
        self.samples = max(map(len, self.arrays.values()))
        self.arrays = {name: array for name, array in self.arrays.items() if len(array) == self.samples}

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        return {name: array[i] for name, array in self.arrays.items()}

    def length(self, i):
        return sum(len(self.arrays[name][i]) for name in self.ragged)


class Seeded(Padded):
    """A user's Dataset; each sample is read with all generators seeded from (seed, epoch, sample). The model's random
    streams stay as they are."""

    def __init__(self, place, seed, epoch, section):
        file, name = place.rsplit(":", 1)
        self.seed, self.epoch = seed, epoch
        sys.path.insert(0, str(pathlib.Path(file).parent))
        self.seed_all(seed % 2**32)
        made = getattr(importlib.import_module(pathlib.Path(file).stem), name)
        self.samples = made() if callable(made) else made
        self.classes, self.shape = getattr(self.samples, "classes", 1), []
        self.pads_as(section)
        self.ragged = list(getattr(self.samples, "lengths", {}))
        if isinstance(self[0], (tuple, list)):
            self.shape = list(self[0][0].shape)
        if not isinstance(self.classes, int):
            self.classes = len(self.classes)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
        words = struct.pack("<3q", self.seed, self.epoch, i)
        self.seed_all(int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "little"))
        sample = self.samples[i]
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        numpy.random.set_state(states[2])
        return sample

    def length(self, i):
        return sum(int(each[i]) for each in self.samples.lengths.values())

    def set_epoch(self, epoch):
        self.epoch = epoch

    @staticmethod
    def seed_all(value):
        torch.manual_seed(value)
        random.seed(value)
        numpy.random.seed(value)


def open_data(spec):
    """The training and the test set (None where there is none) of a resolved spec."""
    if spec["data"]["format"] not in ("text", "tokens") and spec["data"].get("holdout", 0) > 0:
        raise SystemExit("data.holdout of this format is not repeated here: give files for evaluation")
    if spec["model"]["name"] in ("program", "python") and spec["data"]["format"] == "hdf5" and is_of_arrays(spec["data"]["path"]):
        paths = spec["data"]["path"], spec["data"].get("test_path")
        return [Arrays(path, spec["data"]) if path else None for path in paths]
    if spec["data"]["format"] == "python":
        places, seed = (spec["data"]["file"], spec["data"].get("test_file")), spec["job"]["seed"]
        return [Seeded(place, seed, epoch, spec["data"]) if place else None for place, epoch in zip(places, (0, -1))]
    section, context, classes = spec["data"], spec["model"].get("context", 64), spec["model"].get("classes")
    if section["format"] == "text":
        return open_text(section, context)
    if section["format"] == "tokens":
        return open_text(section, context, {"uint16": torch.uint16, "uint32": torch.uint32}[section["token_type"]])
    if section["format"] == "voc":
        train = Voc(section["path"], section["list"], section)
        return train, Voc(section.get("test_path") or section["path"], section["test_list"], section)
    if section["format"] == "images":
        return [Photos(section[key], section) if section.get(key) else None for key in ("path", "test_path")]
    readers = {"idx": read_idx_pair, "hdf5": read_hdf5_pair}
    if section["format"] not in readers:
        raise SystemExit(f"data.format = \"{section['format']}\" cannot be repeated in Python")
    train, test = readers[section["format"]](section)
    train = Images(*train, section, classes)
    return train, Images(*test, section, train.classes) if test else None


def is_of_arrays(path):
    import h5py  # not needed for the other formats
    with h5py.File(path) as file:
        return set(file) != {"images", "labels"}  # other arrays than pictures and their classes


def token_bytes(pattern):
    """Of all files with such names, without the headers of llm.c's files."""
    files = [pathlib.Path(name).read_bytes() for name in sorted(glob.glob(pattern))]
    return b"".join(data[1024:] if data[:8] == struct.pack("<2i", 20240520, 1) else data for data in files)


def open_text(section, context, dtype=torch.uint8):
    data = token_bytes(section["path"])
    if section.get("test_path"):
        return Text(data, context, dtype), Text(token_bytes(section["test_path"]), context, dtype)
    if dtype != torch.uint8:
        raise SystemExit("data.holdout of tokens is not repeated here: give data.test_path")
    split = len(data) - int(len(data) * section.get("holdout", 0.1))  # the default of text
    return Text(data[:split], context), Text(data[split:], context) if split < len(data) else None


def read_hdf5_pair(section):
    import h5py  # not needed for the other formats

    def read(path):
        with h5py.File(path) as file:
            return torch.from_numpy(file["images"][()]), torch.from_numpy(file["labels"][()])
    return read(section["path"]), read(section["test_path"]) if section.get("test_path") else None


def read_idx_pair(section):
    if section.get("images"):
        has_test = section.get("test_images")
        return (read_idx(section["images"]), read_idx(section["labels"])), (
            (read_idx(section["test_images"]), read_idx(section["test_labels"])) if has_test else None)
    folder = pathlib.Path(section["path"])
    return [[read_idx(folder / f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1")]
            for part in ("train", "t10k")]


def read_idx(path):
    path = pathlib.Path(path)
    if not path.exists():
        path = pathlib.Path(f"{path}.gz")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    sizes = struct.unpack_from(f">{data[3]}i", data, 4)
    values = torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * data[3], count=math.prod(sizes))
    return values.reshape(sizes)
