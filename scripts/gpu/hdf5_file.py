"""Data sets of an HDF5 file as torch tensors, by the HDF5 library that estrain uses: no Python package needed."""

import ctypes
from pathlib import Path

import torch

ID, SIZE = ctypes.c_int64, ctypes.c_size_t
SIGNATURES = {
    "H5open": (ctypes.c_int, []),
    "H5Eset_auto2": (ctypes.c_int, [ID, ctypes.c_void_p, ctypes.c_void_p]),
    "H5Fopen": (ID, [ctypes.c_char_p, ctypes.c_uint, ID]),
    "H5Fclose": (ctypes.c_int, [ID]),
    "H5Lexists": (ctypes.c_int, [ID, ctypes.c_char_p, ID]),
    "H5Dopen2": (ID, [ID, ctypes.c_char_p, ID]),
    "H5Dclose": (ctypes.c_int, [ID]),
    "H5Dget_type": (ID, [ID]),
    "H5Dget_space": (ID, [ID]),
    "H5Dread": (ctypes.c_int, [ID, ID, ID, ID, ID, ctypes.c_void_p]),
    "H5Sget_simple_extent_npoints": (ID, [ID]),
    "H5Tget_class": (ctypes.c_int, [ID]),
    "H5Tget_size": (SIZE, [ID]),
}
DTYPES = {(1, 4): torch.float32, (1, 8): torch.float64, (0, 8): torch.int64, (0, 4): torch.int32, (0, 1): torch.uint8}


def loaded(path):
    """Whether a library could be loaded: this system's of the name, or else the one at the path."""
    for name in (Path(path).name, path):
        try:
            ctypes.CDLL(name)
            return True
        except OSError:
            continue
    return False


def load(libraries):
    """Loads the last of these. Those that it needs are loaded before it: they lie where the loader does not look."""
    waiting = list(libraries[:-1])
    while waiting and len(left := [path for path in waiting if not loaded(path)]) < len(waiting):
        waiting = left
    return ctypes.CDLL(libraries[-1])


class Hdf5File:
    """Values as they lie in the file: estrain writes them little-endian, as this machine has them."""

    def __init__(self, libraries, path):
        self.h5 = load(libraries)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.h5, name)
            function.restype, function.argtypes = result, arguments
        self.h5.H5open()
        self.h5.H5Eset_auto2(0, None, None)  # what fails is said here
        self.path = path
        self.file = self.h5.H5Fopen(str(path).encode(), 0, 0)
        if self.file < 0:
            raise OSError(f"{path}: the HDF5 library cannot open it")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.h5.H5Fclose(self.file)

    def has(self, name):
        """Whether there is a data set "group/name"; its group must be there."""
        parts = name.split("/")
        prefixes = ("/".join(parts[: i + 1]) for i in range(len(parts)))
        return all(self.h5.H5Lexists(self.file, prefix.encode(), 0) > 0 for prefix in prefixes)

    def read(self, name):
        """All values of a data set, flat."""
        dataset = self.h5.H5Dopen2(self.file, name.encode(), 0)
        if dataset < 0:
            raise KeyError(f"{self.path}: there is no {name}")
        kind = self.h5.H5Dget_type(dataset)
        dtype = DTYPES[self.h5.H5Tget_class(kind), self.h5.H5Tget_size(kind)]
        values = torch.empty(self.h5.H5Sget_simple_extent_npoints(self.h5.H5Dget_space(dataset)), dtype=dtype)
        failed = self.h5.H5Dread(dataset, kind, 0, 0, 0, values.data_ptr()) < 0
        self.h5.H5Dclose(dataset)
        if failed:
            raise OSError(f"{self.path}: {name} cannot be read")
        return values
