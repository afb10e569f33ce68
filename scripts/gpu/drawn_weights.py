"""Programs without their weights, for a machine that is reached by a small parcel: a large weight is replaced by the mean
and the deviation of its values, and drawn again where the program arrives. The drawn weights have the same bits on every
machine: torch.rand gives multiples of 2^-24, and each value is then one multiplication and one addition.

    python drawn_weights.py PROGRAM.pt2 DRAWN.pt2     draws the weights of a program that was packed. Needs torch
"""

import ctypes
import json
import sys
import zipfile
import zlib

LEAST_BYTES = 1 << 16
DRAWN = ".drawn"
FLOAT32 = 7  # as torch.export numbers element types


def drawn(name, told):
    import torch

    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    values = torch.rand(told["count"], generator=generator)
    values.sub_(0.5).mul_(12**0.5 * told["deviation"]).add_(told["mean"])
    return ctypes.string_at(values.data_ptr(), values.nbytes)


def float_weights(archive):
    """Paths of the weights in the archive whose elements are floats of 32 bits."""
    for path in archive.namelist():
        if path.endswith("/weights/model_weights_config.json"):
            weights = json.loads(archive.read(path))["config"].values()
            folder = path.rpartition("/")[0]
            return {f"{folder}/{one['path_name']}" for one in weights if one["tensor_meta"]["dtype"] == FLOAT32}
    raise ValueError("an archive without a list of weights")


def take_weights(program, packed):
    """Writes the program without its large weights."""
    import torch

    with zipfile.ZipFile(program) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        floats = float_weights(source)
        for name in source.namelist():
            content = source.read(name)
            if name in floats and len(content) >= LEAST_BYTES:
                values = torch.frombuffer(bytearray(content), dtype=torch.float32)
                told = {"count": values.numel(), "mean": values.mean().item(), "deviation": values.std().item()}
                name, content = name + DRAWN, json.dumps(told)
            target.writestr(name, content)


def draw_weights(packed, program):
    """Writes the program that can be trained."""
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(program, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(DRAWN):
                name = name.removesuffix(DRAWN)
                content = drawn(name, json.loads(content))
            target.writestr(name, content)


if __name__ == "__main__":
    draw_weights(*sys.argv[1:])
