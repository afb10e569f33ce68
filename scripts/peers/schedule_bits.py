#!/usr/bin/env python3
"""Compares core/optim/schedule.h with torch.optim.lr_scheduler: every lr of thousands of calls, bit for bit.

    python scripts/peers/schedule_bits.py BUILD_FOLDER [--golden]

--golden prints rows of lrs as C++ for tests/core/optim/schedule_test.cpp. Exits with 1 on the first difference.
"""
import argparse
import ctypes
import itertools
import random
import sys
import warnings

import torch
from torch.optim import lr_scheduler as lrs

import optim_bridge

CONSTANT, STEP, COSINE, LINEAR = range(4)
DEFAULTS = dict(kind=CONSTANT, period=30, warmup=0, gamma=0.1, eta_min=0.0, start_factor=1 / 3, end_factor=1.0,
                warmup_start=0.1)


def main_scheduler(optimizer, s):
    if s["kind"] == STEP:
        return lrs.StepLR(optimizer, s["period"], s["gamma"])
    if s["kind"] == COSINE:
        return lrs.CosineAnnealingLR(optimizer, s["period"], s["eta_min"])
    if s["kind"] == LINEAR:
        return lrs.LinearLR(optimizer, s["start_factor"], s["end_factor"], s["period"])
    return lrs.ConstantLR(optimizer, factor=1, total_iters=0)


def peer_lrs(s, base_lr, count):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=base_lr)
    if s["warmup"]:
        warmup = lrs.LinearLR(optimizer, s["warmup_start"], 1.0, s["warmup"])
        scheduler = lrs.SequentialLR(optimizer, [warmup, main_scheduler(optimizer, s)], milestones=[s["warmup"]])
    else:
        scheduler = main_scheduler(optimizer, s)
    values = []
    for _ in range(count):
        values.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    return values


def our_lrs(bridge, s, base_lr, count):
    out = (ctypes.c_double * count)()
    bridge.schedule_lrs(optim_bridge.ScheduleArguments(**s), base_lr, count, out)
    return list(out)


def settings():
    for kind, period, warmup in itertools.product(range(4), (1, 2, 3, 7, 30, 90, 1000), (0, 1, 2, 5, 100)):
        yield DEFAULTS | dict(kind=kind, period=period, warmup=warmup)
    for warmup in (0, 3):
        yield DEFAULTS | dict(kind=STEP, period=1, gamma=0.97, warmup=warmup)
        yield DEFAULTS | dict(kind=STEP, period=10, gamma=1.1, warmup=warmup)
        yield DEFAULTS | dict(kind=COSINE, period=50, eta_min=1e-5, warmup=warmup)
        yield DEFAULTS | dict(kind=COSINE, period=100, eta_min=0.3, warmup=warmup)
        yield DEFAULTS | dict(kind=LINEAR, period=10, start_factor=1.0, end_factor=0.0, warmup=warmup)
        yield DEFAULTS | dict(kind=LINEAR, period=77, start_factor=1.0, end_factor=1e-3, warmup=warmup)
        yield DEFAULTS | dict(kind=LINEAR, period=77, start_factor=0.5, end_factor=0.5, warmup=warmup)
    draw = random.Random(5)
    for _ in range(300):
        yield dict(kind=draw.randrange(4), period=draw.randint(1, 400), warmup=draw.choice((0, draw.randint(1, 200))),
                   gamma=draw.uniform(0.1, 1), eta_min=draw.choice((0.0, draw.uniform(0, 0.01))),
                   start_factor=draw.uniform(0.01, 1), end_factor=draw.uniform(0, 1), warmup_start=draw.uniform(0.001, 1))


def compare(bridge, s, base_lr, count):
    peer, ours = peer_lrs(s, base_lr, count), our_lrs(bridge, s, base_lr, count)
    for i, (a, b) in enumerate(zip(peer, ours)):
        if float(a).hex() != b.hex():
            sys.exit(f"{s} base lr {base_lr}: after {i} calls: torch {float(a).hex()}, estrain {b.hex()}")


def print_golden():
    names = ["constant", "step", "cosine", "linear"]
    for kind, period, warmup in ((STEP, 3, 0), (STEP, 2, 3), (COSINE, 5, 0), (COSINE, 4, 2), (LINEAR, 5, 0),
                                 (LINEAR, 3, 3), (CONSTANT, 30, 4)):
        values = peer_lrs(DEFAULTS | dict(kind=kind, period=period, warmup=warmup), 0.05, 12)
        print(f"{{ScheduleKind::{names[kind]}, {period}, {warmup}, {{{', '.join(float(x).hex() for x in values)}}}}},")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--golden", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.golden:
        return print_golden()
    bridge = optim_bridge.load(optim_bridge.build(arguments.build))
    cases = calls = 0
    for s in settings():
        for base_lr, count in ((0.1, 500), (3e-4, 300)) if cases % 20 else ((0.1, 3000), (1.7, 500)):
            compare(bridge, s, base_lr, count)
            cases, calls = cases + 1, calls + count
    print(f"{cases} schedules, {calls} learning rates: equal bits")


main()
