"""What a resolved spec says of model, optimizer, schedule and the order of samples, in PyTorch."""

import fnmatch
import itertools
import pathlib

import torch
from torch.utils.data import DataLoader, DistributedSampler

import programs
import schedulers
import twins

MODEL_KEYS = {"mlp": ("hidden", "dropout"), "lenet": (),
              "gpt": ("context", "layers", "heads", "width", "dropout", "tied")}  # others: dropout
OPTIMIZERS = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
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
    options = {key: value for key, value in section.items() if key not in ("name", "groups")}
    return OPTIMIZERS[section["name"]](groups, **options, **more)


def make_scheduler(spec, optimizer):
    return schedulers.make(spec["schedule"], optimizer)


def epochs(spec, data, rank, seed):
    """The mini-batches of EST `rank`, a loader for each epoch."""
    section = spec["data"]
    sampler = DistributedSampler(data, spec["job"]["ests"], rank, shuffle=section["shuffle"], seed=seed)
    loader = DataLoader(data, section["batch"], sampler=sampler, drop_last=section["drop_last"],
                        generator=torch.Generator())
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        yield loader
