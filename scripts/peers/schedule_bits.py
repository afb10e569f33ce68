#!/usr/bin/env python3
"""Compares core/engine/optim/schedule.h with torch.optim.lr_scheduler: every lr of thousands of calls, bit for bit.

    python scripts/peers/schedule_bits.py BUILD_FOLDER [--golden]

--golden prints rows of lrs as C++ for tests/core/engine/optim/schedule_test.cpp. Exits with 1 on the first difference.
"""
import argparse
import collections
import ctypes
import itertools
import random
import sys
import warnings

import torch

import optim_bridge
import schedulers

SHAPES = {"linear": "linear", "cosine": "cos", "one_minus_sqrt": "1-sqrt"}  # words of spec::Decay
DRAWN = 120  # settings of each schedule at random, beside those below
GOLDEN = [dict(name="step", period=3), dict(name="step", period=2, warmup=3), dict(name="cosine", period=5),
          dict(name="cosine", period=4, warmup=2), dict(name="linear", period=5),
          dict(name="linear", period=3, warmup=3), dict(name="constant", warmup=4),
          dict(name="multistep", milestones=[2, 5, 5, 9]), dict(name="multistep", milestones=[1, 4], warmup=3),
          dict(name="polynomial", period=7), dict(name="polynomial", period=5, power=0.9, warmup=2),
          dict(name="onecycle", period=12), dict(name="onecycle", period=12, anneal_strategy="linear", three_phase=True),
          dict(name="exponential", gamma=0.7), dict(name="exponential", gamma=0.7, warmup=3),
          dict(name="restarts", period=3, period_factor=2), dict(name="restarts", period=4, warmup=2),
          dict(name="inverse_sqrt", period=4, warmup=4),
          dict(name="wsd", period=3, decay=5, decay_shape="cosine", min_factor=0.1, warmup=2),
          dict(name="table", points=[0, 2, 7], factors=[1.0, 0.5, 0.1], between="linear", warmup=1)]


def peer_lrs(s, base_lr, count):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=base_lr)
    scheduler = schedulers.make(s, optimizer)
    values = []
    for call in range(count):
        values.append(optimizer.param_groups[0]["lr"])
        if call + 1 < count:
            scheduler.step()
    return values


def our_lrs(bridge, s, base_lr, count):
    """None where estrain refuses the schedule."""
    out = (ctypes.c_double * count)()
    done = bridge.c.schedule_lrs(optim_bridge.toml_of("schedule", s).encode(), base_lr, count, out)
    return list(out) if done else None


def settings(bridge):
    names = [name for name in bridge.names("schedule") if name != "plateau"]
    plain = [name for name in names if name not in ("multistep", "onecycle", "exponential", "table")]
    for name, period, warmup in itertools.product(plain, (1, 2, 3, 7, 30, 90, 1000), (0, 1, 2, 5, 100)):
        yield dict(name=name, warmup=warmup, **({} if name == "constant" else dict(period=period)))
    for period in (2, 3, 7, 30, 90, 1000, 5000):
        yield dict(name="onecycle", period=period)
        yield dict(name="onecycle", period=period, three_phase=True)
        yield dict(name="onecycle", period=period, anneal_strategy="linear")
    for warmup in (0, 3):
        yield dict(name="step", period=1, gamma=0.97, warmup=warmup)
        yield dict(name="step", period=10, gamma=1.1, warmup=warmup)
        yield dict(name="cosine", period=50, eta_min=1e-5, warmup=warmup)
        yield dict(name="cosine", period=100, eta_min=0.3, warmup=warmup)
        yield dict(name="linear", period=10, start_factor=1.0, end_factor=0.0, warmup=warmup)
        yield dict(name="linear", period=77, start_factor=1.0, end_factor=1e-3, warmup=warmup)
        yield dict(name="linear", period=77, start_factor=0.5, end_factor=0.5, warmup=warmup)
        yield dict(name="multistep", milestones=[30, 80], warmup=warmup)
        yield dict(name="polynomial", period=50, power=2.0, warmup=warmup)
        yield dict(name="polynomial", period=50, power=0.0, warmup=warmup)
        yield dict(name="exponential", gamma=0.97, warmup=warmup)
        yield dict(name="restarts", period=10, period_factor=2, eta_min=1e-5, warmup=warmup)
        yield dict(name="restarts", period=7, period_factor=3, warmup=warmup)
        for shape in ("linear", "cos", "1-sqrt"):
            yield dict(name="wsd", period=100, decay=33, decay_shape=shape, min_factor=0.01, warmup=warmup)
        for between in ("constant", "linear"):
            yield dict(name="table", points=[0, 10, 200], factors=[1.0, 0.3, 0.01], between=between, warmup=warmup)
            yield dict(name="table", points=[0], factors=[0.3], between=between, warmup=warmup)
    for seed, name in enumerate(names):
        fixed = dict(milestones=[3, 3, 11, 200]) if name == "multistep" and seed % 2 else {}
        if name == "table":
            fixed = dict(points=[0, 1, 17, 200], factors=[1 / 3, 1.0, 0.7, 1e-3])
        yield from bridge.drawn("schedule", name, DRAWN, seed, fixed)


