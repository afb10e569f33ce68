"""The one list of all figures, in the order in which they are measured and shown."""

import accuracy
import checkpoint_io
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


def all_groups():
    return [group for module in MODULES for group in module.groups()]
