"""Builds optim_bridge.cpp against a build folder's libraries and loads it with ctypes."""
import ctypes as c
import pathlib
import random
import subprocess

import torch

OF_GROUPS = ("name", "groups", "layer_decay", "layers")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def toml_of(table, settings):
    """[table] with these keys."""
    def literal(value):
        if isinstance(value, bool):
            return "true" if value else "false"
        return f'"{value}"' if isinstance(value, str) else repr(value)
    return f"[{table}]\n" + "".join(f"{key} = {literal(value)}\n" for key, value in settings.items())


# Values to try of keys with a range that is narrower than their type's.
OWN = {"beta2_decay": lambda draw: -draw.choice((0.8, 0.5, draw.random())), "d": lambda draw: draw.choice((1.0, 1 + draw.random())),
       "ns_steps": lambda draw: draw.randint(1, 6), "ns_coefficients": lambda draw: [3.4, -4.8, 1 + draw.random()]}


class Key:
    """A key of the spec that belongs to one optimizer or schedule, and values to try it with."""

    def __init__(self, line):
        self.name, self.type, self.rule = line.split("|")

    def draw(self, draw):
        if self.name in OWN:
            return OWN[self.name](draw)
        if self.type == "boolean":
            return draw.random() < 0.5
        if self.type == "integer":
            return draw.choice((1, 2, 3, 10, draw.randint(1, 400)))
        if self.type == "array of integers":
            return sorted(draw.randint(1, 300) for _ in range(draw.randint(1, 5)))
        if self.type == "array of numbers":
            return [draw.choice((0.9, 0.3, 0.0, draw.random())), draw.choice((0.999, 0.95, draw.random()))]
        if self.type == "number":
            return draw.choice((0.1, 0.9, 1 / 3, 1e-3, 1e-8, draw.random(), draw.random() / 1000))
        return draw.choice(self.rule.split())


class Bridge:
    """The functions of optim_bridge.cpp."""

    def __init__(self, library):
        self.c = c.CDLL(str(library))
        for name, result, *arguments in (
                ("last_answer", c.c_char_p), ("names", c.c_char_p, c.c_char_p),
                ("keys_of", c.c_char_p, c.c_char_p, c.c_char_p), ("make_optimizer", c.c_void_p, c.c_char_p, c.c_int64),
                ("free_optimizer", None, c.c_void_p), ("slots_of", c.c_char_p, c.c_void_p, c.POINTER(c.c_int64), c.c_size_t),
                ("updates_whole", c.c_bool, c.c_void_p),
                ("optimizer_update_whole", None, c.c_void_p, c.c_int64, c.c_double, c.POINTER(c.c_int64), c.c_size_t,
                 c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p)),
                ("optimizer_update", c.c_uint64, c.c_void_p, c.c_int64, c.c_double, c.c_float, c.c_size_t, c.c_void_p,
                 c.c_void_p, c.POINTER(c.c_void_p)),
                ("schedule_lrs", c.c_bool, c.c_char_p, c.c_double, c.c_size_t, c.POINTER(c.c_double)),
                ("plateau_lrs", c.c_bool, c.c_char_p, c.c_double, c.c_size_t, c.POINTER(c.c_double),
                 c.POINTER(c.c_double)),
                ("digest", c.c_uint64, c.c_void_p, c.c_size_t, c.c_int64), ("best_isa", c.c_int64),
                ("set_vms_sqrt", None, c.c_void_p)):
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments
        aten = c.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        self.c.set_vms_sqrt(c.cast(aten.vmsSqrt, c.c_void_p))

    def refusal(self):
        return self.c.last_answer().decode()

    def names(self, table):
        return self.c.names(table.encode()).decode().split()

    def keys(self, table, name):
        """The keys that belong to this optimizer or schedule, but its name and what parameter groups are made from."""
        lines = self.c.keys_of(table.encode(), name.encode()).decode().splitlines()
        return [key for key in map(Key, lines) if key.name not in OF_GROUPS]

    def drawn(self, table, name, count, seed, fixed=()):
        """`count` settings of an optimizer or a schedule, its keys given or left at their defaults at random."""
        draw = random.Random(seed)
        keys = self.keys(table, name)
        for _ in range(count):
            yield dict(name=name, **dict(fixed), **{key.name: key.draw(draw) for key in keys
                                                    if key.name not in dict(fixed) and draw.random() < 0.7})


def build(folder):
    """Compiles the bridge into `folder`, a finished build, where it is older than the parts, and returns its path."""
    folder = pathlib.Path(folder).resolve()
    library = folder / "optim_bridge.so"
    archives = [folder / f"lib{name}.a" for name in ("core_engine_optim", "core_job_batches", "core_job_spec", "core_formats_toml", "core_base", "kernels", "estrain_fmt")]
    of_torch = pathlib.Path(torch.__file__).parent
    sources = [ROOT / "scripts/peers/optim_bridge.cpp", ROOT / "core/engine/train/shared/whole_update.cpp"]
    parts = [*sources, *archives, ROOT / "core/engine/train/shared/whole_update.h", ROOT / "core/engine/optim/optimizer.h"]
    if library.exists() and library.stat().st_mtime > max(part.stat().st_mtime for part in parts):
        return library
    subprocess.run(["c++", "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{ROOT}",
                    f"-I{folder}/include", f"-I{of_torch}/include", *sources, "-o", library,
                    "-Wl,--start-group", *archives, "-Wl,--end-group", "-ltomlplusplus", f"-L{of_torch}/lib", "-ltorch_cpu",
                    "-lc10"], check=True)
    return library


def load(library):
    return Bridge(library)