def hexadecimal(values):
    return [float(value).hex() for value in values]


def compare(bridge, s, base_lr, count):
    """How many rates were compared: none where the schedule is refused by both."""
    if s["name"] == "onecycle":
        count = min(count, s.get("period", schedulers.PERIOD) + 1)
    ours = our_lrs(bridge, s, base_lr, count)
    try:
        peer = peer_lrs(s, base_lr, count)
    except (ZeroDivisionError, TypeError):  # a phase that takes no time; no milestones
        peer = None
    if ours is None and (peer is None or s["name"] == "multistep"):
        return 0
    if ours is None or peer is None:
        sys.exit(f"{s} base lr {base_lr}: is refused by {'estrain' if ours is None else 'torch'} alone")
    for i, (a, b) in enumerate(zip(hexadecimal(peer), hexadecimal(ours))):
        if a != b:
            sys.exit(f"{s} base lr {base_lr}: after {i} calls: torch {a}, estrain {b}")
    return count


def compare_plateau(bridge, s, base_lr, count, draw):
    """Evaluations that get better for a while, and then no more."""
    metrics, level = [], 1.0
    for _ in range(count):
        level *= draw.choice((0.9, 0.99, 1, 1, 1.01))
        metrics.append(draw.choice((level, level, level, 0.0, 1.0, float("inf"), float("nan"))))
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=base_lr)
    scheduler = schedulers.make_main(s, optimizer)
    peer = []
    for metric in metrics:
        scheduler.step(metric)
        peer.append(optimizer.param_groups[0]["lr"])
    ours = (ctypes.c_double * count)()
    toml = optim_bridge.toml_of("schedule", s).encode()
    if not bridge.c.plateau_lrs(toml, base_lr, count, (ctypes.c_double * count)(*metrics), ours):
        sys.exit(f"{s} is refused: {bridge.refusal()}")
    for i, (a, b) in enumerate(zip(hexadecimal(peer), hexadecimal(ours))):
        if a != b:
            sys.exit(f"{s} base lr {base_lr}: after evaluation {i}: torch {a}, estrain {b}")


def check_plateaus(bridge):
    draw, cases = random.Random(7), 0
    for s in itertools.chain([dict(name="plateau")] * 20, bridge.drawn("schedule", "plateau", 400, 3)):
        compare_plateau(bridge, s, draw.choice((0.1, 3e-4)), 300, draw)
        cases += 1
    print(f"{cases} plateau schedules, {300 * cases} evaluations: equal bits")


def as_cpp(key, value):
    if isinstance(value, list):
        return "{" + ", ".join(map(str, value)) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return {"name": f"ScheduleKind::{value}", "anneal_strategy": f"spec::Anneal::{value}",
            "decay_shape": f"spec::Decay::{value}", "between": f"spec::Between::{value}"}.get(key, str(value))


def print_golden():
    order = ["name", "period", "gamma", "milestones", "period_factor", "decay", "decay_shape", "min_factor", "points",
             "factors", "between", "power", "anneal_strategy", "three_phase", "warmup"]
    for s in GOLDEN:
        peer = s | dict(decay_shape=SHAPES[s["decay_shape"]]) if "decay_shape" in s else s
        fields = ", ".join(f".{key} = {as_cpp(key, s[key])}" for key in order if key in s)
        print(f"{{{{{fields}}}, {{{', '.join(hexadecimal(peer_lrs(peer, 0.05, 12)))}}}}},")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--golden", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.golden:
        return print_golden()
    bridge = optim_bridge.load(optim_bridge.build(arguments.build))
    cases, calls, refused = collections.Counter(), 0, 0
    for s in settings(bridge):
        for base_lr, count in ((0.1, 500), (3e-4, 300)) if cases.total() % 20 else ((0.1, 3000), (1.7, 500)):
            compared = compare(bridge, s, base_lr, count)
            calls += compared
            refused += compared == 0
            cases[s["name"]] += compared > 0
    counts = ", ".join(f"{name} {count}" for name, count in cases.items())
    print(f"{cases.total()} schedules ({counts}), {calls} learning rates: equal bits; {refused} refused")
    check_plateaus(bridge)


main()
