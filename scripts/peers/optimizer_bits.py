#!/usr/bin/env python3
"""Compares core/engine/optim and kernels/optimizer.h with torch.optim, bit for bit, and then in speed.

    python scripts/peers/optimizer_bits.py BUILD_FOLDER [--speed]

Every setting runs some steps on tensors of odd sizes, few of them without ESTRAIN_AT_LENGTH in the environment, under each ATEN_CPU_CAPABILITY that the machine has, against the
kernels of the same instruction set. Exits with 1 on the first difference.
"""
import argparse
import collections
import ctypes
import os
import subprocess
import sys
import time

import torch

import optim_bridge
import peer_optimizers

ISAS = ["baseline", "fma128", "avx2", "avx512"]  # in the order of kernels::Isa
CAPABILITIES = ["default", "avx2", "avx2", "avx512"]  # the LibTorch whose bits they give; it has no fma128 of its own
SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 1023, 1025, 4099, 40001]
if "ESTRAIN_AT_LENGTH" not in os.environ:
    SIZES = [1, 7, 33, 64, 4099]
SHAPES = [(), (1,), (33,), (4099,), (17, 1), (1, 17), (5, 64), (64, 5), (33, 33), (130, 67), (6, 4, 3, 3)]  # updated whole
DRAWN = 60  # settings of each optimizer at random, beside those below
DRAWN_WHOLE = 60 if "ESTRAIN_AT_LENGTH" in os.environ else 6  # of those that update whole parameters
WHOLE = ("lamb", "adafactor", "muon")


def settings(bridge):
    for weight_decay in (0.0, 5e-4, 0.1):
        for lr in (0.1, 3e-3, 1e-5):
            yield dict(name="sgd", lr=lr, weight_decay=weight_decay)
            for momentum in (0.9, 0.5, 1 / 3):
                sgd = dict(name="sgd", lr=lr, weight_decay=weight_decay, momentum=momentum)
                yield sgd
                yield sgd | dict(nesterov=True)
                yield sgd | dict(dampening=0.3)
            for name in ("adam", "adamw"):
                for beta1 in (0.9, 0.3, 0.5, 0.0, 0.51):
                    for beta2, eps in ((0.999, 1e-8), (0.95, 1e-6), (0.0, 1e-8)):
                        adam = dict(name=name, lr=lr, weight_decay=weight_decay, betas=[beta1, beta2], eps=eps)
                        yield adam
                        yield adam | dict(amsgrad=True)
            for beta1, beta2 in ((0.9, 0.999), (0.3, 0.5), (0.0, 0.0)):
                averaging = dict(lr=lr, weight_decay=weight_decay, betas=[beta1, beta2])
                yield averaging | dict(name="lion")
                for name in ("nadam", "radam"):
                    yield averaging | dict(name=name)
                    yield averaging | dict(name=name, decoupled_weight_decay=True)
    yield from settings_of_whole()
    for seed, name in enumerate(bridge.names("optimizer")):
        yield dict(name=name)
        yield from bridge.drawn("optimizer", name, DRAWN_WHOLE if name in WHOLE else DRAWN, seed)


def settings_of_whole():
    """Of the optimizers that update whole parameters."""
    for weight_decay in (0.0, 0.1):
        for lr in (0.1, 3e-3):
            s = dict(lr=lr, weight_decay=weight_decay)
            for lamb in (dict(), dict(always_adapt=True), dict(trust_clip=True)):
                yield s | dict(name="lamb", **lamb)
            for adafactor in (dict(), dict(d=1.5, eps=1e-3), dict(beta2_decay=-0.5, eps2=0.1)):
                yield s | dict(name="adafactor", **adafactor)
            for muon in (dict(), dict(nesterov=False), dict(momentum=0.5, adjust_lr_fn="match_rms_adamw"), dict(ns_steps=2)):
                yield s | dict(name="muon", **muon)


def shapes_of(name):
    if name not in WHOLE:
        return SIZES
    return [shape for shape in SHAPES if len(shape) == 2] if name == "muon" else SHAPES


def peer_optimizer(s, parameters):
    options = {key: value for key, value in s.items() if key != "name"}
    return peer_optimizers.BY_NAME[s["name"]](parameters, **peer_optimizers.arguments(s["name"], options))


def lr_at(s, step):
    """A schedule of the kind that leaves no round numbers."""
    return s.get("lr", 1e-3) * (1 - 0.037 * step) / (1 + 0.001 * step)


def same_bits(a, b):
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


