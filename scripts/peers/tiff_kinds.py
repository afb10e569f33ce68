"""Writes small TIFF files of the kinds that Pillow has a name for, byte by byte: Pillow and tifffile write few of them."""

import struct
import zlib

import numpy
from PIL import TiffImagePlugin

HEIGHT, WIDTH, TILE = 13, 21, 16
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
COMPRESSIONS = {1: bytes, 8: zlib.compress}


def tiff(order, tags, pieces):
    """A file of strips or tiles. Tags: {number: (struct's letter, values)}."""
    mark, places, body = "<" if order == "II" else ">", [], b""
    for piece in pieces:
        places.append(8 + len(body))
        body += piece + bytes(len(piece) % 2)
    is_tiled = 322 in tags
    tags = {**tags, 324 if is_tiled else 273: ("L", places), 325 if is_tiled else 279: ("L", [len(p) for p in pieces])}
    directory, entries, further = 8 + len(body), b"", b""
    for number, (letter, values) in sorted(tags.items()):
        data = struct.pack(mark + letter * len(values), *values)
        entries += struct.pack(mark + "HHL", number, {"H": 3, "L": 4}[letter], len(values))
        if len(data) <= 4:
            entries += data.ljust(4, b"\0")
        else:
            entries += struct.pack(mark + "L", directory + 6 + 12 * len(tags) + len(further))
            further += data + bytes(len(data) % 2)
    head = order.encode() + struct.pack(mark + "HL", 42, directory)
    return head + body + struct.pack(mark + "H", len(tags)) + entries + bytes(4) + further


def samples(random, order, rows, columns, bits):
    """Rows of random samples as bytes; of 16 bits half are below 256."""
    if bits < 16:
        return random.integers(0, 256, (rows, (columns * bits + 7) // 8), dtype=numpy.uint8)
    values = random.integers(0, 65536, (rows, columns))
    values[random.random(values.shape) < 0.5] %= 256
    return values.astype("<u2" if order == "II" else ">u2").view(numpy.uint8).reshape(rows, -1)


def one(random, key, compression, has_planes, is_tiled):
    order, photometric, formats, fill, bits, extra = key
    order, per_pixel = order.decode(), 1 if has_planes else len(bits)
    encode, pieces = COMPRESSIONS[compression], []
    for _ in range(len(bits) if has_planes else 1):
        if is_tiled:
            pieces += [samples(random, order, TILE, TILE * per_pixel, bits[0]) for _ in range(-(-WIDTH // TILE))]
        else:
            whole = samples(random, order, HEIGHT, WIDTH * per_pixel, bits[0])
            pieces += [whole[y:y + 5] for y in range(0, HEIGHT, 5)]
    raw = [piece.tobytes() for piece in pieces]
    tags = {256: ("H", [WIDTH]), 257: ("H", [HEIGHT]), 258: ("H", bits), 259: ("H", [compression]),
            262: ("H", [photometric]), 277: ("H", [len(bits)]), 284: ("H", [2 if has_planes else 1])}
    tags |= {322: ("H", [TILE]), 323: ("H", [TILE])} if is_tiled else {278: ("H", [5])}
    tags |= {266: ("H", [fill])} if fill != 1 else {}
    tags |= {338: ("H", extra)} if extra else {}
    tags |= {339: ("H", formats * len(bits))} if formats != (1,) else {}
    if photometric == 3:
        tags[320] = ("H", [int(value) for value in random.integers(0, 65536, 3 << bits[0])])
    return tiff(order, tags, [encode(piece).translate(REVERSED) if fill == 2 else encode(piece) for piece in raw])


def is_read(key, has_planes):
    """Whether estrain reads this kind (core/formats/image/image.h)."""
    _, photometric, formats, fill, bits, extra = key
    return (photometric in (0, 1, 2, 3, 5) and bits[0] in (1, 2, 4, 8, 16) and formats in ((1,), (2,))
            and (formats == (1,) or bits == (8,)) and not (photometric == 1 and extra == (1,))
            and (not has_planes or (bits[0] == 8 and fill == 1 and len(bits) == (4 if photometric == 5 else 3))))


def write(folder, random):
    """Each kind in strips and tiles, plain and compressed; returns the number of files."""
    folder.mkdir(parents=True)
    count = 0
    for key in TiffImagePlugin.OPEN_INFO:
        for has_planes in (False, True)[:1 + (len(key[4]) > 1)]:
            if not is_read(key, has_planes):
                continue
            for compression in COMPRESSIONS:
                if key[3] == 2 and compression == 1:
                    continue  # Pillow lacks decoders for some of these
                for is_tiled in (False, True):
                    (folder / f"{count:04}.tif").write_bytes(one(random, key, compression, has_planes, is_tiled))
                    count += 1
    return count
