"""Memory of k ESTs on one worker against one EST, and against k processes of DDP."""

import time

from cases import RESNET18
from estrain_job import EstrainJob
from figures import LOWER, Figure, Group, Measured
from process_tree import memory_of, with_descendants
from torch_ddp import TorchDdp

ESTS = (1, 2, 4, 8, 16)
GRADIENT_BYTES = 4 * 11_181_642  # of resnet18 with 10 classes
SAMPLES = 12
MINI_BATCHES = 48  # of estrain before it is weighed: the allocator has seen as much with 1 EST as with 16
STEPS = 3  # of DDP
ROUNDS = (3, 1)

HOW = (
    "resnet18 32x32, batch 8; highest sum of Pss_Anon and Pss_Shmem (smaps_rollup: what processes share is counted "
    "once, pages of program files not at all) among samples taken while it steps, of all processes of estrain "
    "(launcher, recorder, worker), "
)
HOW_MANY = HOW + "with 16 ESTs minus that with 1 EST, in copies of the gradient (44.7 MB), to a tenth of one"
HOW_DDP = HOW + "with k ESTs on 1 worker, over that of the k processes of DDP (torchrun itself left out)"


def peak(pids_of):
    highest = 0
    for _ in range(SAMPLES):
        highest = max(highest, memory_of(pids_of()))
        time.sleep(0.05)
    return highest


def estrain_bytes(bench, ests):
    with EstrainJob(bench, RESNET18, ests) as job:
        job.wait_for_step(MINI_BATCHES // ests)
        return peak(lambda: with_descendants(job.process.pid))


def ddp_bytes(bench, ranks):
    with TorchDdp(bench, RESNET18, ranks) as ddp:
        ddp.wait_until_ready()
        ddp.run(0, STEPS)
        return peak(lambda: ddp.pids)


def measure_growth(bench):
    copies, notes = [], []
    for _ in range(bench.rounds(*ROUNDS)):
        one, sixteen = estrain_bytes(bench, 1), estrain_bytes(bench, 16)
        copies.append(round((sixteen - one) / GRADIENT_BYTES, 1))
        notes.append(f"{one / 1e6:.0f} -> {sixteen / 1e6:.0f}")
    return {"memory/16-est/over-1-est": Measured.of(copies, note="MB: " + ", ".join(notes))}


def measure_against_ddp(bench, ests):
    ours, theirs = estrain_bytes(bench, ests), ddp_bytes(bench, ests)
    note = f"MB: estrain {ours / 1e6:.0f}, ddp {theirs / 1e6:.0f}"
    return {f"memory/{ests}-est/ddp": Measured.of([ours / theirs], note=note)}


def groups():
    growth = Figure("memory/16-est/over-1-est", LOWER, HOW_MANY, target=4.0, unit=" copies")
    against = [
        Group(
            (Figure(f"memory/{ests}-est/ddp", LOWER, HOW_DDP, target=1.0),),
            lambda bench, ests=ests: measure_against_ddp(bench, ests),
            lambda bench, ests=ests: 15 + 2 * ests,
        )
        for ests in ESTS
    ]
    return [Group((growth,), measure_growth, lambda bench: 15 * bench.rounds(*ROUNDS)), *against]
