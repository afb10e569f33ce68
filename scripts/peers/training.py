"""The model, optimizer, schedule and order of samples of a resolved spec, in PyTorch."""

import fnmatch
import inspect
import itertools
import pathlib
import re

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler

import peer_optimizers
import programs
import samplers
import schedulers
import twins

MODEL_KEYS = {"mlp": ("hidden", "dropout"), "lenet": (),
              "gpt": ("context", "layers", "heads", "width", "dropout", "tied")}  # others: dropout
GROUP_KEYS = ("lr", "weight_decay", "momentum", "betas", "eps")


def make_model(spec, data):
    if spec["model"]["name"] == "program":
        return programs.build(pathlib.Path(spec["model"]["file"]).stem)[0]
    if spec["model"]["name"] == "python":
        made = programs.function(*spec["model"]["file"].rsplit(":", 1))()
        return made[0] if isinstance(made, tuple) else made  # without the example mini-batch
    keys = MODEL_KEYS.get(spec["model"]["name"], ("dropout",))
    options = {key: spec["model"][key] for key in keys if key in spec["model"]}
    return twins.twin(spec["model"]["name"], data.shape, data.classes, **options)


def load_published(model, section):
    """Loads the file of torch.save beside the index, as a user would: the names' beginning removed, without the tensors
    that model.init_match leaves out."""
    state = torch.load(pathlib.Path(section["init"]).with_name("published.pth"))
    for prefix in section["init_prefix"]:
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    left = [pattern[1:] for pattern in section["init_match"] if pattern.startswith("!")]
    state = {name: tensor for name, tensor in state.items()
             if not any(fnmatch.fnmatchcase(name, pattern) for pattern in left)}
    model.load_state_dict(state, strict=False)


class Loss:
    """The loss of a mini-batch of the data: Loss(spec)(model, batch). An exported program takes named arrays by name, other data's
    samples and labels in that order."""

    def __init__(self, spec):
        self.spec, train = spec, spec["train"]
        self.is_output = spec["model"].get("loss") == "output"
        self.terms, self.by_tokens = train.get("terms", []), train["weight"] == "tokens"
        self.weights = torch.tensor(train["loss_weights"]) if train["loss_weights"] else None
        self.dtypes = self.dtypes_of_program()

    def __call__(self, model, batch):
        if self.is_output:
            if isinstance(batch, dict):
                self.names = inspect.signature(getattr(model, "module", model).forward).parameters
                return model(**self.arguments(batch))
            return model(*batch)
        return self.of_logits(*self.scores(model, batch))

    def training(self, model, batch):
        """The loss to be trained, its terms, and its weight: with train.weight = "tokens" the loss is a sum."""
        if self.is_output:
            given = self(model, batch)
            loss, *terms = given if isinstance(given, tuple) else (given,)
            weight = terms[self.terms.index("tokens")] if self.by_tokens else None
            return loss * weight if self.by_tokens else loss, terms[:len(self.terms)], weight
        logits, target = self.scores(model, batch)
        if not self.by_tokens:
            return self.of_logits(logits, target), [], None
        flat = target.reshape(-1)
        counted = flat[flat != -100]
        weight = torch.tensor(len(counted)) if self.weights is None else self.weights[flat.clamp_min(0)] * (flat != -100)
        return self.of_logits(logits, target, reduction="sum"), [], weight.sum()

    def scores(self, model, batch):
        """[predictions, classes] and their targets."""
        if isinstance(batch, dict):
            self.names = inspect.signature(getattr(model, "module", model).forward).parameters
            return model(**self.arguments(batch)), batch[self.spec["model"]["loss_target"]]
        logits = model(batch[0])
        return logits.view(-1, logits.shape[-1]), batch[1].view(-1)

    def arguments(self, batch):
        """Data of the file, widened to the types that the module was exported for. A module in Python gets what it takes."""
        if self.spec["model"]["name"] == "python":
            return {name: value for name, value in batch.items() if name in self.names}
        return {name: batch[name].to(dtype) for name, dtype in self.dtypes.items()}

    def dtypes_of_program(self):
        """The types of forward's arguments, by name."""
        if self.spec["model"]["name"] != "program":
            return {}
        module, example = programs.build(pathlib.Path(self.spec["model"]["file"]).stem)
        if not isinstance(example, dict):
            example = dict(zip(inspect.signature(module.forward).parameters, example))
        return {name: value.dtype for name, value in example.items()}

    def of_logits(self, logits, target, reduction="mean"):
        return F.cross_entropy(logits, target, self.weights, reduction=reduction,
                               label_smoothing=self.spec["train"]["label_smoothing"])


