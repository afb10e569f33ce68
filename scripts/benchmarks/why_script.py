"""The script that torchrun runs for why.py: trains the network of a plan under DistributedDataParallel, from one share
of the training to another, with each seed in turn.

    why_script.py PLAN.json

The plan: "spec", the job as `estrain train` takes it, for "ests" workers; "steps", all steps on so many workers;
"evaluations", how many lie evenly in the training; "seeds"; "begin" and "end", shares of the training; "folder", with a
file for each seed: what was trained up to "begin", and then what was trained up to "end". Rank 0 writes "results":
{seed: {"curve": [[share of the training, accuracy]…], "right": for each test image whether it is right}}.
"""

import json
import sys
import tomllib
from pathlib import Path

import accuracy_script
import torch
import torch.distributed as dist
import torch.nn.functional as F
import twins
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


class Training:
    """Of one seed. A step is a mini-batch of `data.batch` samples on each of the workers that there are."""

    def __init__(self, plan, spec, sets, seed):
        self.plan, self.spec, self.sets, self.seed = plan, spec, sets, seed
        self.workers = dist.get_world_size()
        self.batch = spec["data"]["batch"]
        images, labels = sets[0]
        torch.manual_seed(seed)
        options = {key: value for key, value in spec["model"].items() if key != "name"}
        self.network = twins.twin(spec["model"]["name"], list(images.shape[1:]), int(labels.max()) + 1, **options)
        self.model = DistributedDataParallel(self.network)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1, momentum=spec["optimizer"]["momentum"])
        self.sampler = DistributedSampler(range(len(labels)), seed=seed)
        self.steps = round(plan["steps"] * spec["job"]["ests"] / self.workers)
        if plan["epochs"]:
            self.steps = plan["epochs"] * -(-len(self.sampler) // self.batch)

    def rate(self, step):
        """The linear scaling rule: the rate of the spec is that of `job.ests` workers. It falls as the spec says."""
        scaled = self.spec["optimizer"]["lr"] * self.workers / self.spec["job"]["ests"]
        return scaled * (1 + (self.spec["schedule"]["end_factor"] - 1) * step / self.steps)

    def mini_batches(self, begin, end):
        """(step, samples) of each step from `begin` on, before `end`."""
        step = begin
        while step < end:
            epoch, passed = divmod(step, -(-len(self.sampler) // self.batch))
            self.sampler.set_epoch(epoch)
            for samples in torch.tensor(list(self.sampler)).split(self.batch)[passed : passed + end - step]:
                yield step, samples
                step += 1

    def step(self, step, samples):
        images, labels = self.sets[0]
        self.optimizer.param_groups[0]["lr"] = self.rate(step)
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(images[samples]), labels[samples]).backward()
        self.optimizer.step()

    def run(self):
        """Returns what "results" has of this seed; nothing on other ranks than 0."""
        file = Path(self.plan["folder"]) / f"{self.seed}.pt"
        begin, end = (round(self.plan[share] * self.steps) for share in ("begin", "end"))
        if begin:
            state = torch.load(file)
            self.network.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        number = self.plan["evaluations"]
        shares = {round(i / number * self.steps): i / number for i in range(1, number + 1)}
        curve, found = [], None
        for step, samples in self.mini_batches(begin, end):
            self.model.train()
            self.step(step, samples)
            if dist.get_rank() == 0 and step + 1 in shares:
                found = accuracy_script.right(self.network, *self.sets[1])
                curve.append([shares[step + 1], found.double().mean().item()])
        if dist.get_rank() != 0:
            return None
        torch.save({"model": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        return {"curve": curve, "right": found.tolist() if found is not None else []}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    plan = json.loads(Path(sys.argv[1]).read_text())
    spec = tomllib.loads(Path(plan["spec"]).read_text())
    sets = accuracy_script.read_images(spec)
    results = {seed: Training(plan, spec, sets, seed).run() for seed in plan["seeds"]}
    if dist.get_rank() == 0:
        Path(plan["results"]).write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


main()
