"""Writes columns of Parquet and Arrow files as arrays of an HDF5 file, with pyarrow and h5py. request.py goes before.

The request has {"files", "out", "columns"}: `columns` are the columns to write (empty: all). The answer is {"samples",
"arrays": [{"name", "dtype", "shape"}]}.

A column of numbers becomes an array [samples]; of lists of equal lengths [samples, length], of nested lists more; of
lists of different lengths an array of all values, and NAME.offsets, int64 [samples + 1]. The files are read twice,
batch by batch: once for the lengths, once for the values. Samples stand in the order of the files.
"""
ROWS = 4096  # of a batch
LISTED = 8


def load_libraries():
    try:
        import h5py
        import numpy
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Refused(f"{sys.executable}: {error}",
                      "install pyarrow and h5py there, or name a Python with both by --python, such as venv/bin/python")
    return pyarrow, h5py, numpy


def parts_of(arrow, path, columns):
    """Returns the schema of a file, and a function that yields the file's batches with these columns."""
    with open(path, "rb") as file:
        head = file.read(8)
    if head[:4] == b"PAR1":
        schema = arrow.parquet.read_schema(path)

        def batches():
            with arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
                yield from file.iter_batches(ROWS, columns=columns)

        return schema, batches
    is_file = head[:6] == b"ARROW1"
    with arrow.memory_map(path) as source:
        with (arrow.ipc.open_file(source) if is_file else arrow.ipc.open_stream(source)) as reader:
            schema = reader.schema

    def batches():
        with arrow.memory_map(path) as source:
            with (arrow.ipc.open_file(source) if is_file else arrow.ipc.open_stream(source)) as reader:
                whole = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
                for batch in whole:
                    yield batch.select(columns)

    return schema, batches


class Column:
    """A column with the type of its values, the sizes of a sample where they are fixed, and its lists' lengths."""

    def __init__(self, arrow, name, kind):
        self.arrow, self.name, self.kind, self.is_list, self.shape = arrow, name, kind, False, []
        types = arrow.types
        if types.is_list(kind) or types.is_large_list(kind):
            self.is_list, kind = True, kind.value_type
        while types.is_fixed_size_list(kind):
            self.shape.append(kind.list_size)
            kind = kind.value_type
        if types.is_string(kind) or types.is_large_string(kind):
            raise Refused(f"column {name} holds text",
                          "write the tokens of the text as a column of lists of integers first, such as by `map` of "
                          "Hugging Face's datasets and its to_parquet, or choose other columns by --columns")
        if not (types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind)):
            raise Refused(f"column {name} is of type {self.kind}",
                          "arrays hold numbers, and lists of numbers of one depth: choose other columns by --columns")
        self.dtype = "bool" if types.is_boolean(kind) else kind.to_pandas_dtype()().dtype.name
        self.samples = self.values = 0
        self.shortest, self.longest = None, None

    def values_in(self, array):
        """Returns the lists' lengths (None without lists) and the values of an array of this column."""
        lengths, at = None, self.samples
        if array.null_count:
            raise Refused(f"column {self.name} has no value in sample {at + array.is_null().index(True).as_py()}",
                          "fill the empty places or leave their rows out")
        if self.is_list:
            lengths = self.arrow.compute.list_value_length(array).to_numpy(zero_copy_only=False)
            array = array.flatten()
        while self.arrow.types.is_fixed_size_list(array.type):
            if array.null_count:
                break
            array = array.flatten()
        if array.null_count:
            raise Refused(f"column {self.name} has lists with empty places, from sample {at} on",
                          "fill the empty places or leave their rows out")
        return lengths, array.to_numpy(zero_copy_only=False)

    def measure(self, array):
        lengths, values = self.values_in(array)
        self.samples += len(array)
        self.values += len(values)
        if lengths is not None and len(lengths):
            self.shortest = min(int(lengths.min()), sys.maxsize if self.shortest is None else self.shortest)
            self.longest = max(int(lengths.max()), self.longest or 0)

    @property
    def is_ragged(self):
        return self.is_list and self.shortest != self.longest

    def sizes(self):
        if self.is_ragged:
            rows = self.values
            for size in self.shape:
                rows //= size
            return [rows, *self.shape]
        return [self.samples] + ([self.longest or 0] if self.is_list else []) + self.shape


