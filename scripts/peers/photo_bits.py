#!/usr/bin/env python3
"""Compares what estrain reads of images with what torchvision makes of the same files, bit for bit: decoded, turned as
EXIF data say, cut, scaled, mirrored, augmented, jittered, normalised, erased; and mini-batches mixed as by MixUp and CutMix. The
random draws are estrain's, the pixels torchvision's. The images are made here: JPEG of every sampling, progressive and
grey, with four inks; PNG of every kind; BMP; WebP, moving, too; TIFF of every kind; sizes from one pixel to 900; every
orientation.

usage: photo_bits.py PHOTO_DUMP            (in a venv with torch, torchvision, numpy)
       photo_bits.py PHOTO_DUMP --time     images a second of a core, by turns: estrain, and torchvision over Pillow

PHOTO_DUMP is the program built from scripts/peers/photo_dump.cpp. Exit code 1 where a bit differs.
"""

import argparse
import collections
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import tiff_kinds
import torch
import torchvision.datasets as datasets
import torchvision.transforms as T
import torchvision.transforms.functional as F
import torchvision.transforms.v2 as v2
from PIL import Image, ImageOps

RAND_AUGMENT = v2.RandAugment()
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def picture(random, height, width):
    """Smooth shapes and some noise."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float64)
    planes = []
    for _ in range(3):
        a, b, c = random.uniform(0.005, 0.2, 3)
        planes.append(127 + 80 * numpy.sin(a * x + b * y) + 40 * numpy.cos(c * x) + random.normal(0, 8, (height, width)))
    return Image.fromarray(numpy.stack(planes, -1).clip(0, 255).astype(numpy.uint8))


def orientation(i):
    """Arguments of save() that tell one of the orientations, and of a few JPEG files none."""
    exif = Image.Exif()
    exif[0x0112] = i * 5 % 9
    xmp = f'<x:xmpmeta><rdf:Description tiff:Orientation="{i % 9}"/></x:xmpmeta>'.encode()
    return {} if i % 11 == 0 else {"xmp": xmp} if i % 13 == 0 and i % 12 < 4 else {"exif": exif}


def write_images(folder, random, count):
    for i in range(count):
        height, width = (int(n) for n in random.integers(1 if i % 7 == 0 else 20, 60 if i % 5 == 0 else 900, 2))
        image = picture(random, height, width)
        where = folder / f"class{i % 3}"
        where.mkdir(parents=True, exist_ok=True)
        kind, told = i % 12, orientation(i)
        if i % 24 in (2, 15):
            write_webp(where / f"{i:04}.webp", image, i, told)
        elif i % 24 in (9, 20):
            write_tiff(where / f"{i:04}.tif{'f' * (i % 2)}", image, i)
        elif kind < 4:
            image.save(where / f"{i:04}.jpg", quality=int(random.integers(30, 98)), subsampling=kind % 3, **told)
        elif kind == 4:
            image.save(where / f"{i:04}.jpeg", quality=80, progressive=True, **told)
        elif kind == 5:
            image.convert("L").save(where / f"{i:04}.JPG", quality=70, **told)
        elif kind == 6:
            image.convert("CMYK").save(where / f"{i:04}.jpg", quality=90, **told)
        elif i % 48 in (7, 19, 31):
            image.convert(("RGB", "P", "L")[i % 48 // 16]).save(where / f"{i:04}.bmp")
        elif kind == 7:
            image.save(where / f"{i:04}.png", **told)
        elif kind == 8:
            image.convert("P").save(where / f"{i:04}.png", **told)
        elif kind == 9:
            image.convert("L").save(where / f"{i:04}.png", **told)
        elif kind == 10:
            image.convert("RGBA").save(where / f"{i:04}.png", **told)
        else:
            image.convert("1").save(where / f"{i:04}.png", **told)


def write_webp(path, image, i, told):
    shape = image.convert("RGBA") if i % 4 == 2 else image
    if i % 5 == 0:
        moving = Image.new("RGBA", (image.width + 9, image.height + 7))
        moving.paste(image, (5, 3))
        moving.save(path, save_all=True, append_images=[moving.rotate(20)], lossless=i % 2 == 0, duration=40, **told)
    elif i % 3 == 0:
        shape.save(path, lossless=True, method=0, **told)
    else:
        shape.save(path, quality=20 + i % 70, **told)


def write_tiff(path, image, i):
    kinds = (("RGB", "tiff_lzw"), ("L", "jpeg"), ("CMYK", "raw"), ("RGB", "jpeg"), ("P", "tiff_adobe_deflate"),
             ("1", "group4"), ("RGBA", "zstd"), ("YCbCr", "jpeg"), ("1", "group3"), ("RGB", "packbits"))
    mode, compression = kinds[(i // 11) % len(kinds)]
    tags = {0x0112: i * 5 % 9} if i * 5 % 9 else {}
    if compression == "tiff_lzw":
        tags[317] = 2  # differences of neighbours
    image.convert(mode).save(path, compression=compression, tiffinfo=tags)


def read_dump(path):
    with open(path, "rb") as file:
        while line := file.readline():
            head = json.loads(line)
            data = file.read(4 * math.prod(head["shape"]))
            yield head, torch.from_numpy(numpy.frombuffer(data, numpy.float32).copy()).reshape(head["shape"])


def run_dump(program, keys, work):
    (work / "keys.json").write_text(json.dumps(keys))
    subprocess.run([program, work / "keys.json", work / "out"], check=True)
    return read_dump(work / "out")


def augmented(image, operation, magnitude):
    """One operation of torchvision's RandAugment: its number in their order, and whether the sign is negative."""
    number, is_negative = operation
    name, (strengths, has_sign) = list(RAND_AUGMENT._AUGMENTATION_SPACE.items())[number]
    strengths = strengths(31, image.height, image.width)
    strength = 0.0 if strengths is None else float(strengths[magnitude])
    return RAND_AUGMENT._apply_image_or_video_transform(
        image, name, -strength if is_negative and has_sign else strength, interpolation=RAND_AUGMENT.interpolation,
        fill=RAND_AUGMENT._fill)


