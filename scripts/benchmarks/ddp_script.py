"""The script that torchrun runs: a model of examples/ or torchvision under DistributedDataParallel, on batches made in advance,
which lie on its device (the CPU, if `--device` names no other). A case that has a job's "spec" is that job: its model,
optimizer and clipping, on the first mini-batches of its data; a "compiled" one goes through torch.compile, with a fused
optimizer. Rank by rank it takes orders from the socket `--control`;
without one it makes a step, says so and ends."""

import argparse
import contextlib
import itertools
import json
import os
import sys
import time
from multiprocessing.connection import Client
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import run_data  # noqa: E402
import training  # noqa: E402
import twins  # noqa: E402

DISTINCT_BATCHES = 8


def make_batch(case):
    size, classes = case["batch"], case["classes"]
    if not case["shape"]:
        text = torch.randint(classes, (size, case["model"]["context"] + 1))
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()
    return torch.randn(size, *case["shape"]), torch.randint(classes, (size,))


class Loop:
    def __init__(self, case, device):
        torch.manual_seed(0)
        self.accumulate, self.device = case["accumulate"], torch.device(device)
        self.batches = [[part.to(self.device) for part in make_batch(case)] for _ in range(DISTINCT_BATCHES)]
        model = twins.twin(shape=case["shape"], classes=case["classes"], **case["model"])
        self.model = DistributedDataParallel(model.to(self.device))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.next = 0

    def mini_batch(self):
        loss = self.loss_of(self.batches[self.next % len(self.batches)])
        self.next += 1
        (loss / self.accumulate if self.accumulate > 1 else loss).backward()

    def loss_of(self, batch):
        inputs, targets = batch
        return F.cross_entropy(self.model(inputs).flatten(0, -2), targets.flatten())

    def step(self):
        self.optimizer.zero_grad()
        for i in range(self.accumulate):
            last = i + 1 == self.accumulate
            with contextlib.nullcontext() if last else self.model.no_sync():
                self.mini_batch()
        self.update()

    def update(self):
        self.optimizer.step()

    def settle(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def state(self):
        return {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(), "next": self.next}

    def load(self, path):
        state = torch.load(path)
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.next = state["next"]


class JobLoop(Loop):
    """On the CPU."""

    def __init__(self, case):
        torch.manual_seed(0)
        self.accumulate, self.device, self.next = case["accumulate"], torch.device("cpu"), 0
        spec = case["spec"]
        data = run_data.open_data(spec)[0]
        self.batches = list(itertools.islice(DataLoader(data, spec["data"]["batch"]), DISTINCT_BATCHES))
        self.loss, self.longest = training.Loss(spec), spec["train"]["clip_grad_norm"]
        module = training.make_model(spec, data)
        if case.get("compiled"):
            self.model = DistributedDataParallel(module) if dist.get_world_size() > 1 else module
            self.model.compile()
            self.optimizer = training.make_optimizer(spec, module, fused=True)
        else:
            self.model = DistributedDataParallel(module)
            self.optimizer = training.make_optimizer(spec, module)

    def loss_of(self, batch):
        return self.loss(self.model, batch)

    def update(self):
        if self.longest:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.longest)
        self.optimizer.step()


def timed(loop, warm, steps):
    for _ in range(warm):
        loop.step()
    loop.settle()
    begin = time.perf_counter()
    for _ in range(steps):
        loop.step()
    loop.settle()
    return time.perf_counter() - begin


def obey(loop, control):
    connection = Client(control, "AF_UNIX")
    connection.send(os.getpid())
    with contextlib.suppress(EOFError):
        while True:
            verb, *arguments = connection.recv()
            if verb == "run":
                connection.send(timed(loop, *arguments))
            elif verb == "save and leave":  # answers when the last step ended
                loop.step()
                loop.settle()
                last = time.monotonic()
                if dist.get_rank() == 0:
                    torch.save(loop.state(), arguments[0])
                dist.barrier()
                connection.send(last)
                return
            elif verb == "first step":  # answers when it began and when it ended
                begin = time.monotonic()
                loop.step()
                loop.settle()
                connection.send((begin, time.monotonic()))


def go_on(loop, folder):
    """Trains from the checkpoint in the folder for ever; writes one every ten steps, a byte for each step, and a file
    once the first one is through."""
    rank, checkpoint = dist.get_rank(), folder / "checkpoint.pt"
    if checkpoint.exists():
        loop.load(checkpoint)
    for step in itertools.count():
        loop.step()
        if rank == 0 and step == 0:
            (folder / f"begun-{os.getpid()}").touch()
        with open(folder / f"steps-{rank}", "a") as file:
            file.write(".")
        if rank == 0 and step % 10 == 9:
            torch.save(loop.state(), folder / "new.pt")
            (folder / "new.pt").rename(checkpoint)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("--control")
    parser.add_argument("--load")
    parser.add_argument("--go-on", type=Path, metavar="FOLDER")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    case = json.loads(arguments.case)
    loop = JobLoop(case) if "spec" in case else Loop(case, arguments.device)
    if arguments.load:
        loop.load(arguments.load)
    if arguments.go_on:
        go_on(loop, arguments.go_on)
    if arguments.control:
        obey(loop, arguments.control)
        dist.destroy_process_group()
        return
    loop.step()
    print("stepped", flush=True)
    os._exit(0)


main()
