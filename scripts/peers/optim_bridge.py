"""Builds optim_bridge.cpp against a build folder's libraries and loads it with ctypes."""
import ctypes as c
import pathlib
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


class OptimizerArguments(c.Structure):
    _fields_ = [("kind", c.c_int64), ("lr", c.c_double), ("momentum", c.c_double), ("dampening", c.c_double),
                ("weight_decay", c.c_double), ("nesterov", c.c_int64), ("beta1", c.c_double), ("beta2", c.c_double),
                ("eps", c.c_double), ("isa", c.c_int64)]


class ScheduleArguments(c.Structure):
    _fields_ = [("kind", c.c_int64), ("period", c.c_int64), ("warmup", c.c_int64), ("gamma", c.c_double),
                ("eta_min", c.c_double), ("start_factor", c.c_double), ("end_factor", c.c_double),
                ("warmup_start", c.c_double)]


def build(folder):
    """Compiles the bridge into `folder`, a finished build, and returns its path."""
    folder = pathlib.Path(folder).resolve()
    library = folder / "optim_bridge.so"
    archives = [folder / f"lib{name}.a" for name in ("core_optim", "core_spec", "core_toml", "core_base", "kernels", "estrain_fmt")]
    subprocess.run(["c++", "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{ROOT}",
                    f"-I{folder}/include", ROOT / "scripts/peers/optim_bridge.cpp", "-o", library,
                    "-Wl,--start-group", *archives, "-Wl,--end-group", "-ltomlplusplus"], check=True)
    return library


def load(library):
    bridge = c.CDLL(str(library))
    bridge.optimizer_update.restype = c.c_uint64
    bridge.optimizer_update.argtypes = [c.POINTER(OptimizerArguments), c.c_int64, c.c_double, c.c_float, c.c_size_t,
                                        c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p]
    bridge.schedule_lrs.restype = None
    bridge.schedule_lrs.argtypes = [c.POINTER(ScheduleArguments), c.c_double, c.c_size_t, c.POINTER(c.c_double)]
    bridge.digest.restype = c.c_uint64
    bridge.digest.argtypes = [c.c_void_p, c.c_size_t, c.c_int64]
    bridge.best_isa.restype = c.c_int64
    aten = c.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    bridge.set_vms_sqrt.argtypes = [c.c_void_p]
    bridge.set_vms_sqrt(c.cast(aten.vmsSqrt, c.c_void_p))
    return bridge
