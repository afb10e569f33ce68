"""What a resolved spec says of model, optimizer, schedule and the order of samples, in PyTorch."""

import fnmatch
import itertools
import pathlib

import torch
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, DistributedSampler

import programs
import twins

MODEL_KEYS = {"mlp": ("hidden", "dropout"), "lenet": (),
              "gpt": ("context", "layers", "heads", "width", "dropout", "tied")}  # others: dropout
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
OPTIMIZER_KEYS = {"sgd": ("lr", "momentum", "dampening", "weight_decay", "nesterov"),
                  "adam": ("lr", "betas", "eps", "weight_decay"), "adamw": ("lr", "betas", "eps", "weight_decay")}
GROUP_KEYS = ("lr", "weight_decay", "momentum")


def make_model(spec, data):
    if spec["model"]["name"] == "program":
        return programs.build(pathlib.Path(spec["model"]["file"]).stem)[0]
    keys = MODEL_KEYS.get(spec["model"]["name"], ("dropout",))
    options = {key: spec["model"][key] for key in keys if key in spec["model"]}
    return twins.twin(spec["model"]["name"], data.shape, data.classes, **options)


def make_optimizer(spec, model, **more):
    """more: of torch.optim's own options, such as foreach."""
    section = spec["optimizer"]
    groups = [dict(params=[])]
    groups += [dict(params=[], **{key: group[key] for key in GROUP_KEYS if key in group})
               for group in section["groups"]]
    for name, parameter in model.named_parameters():
        matches = (i for i, group in enumerate(section["groups"], 1)
                   if any(fnmatch.fnmatchcase(name, pattern) for pattern in group["match"]))
        groups[next(matches, 0)]["params"].append(parameter)
    options = {key: section[key] for key in OPTIMIZER_KEYS[section["name"]] if key in section}
    return OPTIMIZERS[section["name"]](groups, **options, **more)


def make_scheduler(spec, optimizer):
    section = spec["schedule"]
    if not section.get("warmup"):
        return main_scheduler(section, optimizer)
    warmup = lr_scheduler.LinearLR(optimizer, section["warmup_start"], 1.0, section["warmup"])
    return lr_scheduler.SequentialLR(optimizer, [warmup, main_scheduler(section, optimizer)], [section["warmup"]])


def main_scheduler(section, optimizer):
    if section["name"] == "step":
        return lr_scheduler.StepLR(optimizer, section["period"], section["gamma"])
    if section["name"] == "cosine":
        return lr_scheduler.CosineAnnealingLR(optimizer, section["period"], section["eta_min"])
    if section["name"] == "linear":
        return lr_scheduler.LinearLR(optimizer, section["start_factor"], section["end_factor"], section["period"])
    return lr_scheduler.ConstantLR(optimizer, factor=1, total_iters=0)


def epochs(spec, data, rank, seed):
    """The mini-batches of EST `rank`, a loader for each epoch."""
    section = spec["data"]
    sampler = DistributedSampler(data, spec["job"]["ests"], rank, shuffle=section["shuffle"], seed=seed)
    loader = DataLoader(data, section["batch"], sampler=sampler, drop_last=section["drop_last"],
                        generator=torch.Generator())
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        yield loader