class Ours:
    """A parameter and its slots, updated by estrain."""

    def __init__(self, bridge, s, isa, parameter):
        self.bridge, self.isa = bridge, isa
        self.handle = bridge.c.make_optimizer(optim_bridge.toml_of("optimizer", s).encode(), isa)
        if not self.handle:
            raise ValueError(bridge.refusal())
        self.parameter = parameter.clone()
        self.sizes = (ctypes.c_int64 * max(1, parameter.dim()))(*parameter.shape)
        slots = bridge.c.slots_of(self.handle, self.sizes, parameter.dim()).decode().splitlines()
        self.names = [slot.split("|")[0] for slot in slots]
        sizes = [tuple(map(int, slot.split("|")[1].split())) for slot in slots]
        self.is_whole = bridge.c.updates_whole(self.handle)
        # A buffer that starts with the first update is not read by it.
        starts = {"momentum_buffer": float("nan") if s["name"] == "sgd" else 0.0, "sum": float("nan")}
        if self.is_whole:
            starts = {}
        self.slots = [torch.full(size, starts.get(name, 0.0)) for name, size in zip(self.names, sizes)]
        self.updates = 0

    def __del__(self):
        self.bridge.c.free_optimizer(self.handle)

    def step(self, gradient, lr, factor=1.0):
        pointers = (ctypes.c_void_p * 4)(*[t.data_ptr() for t in self.slots])
        if self.is_whole:
            gradient = gradient * factor
            self.bridge.c.optimizer_update_whole(self.handle, self.updates, lr, self.sizes, self.parameter.dim(),
                                                 gradient.data_ptr(), self.parameter.data_ptr(), pointers)
            self.updates += 1
            return self.digest()
        digest = self.bridge.c.optimizer_update(self.handle, self.updates, lr, factor, self.parameter.numel(),
                                                gradient.data_ptr(), self.parameter.data_ptr(), pointers)
        self.updates += 1
        return digest

    def digest(self):
        parts = [self.bridge.c.digest(t.data_ptr(), 4 * t.numel(), self.isa) for t in [self.parameter, *self.slots]]
        weights = [1, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9]
        return sum(p * w for p, w in zip(parts, weights)) % 2**64


def compare(bridge, s, isa, steps, clip):
    """False where both refuse the settings."""
    torch.manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(n)) for n in shapes_of(s["name"])]
    try:
        optimizer = peer_optimizer(s, parameters)
    except ValueError:
        optimizer = None
    try:
        ours = [Ours(bridge, s, isa, p.detach()) for p in parameters]
    except ValueError as refusal:
        if optimizer is not None:
            sys.exit(f"{s} is refused by estrain alone: {refusal}")
        return False
    if optimizer is None:
        sys.exit(f"{s} is refused by torch alone")
    for step in range(steps):
        lr = optimizer.param_groups[0]["lr"] = lr_at(s, step)
        for p in parameters:
            p.grad = torch.randn_like(p) * 10.0 ** -(step % 4)
        gradients = [p.grad.clone() for p in parameters]
        factor = 1.0
        if clip:
            norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            factor = torch.clamp(1.0 / (norm + 1e-6), max=1.0).item()
        optimizer.step()
        for p, our, gradient in zip(parameters, ours, gradients):
            digest = our.step(gradient, lr, factor)
            state = {name: t for name, t in optimizer.state[p].items()
                     if name not in ("step", "mu_product") and t is not None}
            if [*state] != our.names:
                sys.exit(f"{s}: torch keeps {[*state]}, estrain {our.names}")
            for what, a, b in zip(["parameter", *our.names], [p.detach(), *state.values()],
                                  [our.parameter, *our.slots]):
                if a.shape != b.shape:
                    sys.exit(f"{s}: {what} has the shape {[*a.shape]} in torch, {[*b.shape]} in estrain")
                if not same_bits(a, b):
                    n = int((a.view(torch.int32) != b.view(torch.int32)).sum())
                    sys.exit(f"{ISAS[isa]}: {s} step {step}: {what}: {n} of {a.numel()} elements differ")
            if digest != our.digest():
                sys.exit(f"{ISAS[isa]}: {s} step {step}: the digest is not that of the result")
    return True


def mu_product(defaults, steps):
    """NAdam's, after so many updates; it is 0 or next to it after a few hundred."""
    product = torch.ones(())
    for step in range(1, min(steps, 1000) + 1):
        product *= defaults["betas"][0] * (1.0 - 0.5 * (0.96 ** (step * defaults["momentum_decay"])))
    return product