def expected(image, keys, head):
    if keys["epoch"] >= 0 and "scale" in keys:
        shown = F.resized_crop(image, *head["cut"], keys["crop"])
    else:
        shown = T.CenterCrop(keys["crop"])(T.Resize(keys["resize"][0] if len(keys["resize"]) == 1 else keys["resize"])(image))
    if head["mirrored"]:
        shown = F.hflip(shown)
    if keys["epoch"] >= 0 and "rand_augment" in keys:
        for operation in head["operations"]:
            shown = augmented(shown, operation, keys["rand_augment"][1])
    if keys["epoch"] >= 0 and "jitter" in keys:
        changes = F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue
        for i in head["order"]:
            shown = changes[i](shown, head["factors"][i]) if keys["jitter"][i] else shown
    numbers = T.Normalize(MEAN, STD)(T.ToTensor()(shown))
    return F.erase(numbers, *head["erased"], torch.zeros(1, 1, 1)) if head["erased"] else numbers


def compare(program, name, keys, work, plain, seen=None):
    wrong = total = 0
    for index, (head, pixels) in enumerate(run_dump(program, keys, work)):
        path, label = plain.samples[index]
        if path != head["name"] or label != head["label"]:
            raise SystemExit(f"{name}: sample {index} is {head['name']} of class {head['label']}, "
                             f"ImageFolder says {path} of class {label}")
        photo = ImageOps.exif_transpose(Image.open(path)).convert("RGB") if keys.get("orient") else plain.loader(path)
        reference = expected(photo, keys, head)
        total += 1
        if seen is not None:
            seen.update(map(tuple, head["operations"]))
        if not torch.equal(pixels, reference):
            wrong += 1
            different = (pixels != reference).float().mean().item()
            print(f"  {path}: {different:.4%} of the numbers differ, by up to {(pixels - reference).abs().max():.4g}")
    print(f"{name}: {total - wrong} of {total} images equal torchvision's")
    return wrong


