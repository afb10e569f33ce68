#!/usr/bin/env python3
"""Compares core/optim and kernels/optimizer.h with torch.optim, bit for bit, and then in speed.

    python scripts/peers/optimizer_bits.py BUILD_FOLDER [--speed]

Every setting runs some steps on tensors of odd sizes, under each ATEN_CPU_CAPABILITY that the machine has, against the
kernels of the same instruction set. Exits with 1 on the first difference.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import time

import torch

import optim_bridge

ISAS = ["baseline", "fma128", "avx2", "avx512"]  # in the order of kernels::Isa
CAPABILITIES = ["default", "avx2", "avx2", "avx512"]  # the LibTorch whose bits they give; it has no fma128 of its own
SGD, ADAM, ADAMW = range(3)
DEFAULTS = dict(kind=SGD, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, beta1=0.9,
                beta2=0.999, eps=1e-8)
SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 1023, 1025, 4099, 40001]


def settings():
    for weight_decay in (0.0, 5e-4, 0.1):
        for lr in (0.1, 3e-3, 1e-5):
            yield DEFAULTS | dict(lr=lr, weight_decay=weight_decay)
            for momentum in (0.9, 0.5, 1 / 3):
                yield DEFAULTS | dict(lr=lr, weight_decay=weight_decay, momentum=momentum)
                yield DEFAULTS | dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=True)
                yield DEFAULTS | dict(lr=lr, weight_decay=weight_decay, momentum=momentum, dampening=0.3)
            for kind in (ADAM, ADAMW):
                for beta1 in (0.9, 0.3, 0.5, 0.0, 0.51):
                    for beta2, eps in ((0.999, 1e-8), (0.95, 1e-6), (0.0, 1e-8)):
                        yield DEFAULTS | dict(kind=kind, lr=lr, weight_decay=weight_decay, beta1=beta1, beta2=beta2,
                                              eps=eps)


def peer_optimizer(s, parameters):
    if s["kind"] == SGD:
        return torch.optim.SGD(parameters, lr=s["lr"], momentum=s["momentum"], dampening=s["dampening"],
                               weight_decay=s["weight_decay"], nesterov=s["nesterov"])
    kind = torch.optim.Adam if s["kind"] == ADAM else torch.optim.AdamW
    return kind(parameters, lr=s["lr"], betas=(s["beta1"], s["beta2"]), eps=s["eps"], weight_decay=s["weight_decay"])


def slot_names(s):
    if s["kind"] != SGD:
        return ["exp_avg", "exp_avg_sq"]
    return ["momentum_buffer"] if s["momentum"] else []


def lr_at(s, step):
    """A schedule of the kind that leaves no round numbers."""
    return s["lr"] * (1 - 0.037 * step) / (1 + 0.001 * step)


def same_bits(a, b):
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


class Ours:
    """A parameter and its slots, updated by estrain."""

    def __init__(self, bridge, s, isa, parameter):
        self.bridge, self.arguments = bridge, optim_bridge.OptimizerArguments(**s, isa=isa)
        self.isa = isa
        self.parameter = parameter.clone()
        self.slots = [torch.full_like(parameter, 0.0 if s["kind"] != SGD else float("nan")) for _ in slot_names(s)]
        self.updates = 0

    def step(self, gradient, lr, factor=1.0):
        pointers = [t.data_ptr() for t in self.slots] + [None, None]
        digest = self.bridge.optimizer_update(ctypes.byref(self.arguments), self.updates, lr, factor,
                                              self.parameter.numel(), gradient.data_ptr(), self.parameter.data_ptr(),
                                              pointers[0], pointers[1])
        self.updates += 1
        return digest

    def digest(self):
        parts = [self.bridge.digest(t.data_ptr(), 4 * t.numel(), self.isa) for t in [self.parameter, *self.slots]]
        weights = [1, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F]
        return sum(p * w for p, w in zip(parts, weights)) % 2**64


def compare(bridge, s, isa, steps, clip):
    torch.manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(n)) for n in SIZES]
    ours = [Ours(bridge, s, isa, p.detach()) for p in parameters]
    optimizer = peer_optimizer(s, parameters)
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
            peers = [p.detach(), *(optimizer.state[p][name] for name in slot_names(s))]
            for what, a, b in zip(["parameter", *slot_names(s)], peers, [our.parameter, *our.slots]):
                if not same_bits(a, b):
                    n = int((a.view(torch.int32) != b.view(torch.int32)).sum())
                    sys.exit(f"{ISAS[isa]}: {s} step {step}: {what}: {n} of {a.numel()} elements differ")
            if digest != our.digest():
                sys.exit(f"{ISAS[isa]}: {s} step {step}: the digest is not that of the result")


def compare_late_steps(bridge, isa):
    """Bias corrections of steps that no test waits for."""
    s = DEFAULTS | dict(kind=ADAMW, weight_decay=0.01)
    for first in [*range(1, 3000, 13), 9_999, 123_456, 1_000_000, 10_000_000]:
        parameter = torch.nn.Parameter(torch.randn(33))
        our = Ours(bridge, s, isa, parameter.detach())
        optimizer = peer_optimizer(s, [parameter])
        parameter.grad = torch.randn(33)
        optimizer.state[parameter] = dict(step=torch.tensor(float(first - 1)), exp_avg=torch.zeros(33),
                                          exp_avg_sq=torch.zeros(33))
        our.updates = first - 1
        optimizer.step()
        our.step(parameter.grad, s["lr"])
        if not same_bits(parameter.detach(), our.parameter):
            sys.exit(f"{ISAS[isa]}: update {first} differs")


def check(bridge, isa):
    assert torch.backends.cpu.get_cpu_capability() == CAPABILITIES[isa].upper()
    cases = 0
    for s in settings():
        compare(bridge, s, isa, steps=6, clip=cases % 3 == 0)
        cases += 1
    compare_late_steps(bridge, isa)
    print(f"{ISAS[isa]}: {cases} settings, {len(SIZES)} sizes, 6 steps: equal bits")


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
          f"digest of one {best_time(lambda: bridge.digest(gradient.data_ptr(), 4 * n, isa)):.1f}")
    for name, s in (("SGD momentum", DEFAULTS | dict(momentum=0.9, weight_decay=5e-4)),
                    ("AdamW", DEFAULTS | dict(kind=ADAMW, weight_decay=0.01))):
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
    best = bridge.best_isa()
    if arguments.speed:
        return report_speed(bridge, best)
    if arguments.isa is not None:
        return check(bridge, arguments.isa)
    for isa in range(best + 1):
        environment = os.environ | {"ATEN_CPU_CAPABILITY": CAPABILITIES[isa]}
        subprocess.run([sys.executable, __file__, arguments.build, "--isa", str(isa)], env=environment, check=True)


main()