def whole_columns(arrow, paths, chosen):
    """Opens all files; returns the columns, and functions that yield each file's batches."""
    columns, readers, first = None, [], None
    for path in paths:
        try:
            schema, _ = parts_of(arrow, path, None)
        except (arrow.ArrowException, EOFError) as error:
            raise Refused(f"{path}: no Parquet or Arrow file, or a damaged one: {lines_of(error)[0]}",
                          "name files of one of these kinds; copy or download a damaged one again")
        names = chosen or schema.names
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise Refused(f"{path}: there is no column {missing[0]}",
                          f"there are: {', '.join(schema.names[:LISTED])}{', ...' if len(schema.names) > LISTED else ''}")
        found = [(name, schema.field(name).type) for name in names]
        if columns is None:
            columns, first = [Column(arrow, *each) for each in found], (path, found)
        for other, own in zip(first[1], found):
            if other != own:
                raise Refused(f"{path}: its column {own[0]} is of type {own[1]}, {other[0]} of {first[0]} of type {other[1]}",
                              "give the files the same columns and types")
        if len(found) != len(columns):
            raise Refused(f"{path} has {len(found)} columns, {first[0]} has {len(columns)}",
                          "give the files the same columns, or choose columns by --columns")
        readers.append((path, parts_of(arrow, path, names)[1]))
    return columns, readers


def each_array(arrow, columns, readers, take):
    for path, batches in readers:
        for batch in sound(arrow, path, batches()):
            for i, column in enumerate(columns):
                take(column, batch.column(i))


def sound(arrow, path, batches):
    while True:
        try:
            batch = next(batches, None)
        except (arrow.ArrowException, OSError) as error:  # pyarrow's words for a damaged page
            raise Refused(f"{path}: damaged: {lines_of(error)[0]}", "copy or download it again")
        if batch is None:
            return
        yield batch


def require_names(columns):
    names = {column.name for column in columns}
    for column in columns:
        if "/" in column.name or column.name in ("", "."):
            raise Refused(f"column {column.name!r}: no name for an array", "rename the column, or choose others by --columns")
        if column.is_ragged and column.name + ".offsets" in names:
            raise Refused(f"column {column.name} has lists of different lengths, and {column.name}.offsets is a column, too",
                          "rename the second one, or leave it out by --columns")


def write(h5py, numpy, arrow, columns, readers, out):
    with whole_file(out) as part:
        with h5py.File(part, "w") as file:
            places = {}
            for column in columns:
                array = file.create_dataset(column.name, column.sizes(), column.dtype)
                offsets = None
                if column.is_ragged:
                    offsets = file.create_dataset(column.name + ".offsets", [column.samples + 1], "int64")
                    offsets[0] = 0
                places[column.name] = [array, 0, offsets, 0, 0]

            def take(column, values):
                array, row, offsets, sample, end = places[column.name]
                lengths, values = column.values_in(values)
                values = values.reshape([-1, *column.sizes()[1:]])
                if row + len(values) > array.shape[0]:
                    raise Refused(f"column {column.name} grew while it was read", "let no other program write the files")
                if len(values):
                    array[row:row + len(values)] = values
                if offsets is not None and len(lengths):
                    ends = end + numpy.cumsum(lengths, dtype=numpy.int64)
                    offsets[sample + 1:sample + 1 + len(lengths)] = ends
                    sample, end = sample + len(lengths), int(ends[-1])
                places[column.name] = [array, row + len(values), offsets, sample, end]

            each_array(arrow, columns, readers, take)
            told = [{"name": name, "dtype": str(array.dtype), "shape": list(array.shape)} for name, array in file.items()]
    return told


def main():
    arrow, h5py, numpy = load_libraries()
    import pyarrow.compute  # noqa: F401: an attribute of pyarrow only then
    columns, readers = whole_columns(arrow, REQUEST["files"], REQUEST["columns"])
    each_array(arrow, columns, readers, lambda column, values: column.measure(values))
    if not columns or columns[0].samples == 0:
        raise Refused("no samples", "name files with rows")
    require_names(columns)
    arrays = write(h5py, numpy, arrow, columns, readers, REQUEST["out"])
    return {"samples": columns[0].samples, "arrays": arrays}


answer(main, lambda error: f"{REQUEST['out']}: {error}")