def compare_operations(program, common, work, random):
    """Each operation of RandAugment at every magnitude with both signs, on images of several sizes, some tiny, some
    plain, some of few colours."""
    folder = work / "small"
    write_images(folder, random, 36)
    for i in range(8):
        image = picture(random, 30, 40)
        if i < 4:
            image = image.point(lambda byte: 60 + byte // 3)
        elif i < 6:
            image = image.quantize(3 + i).convert("RGB")
        else:
            image = Image.new("RGB", (40, 30), (9, 99, 199))
        image.save(folder / "class0" / f"made{i}.png")
    plain, seen, wrong = datasets.ImageFolder(folder), collections.Counter(), 0
    for magnitude in range(31):
        crop = [1 + magnitude, 17] if magnitude % 10 == 0 else [224 - 3 * magnitude, 31 + 7 * magnitude]
        keys = {**common, "path": str(folder), "crop": crop, "scale": [0.2, 1.0], "flip": True, "epoch": magnitude,
                "rand_augment": [1 if magnitude % 3 else 2, magnitude]}
        wrong += compare(program, f"RandAugment of magnitude {magnitude} to {crop}", keys, work, plain, seen)
    print(f"each of {len(seen)} operations and signs came at least {min(seen.values())} times")
    return wrong + (len(seen) != 2 * len(RAND_AUGMENT._AUGMENTATION_SPACE))


def run_batches(program, keys, work, count):
    (work / "keys.json").write_text(json.dumps(keys))
    subprocess.run([program, work / "keys.json", work / "out", "--batches", str(count)], check=True)
    for head, numbers in read_dump(work / "out"):
        size = math.prod(head["images"])
        yield head, numbers[:size].reshape(head["images"]), numbers[size:].reshape(-1, head["classes"])


def mixed(head, images, labels):
    """A mini-batch and its labels by torchvision, with the draw in `head`."""
    params = {"labels": labels, "batch_size": len(images), "num_classes": head["classes"], "lam": head["share"]}
    if not head["box"]:
        transform = v2.MixUp(num_classes=head["classes"])
    else:
        transform = v2.CutMix(num_classes=head["classes"])
        top, bottom, left, right = head["box"]
        params.update(box=(left, top, right, bottom), lam_adjusted=head["share"])
    return transform.transform(images, params), transform.transform(labels, params)


def compare_mixed(program, keys, work):
    """Mini-batches, the last of an epoch short; and the shares' distribution."""
    wrong = total = 0
    plain = run_batches(program, {**keys, "mixup": 0, "cutmix": 0}, work / "plain", 70)
    for (_, images, _), (head, ours, our_labels) in zip(plain, run_batches(program, keys, work, 70), strict=True):
        reference, labels = mixed(head, images, torch.tensor(head["labels"]))
        total += 1
        wrong += not (torch.equal(reference, ours) and torch.equal(labels, our_labels))
    print(f"mixup {keys['mixup']}, cutmix {keys['cutmix']}: {total - wrong} of {total} mini-batches equal torchvision's")
    return wrong


def check_shares(program, keys, work):
    """The shares of mixup against the Beta distribution: mean 1/2, variance 1 / (8 alpha + 4)."""
    shares = [head["share"] for head, _, _ in run_batches(program, keys, work, 4000)]
    alpha = keys["mixup"]
    mean, variance = statistics.mean(shares), statistics.variance(shares)
    wanted = 1 / (8 * alpha + 4)
    print(f"{len(shares)} shares of Beta({alpha}, {alpha}): mean {mean:.4f}, variance {variance:.4f} (of {wanted:.4f})")
    return int(abs(mean - 0.5) > 4 * math.sqrt(wanted / len(shares)) or abs(variance / wanted - 1) > 0.12)


def check_cuts(program, folder, work):
    """The cuts themselves against RandomResizedCrop's distribution: their mean area and ratio over many epochs."""
    areas, ratios = [], []
    keys = {"format": "images", "path": str(folder), "crop": [8, 8], "scale": [0.08, 1.0], "seed": 3, "epoch": 0}
    for epoch in range(40):
        keys["epoch"] = epoch
        for head, _ in run_dump(program, keys, work):
            areas.append(head["cut"][2] * head["cut"][3] / 640_000)
            ratios.append(math.log(head["cut"][3] / head["cut"][2]))
    torch.manual_seed(0)
    image = Image.new("RGB", (800, 800))
    own = [T.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(len(areas))]
    own_areas = [h * w / 640_000 for _, _, h, w in own]
    own_ratios = [math.log(w / h) for _, _, h, w in own]
    for what, ours, theirs in (("area", areas, own_areas), ("log ratio", ratios, own_ratios)):
        error = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / len(ours))
        apart = abs(statistics.mean(ours) - statistics.mean(theirs)) / error
        print(f"{len(ours)} cuts: {what} {statistics.mean(ours):.4f}, torchvision's {statistics.mean(theirs):.4f} "
              f"({apart:.1f} standard errors)")
        if apart > 4:
            return 1
    return 0


