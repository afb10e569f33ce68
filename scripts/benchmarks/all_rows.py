"""The one list of all figures, in the order in which they are measured and shown."""

import accuracy
import checkpoint_io
import compiled
import exported
import first_batch
import jpeg
import kernel_speed
import memory
import plan
import portable
import recovery
import resize
import start
import straggler
import switching
import throughput

MODULES = (
    throughput,
    portable,
    exported,
    compiled,
    kernel_speed,
    switching,
    memory,
    first_batch,
    start,
    resize,
    recovery,
    checkpoint_io,
    jpeg,
    plan,
    straggler,
    accuracy,
)

# The rows of `scripts/bench --quick` and `--brief`: about one group of each kind, in at most five minutes.
QUICK_ROWS = (
    "throughput/1w/lenet-b32-1est/*",
    "throughput/2w/gpt-d64-l2-t64-b8-2est/*",
    "d2/1t/mlp-512-512-b64",
    "d2/1t/lenet-b32",
    "switching/gpt/16-est",
    "memory/16-est/over-1-est",
    "first-batch/*",
    "start/lenet",
    "resize/gpt/*",
    "recovery/gpt/*",
    "checkpoint/write/*",
    "checkpoint/read/*",
    "plan/lenet/*",
)


def all_groups():
    return [group for module in MODULES for group in module.groups()]