def layer_depths(section, names):
    """The layer of each parameter, as core/engine/optim/layer_depths.h says."""
    if section.get("layers"):
        return {name: next(i for i, pattern in enumerate(section["layers"]) if fnmatch.fnmatchcase(name, pattern))
                for name in names}
    layers, depths, plain = [], {}, []
    for name in names:
        numbered = re.match(r"(?:[^.]+\.)*?(?:[^.]*_)?[0-9]+(?=\.|$)", name)
        if numbered and numbered[0] not in layers:
            layers.append(numbered[0])
        depths[name] = layers.index(numbered[0]) + 1 if numbered else len(layers)
        plain += [] if numbered else [name]
    return depths | {name: len(layers) + 1 for name in plain if layers and depths[name] == len(layers)}


def make_optimizer(spec, model, **more):
    """more: of torch.optim's own options, such as foreach."""
    section = spec["optimizer"]
    groups = [dict(params=[], kind=section["name"])]
    groups += [dict(params=[], kind=group.get("name", section["name"]),
                    **{key: group[key] for key in GROUP_KEYS if key in group}) for group in section["groups"]]
    of_job = {key: value for key, value in section.items() if key not in ("name", "groups", "layer_decay", "layers")}
    depths, slower = layer_depths(section, [name for name, _ in model.named_parameters()]), {}
    for name, parameter in model.named_parameters():
        matches = (i for i, group in enumerate(section["groups"], 1)
                   if any(fnmatch.fnmatchcase(name, pattern) for pattern in group["match"]))
        group, below = groups[next(matches, 0)], max(depths.values()) - depths[name]
        if below and section.get("layer_decay", 1) != 1:
            own = of_job if group["kind"] == section["name"] else {}
            lr = group.get("lr", own.get("lr", peer_optimizers.default_lr(group["kind"]))) * section["layer_decay"] ** below
            group = slower.setdefault((id(group), below), group | dict(params=[], lr=lr))
        group["params"].append(parameter)
    groups += slower.values()
    each = [(group.pop("kind"), group) for group in groups]
    each = [(kind, peer_optimizers.arguments(kind, of_job) | more if kind == section["name"] else {},
             peer_optimizers.arguments(kind, group)) for kind, group in each]
    if all(kind == section["name"] for kind, _, _ in each):
        return peer_optimizers.BY_NAME[section["name"]]([group for _, _, group in each], **each[0][1])
    return peer_optimizers.OfGroups(each)


def make_scheduler(spec, optimizer):
    return schedulers.make(spec["schedule"], optimizer)


def epochs(spec, data, rank, seed):
    """The mini-batches of EST `rank`, a loader for each epoch."""
    section, ranks = spec["data"], spec["job"]["ests"]
    if section["sampler"] == "per_class":
        sampler = samplers.PerClass(data.labels.numpy(), section, ranks, rank, seed)
        loader = DataLoader(data, batch_sampler=sampler, generator=torch.Generator())
    elif section.get("bucket"):
        sampler = samplers.Buckets(data, section, ranks, rank, seed)
        loader = DataLoader(data, batch_sampler=sampler, generator=torch.Generator(), collate_fn=data.collate)
    else:
        sampler = (DistributedSampler(data, ranks, rank, shuffle=section["shuffle"], seed=seed)
                   if section["sampler"] == "all"
                   else samplers.Weighted(samplers.weights_of(section, data.labels.numpy()), ranks, rank, seed))
        loader = DataLoader(data, section["batch"], sampler=sampler, drop_last=section["drop_last"],
                            generator=torch.Generator(), collate_fn=getattr(data, "collate", None))
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        if hasattr(data, "set_epoch"):
            data.set_epoch(epoch)
        yield loader