def compare_late_steps(bridge, isa, s):
    """Bias corrections and decays of steps that no test waits for."""
    for first in [*range(1, 3000, 13), 9_999, 123_456, 1_000_000, 10_000_000]:
        parameter = torch.nn.Parameter(torch.randn(33))
        our = Ours(bridge, s, isa, parameter.detach())
        our.slots = [torch.zeros(33) for _ in our.slots]
        optimizer = peer_optimizer(s, [parameter])
        parameter.grad = torch.randn(33)
        count = float(first - 1)
        optimizer.state[parameter] = dict(step=count if s["name"] == "lamb" else torch.tensor(count),
                                          **{name: torch.zeros(33) for name in our.names})
        if s["name"] == "nadam":
            optimizer.state[parameter]["mu_product"] = mu_product(optimizer.defaults, first - 1)
        our.updates = first - 1
        optimizer.step()
        our.step(parameter.grad, s["lr"])
        if not same_bits(parameter.detach(), our.parameter):
            sys.exit(f"{ISAS[isa]}: {s}: update {first} differs")


def check(bridge, isa):
    assert torch.backends.cpu.get_cpu_capability() == CAPABILITIES[isa].upper()
    cases, refused = collections.Counter(), 0
    for number, s in enumerate(settings(bridge)):
        if s["name"] in WHOLE and ISAS[isa] == "fma128":
            continue  # LibTorch computes, with AVX2
        if compare(bridge, s, isa, steps=6, clip=number % 3 == 0):
            cases[s["name"]] += 1
        else:
            refused += 1
    compare_late_steps(bridge, isa, dict(name="adamw", lr=1e-3, weight_decay=0.01))
    compare_late_steps(bridge, isa, dict(name="adagrad", lr=0.1, lr_decay=0.01, weight_decay=0.01))
    compare_late_steps(bridge, isa, dict(name="adam", lr=1e-3, amsgrad=True))
    compare_late_steps(bridge, isa, dict(name="nadam", lr=1e-3, weight_decay=0.01))
    compare_late_steps(bridge, isa, dict(name="radam", lr=1e-3, weight_decay=0.01))
    compare_late_steps(bridge, isa, dict(name="lamb", lr=1e-3, weight_decay=0.01))
    compare_late_steps(bridge, isa, dict(name="adafactor", lr=1e-3, weight_decay=0.01))
    counts = ", ".join(f"{name} {count}" for name, count in cases.items())
    print(f"{ISAS[isa]}: {cases.total()} settings ({counts}), {len(SIZES)} sizes or {len(SHAPES)} shapes, 6 steps: equal bits; "
          f"{refused} refused by both")


def best_time(body, rounds=15):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        body()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def report_speed(bridge, isa, n=11_000_000):
    torch.manual_seed(1)
    parameter = torch.nn.Parameter(torch.randn(n))
    parameter.grad = torch.randn(n)
    gradient = parameter.grad.clone()
    copy = torch.empty(n)
    print(f"{n} parameters, best of 15, ms; copy of one tensor {best_time(lambda: copy.copy_(gradient)):.1f}, "
          f"digest of one {best_time(lambda: bridge.c.digest(gradient.data_ptr(), 4 * n, isa)):.1f}")
    for name, s in (("SGD momentum", dict(name="sgd", momentum=0.9, weight_decay=5e-4)),
                    ("AdamW", dict(name="adamw", weight_decay=0.01)),
                    ("RMSprop", dict(name="rmsprop")),
                    ("RMSprop centered, momentum", dict(name="rmsprop", momentum=0.9, centered=True)),
                    ("Adagrad", dict(name="adagrad")), ("AdamW amsgrad", dict(name="adamw", amsgrad=True)),
                    ("NAdam", dict(name="nadam")), ("RAdam", dict(name="radam")), ("Lion", dict(name="lion"))):
        optimizer, our = peer_optimizer(s, [parameter]), Ours(bridge, s, isa, parameter.detach())
        optimizer.step()
        our.step(gradient, 1e-3)
        print(f"  {name}: torch.optim {best_time(optimizer.step):.1f}, "
              f"estrain with digests {best_time(lambda: our.step(gradient, 1e-3)):.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--isa", type=int, help="only this one, under the ATEN_CPU_CAPABILITY of the environment")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bridge = optim_bridge.load(optim_bridge.build(arguments.build))
    best = bridge.c.best_isa()
    if arguments.speed:
        return report_speed(bridge, best)
    if arguments.isa is not None:
        return check(bridge, arguments.isa)
    for isa in range(best + 1):
        environment = os.environ | {"ATEN_CPU_CAPABILITY": CAPABILITIES[isa]}
        subprocess.run([sys.executable, __file__, arguments.build, "--isa", str(isa)], env=environment, check=True)


main()
