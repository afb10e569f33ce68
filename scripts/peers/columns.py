#!/usr/bin/env python3
"""Compares what `estrain convert` writes of Parquet and Arrow files with pyarrow's own values, and tries what it refuses.

usage: columns.py BUILD_DIR       (in a venv with numpy, h5py, pyarrow)
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy
import pyarrow
import pyarrow.feather
import pyarrow.parquet

NUMBERS = ["ids", "fixed", "box", "boxes", "label", "flag", "small", "half"]


def table(rows, seed):
    random = numpy.random.default_rng(seed)
    lengths = random.integers(0, 9, rows)
    lists = [random.integers(0, 50000, length).astype(numpy.int32) for length in lengths]
    boxes = [random.random((length, 4)).tolist() for length in lengths]
    return pyarrow.table({
        "ids": pyarrow.array(lists, pyarrow.list_(pyarrow.int32())),
        "fixed": pyarrow.array(random.integers(0, 9, (rows, 7)).tolist(), pyarrow.large_list(pyarrow.int64())),
        "box": pyarrow.array(random.random((rows, 4), numpy.float32).tolist(), pyarrow.list_(pyarrow.float32(), 4)),
        "boxes": pyarrow.array(boxes, pyarrow.list_(pyarrow.list_(pyarrow.float64(), 4))),
        "label": random.integers(-9, 9, rows), "flag": random.random(rows) < 0.5,
        "small": random.integers(0, 200, rows).astype(numpy.uint16), "half": random.random(rows).astype(numpy.float16),
        "text": ["words"] * rows})


def write(table, path):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=3000)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, path)
    else:
        writer = pyarrow.ipc.new_file if path.suffix == ".arrow" else pyarrow.ipc.new_stream
        with pyarrow.OSFile(str(path), "wb") as file, writer(file, table.schema) as to:
            to.write_table(table, max_chunksize=999)
    return path


def convert(build, files, out, *more):
    command = [build / "estrain", "convert", *files, "--to", out, "--python", sys.executable, *more]
    return subprocess.run(command, capture_output=True, text=True)


def is_same(column, file, name):
    values = column.to_pylist()
    if name + ".offsets" not in file:
        return file[name][()].tolist() == values
    ends, rows = file[name + ".offsets"], file[name][()]
    return (ends.dtype == numpy.int64 and len(ends) == len(values) + 1 and ends[0] == 0
            and all(rows[ends[i]:ends[i + 1]].tolist() == value for i, value in enumerate(values)))


def compare(build, work, kinds):
    """Two files, of these kinds, as one data set."""
    tables = [table(10007, 1), table(501, 2)]
    files = [write(each, work / f"{i}{kind}") for i, (each, kind) in enumerate(zip(tables, kinds, strict=True))]
    ended = convert(build, files, work / "out.h5", "--force", "--json", "--columns", ",".join(NUMBERS))
    if ended.returncode:
        print(ended.stderr)
        return len(NUMBERS)
    whole = pyarrow.concat_tables(tables)
    with h5py.File(work / "out.h5") as file:
        wrong = [name for name in NUMBERS if not is_same(whole[name], file, name)]
        wrong += [name for name, ragged in (("ids", True), ("boxes", True), ("fixed", False), ("box", False))
                  if (name + ".offsets" in file) != ragged]
        told = {each["name"]: each["shape"] for each in json.loads(ended.stdout)["arrays"]}
        if told != {name: list(array.shape) for name, array in file.items()}:
            wrong.append("what is told")
    print(f"{kinds}: {len(NUMBERS) - len(wrong)} of {len(NUMBERS)} columns equal pyarrow's {wrong or ''}")
    return len(wrong)


def refusals(work):
    """Pairs of files and words."""
    def parquet(name, **columns):
        return write(pyarrow.table({key: pyarrow.array(value) for key, value in columns.items()}), work / f"{name}.parquet")
    good = write(table(5000, 3), work / "good.parquet")
    content = bytearray(good.read_bytes())
    (work / "cut.parquet").write_bytes(content[:len(content) // 2])
    content[200:40000:7] = b"\xff" * len(content[200:40000:7])
    (work / "damaged.parquet").write_bytes(content)
    (work / "words").write_bytes(b"no such file")
    return [([good], [], "column text holds text"), ([good], ["--columns", "nope"], "good.parquet: there is no column nope"),
            ([parquet("null", a=[1, None, 3])], [], "column a has no value in sample 1"),
            ([parquet("hole", a=[[1], [2, None]])], [], "column a has lists with empty places"),
            ([good, parquet("other", label=[1.5])], ["--columns", "label"], "other.parquet: its column label is of type double"),
            ([parquet("struct", a=[{"x": 1}])], [], "column a is of type struct"),
            ([parquet("deep", a=[[[1], [2, 3]]])], [], "column a is of type list"),
            ([parquet("twice", **{"a": [[1], [2, 3]], "a.offsets": [1, 2]})], [], "a.offsets is a column, too"),
            ([parquet("empty", a=pyarrow.array([], pyarrow.int64()))], [], "no samples"),
            ([work / "cut.parquet"], [], "cut.parquet: no Parquet or Arrow file, or a damaged one"),
            ([work / "words"], [], "words: no Parquet or Arrow file"),
            ([work / "damaged.parquet"], ["--columns", "ids"], "damaged.parquet: damaged")]


def try_refusals(build, work):
    wrong = 0
    cases = refusals(work)
    for files, more, words in cases:
        ended = convert(build, files, work / "none.h5", *more)
        if ended.returncode != 1 or words not in ended.stderr or list(work.glob("none.h5*")):
            print(f"'{words}' is not what came, with {ended.returncode}: {ended.stderr}")
            wrong += 1
    print(f"{len(cases) - wrong} of {len(cases)} refusals in their words, without a file")
    return wrong


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        pairs = ((".parquet", ".parquet"), (".arrow", ".arrows"), (".feather", ".parquet"))
        wrong = sum(compare(build, work, pair) for pair in pairs) + try_refusals(build, work)
    print(f"columns of Parquet and Arrow files: {'as pyarrow' if not wrong else f'{wrong} differ'}")
    return 1 if wrong else 0


sys.exit(main())