def measure(program, folder, work, rounds):
    """One thread each, by turns; what counts is the time that it had of a core."""
    torch.set_num_threads(1)
    keys = {"format": "images", "path": str(folder), "crop": [224, 224], "scale": [0.08, 1.0], "flip": True,
            "mean": MEAN, "std": STD, "seed": 1, "epoch": 0}
    (work / "keys.json").write_text(json.dumps(keys))
    transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])
    theirs = datasets.ImageFolder(folder, transform)
    ours = subprocess.Popen([program, work / "keys.json", "--time", str(rounds)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    ratios = []
    for turn in range(rounds):
        own = float(ours.stdout.readline())
        start = time.thread_time()
        for index in range(len(theirs)):
            theirs[index]
        other = len(theirs) / (time.thread_time() - start)
        start = time.thread_time()
        for path, _ in theirs.samples:
            theirs.loader(path)
        decoded = len(theirs) / (time.thread_time() - start)
        ratios.append(own / other)
        print(f"estrain {own:.0f} images/s, torchvision over Pillow {other:.0f} ({own / other:.2f} times), "
              f"Pillow's decoding alone {decoded:.0f}")
        if turn + 1 < rounds:
            ours.stdin.write("\n")
            ours.stdin.flush()
    print(f"median: {statistics.median(ratios):.2f} times torchvision over Pillow")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    random = numpy.random.default_rng(5)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        folder = work / "images"
        if options.time:
            for i in range(options.images):
                where = folder / f"class{i % 2}"
                where.mkdir(parents=True, exist_ok=True)
                picture(random, 375, 500).save(where / f"{i:04}.jpg", quality=92)
            return measure(options.program, folder, work, options.rounds)
        write_images(folder, random, options.images)
        plain = datasets.ImageFolder(folder)
        common = {"format": "images", "path": str(folder), "mean": MEAN, "std": STD, "seed": 11, "epoch": -1}
        cases = {
            "evaluation, shorter side 96, crop 80 x 88": dict(resize=[96], crop=[80, 88]),
            "evaluation, enlarged": dict(resize=[1000], crop=[900, 1000]),
            "resized to 50 x 70": dict(resize=[50, 70], crop=[50, 70]),
            "training, RandomResizedCrop and mirror": dict(crop=[64, 72], scale=[0.08, 1.0], flip=True, epoch=0),
            "training, another epoch, small parts": dict(crop=[224, 224], scale=[0.01, 0.3], flip=True, epoch=7),
            "evaluation, upright": dict(resize=[90], crop=[72, 80], orient=True),
            "training, upright and jittered": dict(crop=[64, 72], scale=[0.08, 1.0], flip=True, epoch=1, orient=True,
                                                   jitter=[0.4, 0.4, 0.4, 0.1]),
            "training, wild colours": dict(crop=[50, 60], scale=[0.3, 1.0], epoch=2, jitter=[1.5, 2, 3, 0.5]),
            "training, RandAugment": dict(crop=[64, 72], scale=[0.08, 1.0], flip=True, epoch=4, rand_augment=[2, 9]),
            "training, RandAugment of all sorts, jittered, erased": dict(
                crop=[61, 47], scale=[0.08, 1.0], flip=True, epoch=5, orient=True, rand_augment=[16, 14],
                jitter=[0.4, 0.4, 0.4, 0.1], erase=0.5),
            "training, hue alone, erased": dict(crop=[64, 72], scale=[0.08, 1.0], epoch=3, jitter=[0, 0, 0, 0.5],
                                                erase=0.7),
        }
        wrong = sum(compare(options.program, name, {**common, **keys}, work, plain) for name, keys in cases.items())
        wrong += compare_operations(options.program, common, work, random)
        kinds = tiff_kinds.write(work / "tiffs" / "one", random)
        as_it_is = dict(path=str(work / "tiffs"), resize=[tiff_kinds.HEIGHT, tiff_kinds.WIDTH],
                        crop=[tiff_kinds.HEIGHT, tiff_kinds.WIDTH])
        wrong += compare(options.program, f"{kinds} kinds of TIFF", {**common, **as_it_is}, work,
                         datasets.ImageFolder(work / "tiffs"))
        square = work / "square"
        (square / "one").mkdir(parents=True)
        for i in range(50):
            Image.new("L", (800, 800)).save(square / "one" / f"{i}.png")
        wrong += check_cuts(options.program, square, work)
        (work / "plain").mkdir()
        small = {**common, "crop": [12, 14], "scale": [0.2, 1.0], "epoch": 0, "batch": 7, "ests": 3}
        for alphas in ((0.2, 0), (0, 1.0), (0.8, 1.0), (3.0, 0)):
            wrong += compare_mixed(options.program, {**small, "mixup": alphas[0], "cutmix": alphas[1]}, work)
        dots = {**small, "path": str(work / "dots"), "crop": [1, 1], "cutmix": 0, "ests": 1, "batch": 1}
        (work / "dots" / "one").mkdir(parents=True)
        for i in range(50):
            Image.new("L", (1, 1)).save(work / "dots" / "one" / f"{i}.png")
        for alpha in (0.05, 0.4, 1.0, 2.5, 20.0):
            wrong += check_shares(options.program, {**dots, "mixup": alpha}, work)
        print(f"{len(cases)} cases of {options.images} images: {'as torchvision' if not wrong else f'{wrong} differ'}")
        return 1 if wrong else 0


sys.exit(main())
