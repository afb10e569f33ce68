"""Repeats runs of estrain with PyTorch's DistributedDataParallel and compares every bit.

    OMP_NUM_THREADS=1 python ddp_replay.py PLAN.json REPORT.json

PLAN: a list of {"runs": [RUN_DIR, ...], "mistake": NAME or null}; the runs of an entry are one job on several device
sets. It is trained once, as a PyTorch user would: a process per virtual rank, DistributedSampler, DataLoader,
torch.optim, clip_grad_norm_, lr_scheduler. There are as many processes as the job with the most ESTs has, copies of this
one: importing torch takes longer than most jobs. Those beyond a job's number wait. "mistake" is one of MISTAKES:
something done wrongly on purpose, which the comparison has to find.
REPORT: for every entry {"ranks", "steps", "compared": number of tensors and numbers, "differences": [text, ...]}.
"""

import collections
import functools
import json
import math
import os
import pathlib
import random
import signal
import struct
import sys
import tempfile
import traceback

import h5py
import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

import run_data
from run_record import Run
from training import Loss, epochs, load_published, make_model, make_optimizer, make_scheduler

import load_checkpoint  # examples/, which training puts on the path

OUTPUTS = "outputs.h5"  # in a run directory: the outputs of an evaluation of the last state
FOLLOWS_FROM_STEP = "mu_product"  # a scalar of NAdam that estrain computes from the number of updates
MISTAKES = ("order", "seed", "shuffle", "scale", "lr", "threads", "precision", "decay", "weight")


def tree_sum(parts):
    """The first m parts plus the rest, each summed likewise; m: the largest power of two below their number."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return tree_sum(parts[:half]) + tree_sum(parts[half:])


def sum_from_the_right(parts):
    return parts[0] if len(parts) == 1 else parts[0] + sum_from_the_right(parts[1:])


def gathering_hook(add, scale):
    """A DDP communication hook: all ranks' buckets times `scale`, summed by `add`."""
    def hook(group, bucket):
        parts = [torch.empty_like(bucket.buffer()) for _ in range(group.size())]
        work = dist.all_gather(parts, bucket.buffer(), group=group, async_op=True)
        return work.get_future().then(lambda _: add([part * scale for part in parts]))
    return hook


class Differences:
    """Compares bits, counts, and keeps what differs in words: the first step of each thing."""

    def __init__(self):
        self.compared, self.found = 0, {}

    def compare(self, what, step, ours, theirs):
        """ours: estrain's array or number; theirs: PyTorch's."""
        self.compared += 1
        a, b = numpy.asarray(ours), numpy.asarray(theirs)
        if a.dtype != b.dtype or a.shape != b.shape:
            self.note(what, f"{a.dtype} {list(a.shape)} at step {step}, in PyTorch {b.dtype} {list(b.shape)}")
        elif a.tobytes() != b.tobytes():
            self.note(what, f"first at step {step}: {different_elements(a, b)}")

    def compare_names(self, what, ours, theirs):
        self.compared += 1
        if set(ours) != set(theirs):
            self.note(what, f"only in estrain {sorted(set(ours) - set(theirs))[:3]}, "
                            f"only in PyTorch {sorted(set(theirs) - set(ours))[:3]}")

    def note(self, what, text):
        self.found.setdefault(what, f"{what}: {text}")


def different_elements(a, b):
    raw = [numpy.frombuffer(x.tobytes(), numpy.uint8).reshape(-1, x.itemsize) for x in (a, b)]
    different = numpy.flatnonzero((raw[0] != raw[1]).any(axis=1))
    i = different[0]
    return f"{len(different)} of {a.size} differ, the first {a.ravel()[i]!r}, in PyTorch {b.ravel()[i]!r}"


class Metrics:
    """The metrics of an evaluation beside loss and accuracy, by the names that a record has."""

    def __init__(self, section):
        self.top_k, self.names = section.get("top_k", []), section.get("metrics", [])
        self.per_class = section.get("per_class", False)
        self.sums, self.predictions, self.by_class = {}, 0, {}

    def add_scores(self, logits, target):
        self.predictions += len(target)
        for k in self.top_k:
            hits = (logits.topk(k, 1).indices == target[:, None]).any(1)
            self.sums[f"top{k}"] = self.sums.get(f"top{k}", 0) + int(hits.sum())
        right = logits.argmax(1) == target
        for c in range(logits.shape[1]) if self.per_class else ():
            own = right[target == c]
            hits, samples = self.by_class.get(c, (0, 0))
            self.by_class[c] = hits + int(own.sum()), samples + len(own)

    def add_outputs(self, outputs, samples):
        for name, output in zip(self.names, outputs):
            for value in output.reshape(-1).expand(samples).tolist():
                self.sums[name] = self.sums.get(name, 0.0) + value

    def result(self, samples):
        top = {f"top{k}": self.sums[f"top{k}"] / self.predictions for k in self.top_k}
        classes = {f"class{c}": hits / count if count else float("nan") for c, (hits, count) in self.by_class.items()}
        return top | classes | {name: self.sums[name] / samples for name in self.names}


class Replay:
    """One rank's part of one job."""

    def __init__(self, runs, mistake, group):
        assert mistake is None or mistake in MISTAKES, mistake
        self.runs, self.spec, self.mistake = runs, runs[0].spec, mistake
        self.rank, self.ests = group.rank(), self.spec["job"]["ests"]
        self.differences = Differences()
        torch.set_num_threads(1 if mistake == "threads" else self.spec["job"]["threads"])
        self.train, self.test = run_data.open_data(self.spec)
        self.loss = Loss(self.spec)
        model = self.first_model()
        reached = self.spec["model"]["name"] != "python" and all(p.requires_grad for p in model.parameters())
        self.model = DistributedDataParallel(model, process_group=group, find_unused_parameters=not reached)
        self.group = group
        if self.ests > 2 or self.loss.by_tokens or mistake in ("order", "scale"):
            scale = 1 if self.loss.by_tokens else 1 / (self.ests + (mistake == "scale"))
            self.model.register_comm_hook(group, gathering_hook(
                sum_from_the_right if mistake == "order" else tree_sum, scale))
        self.optimizer = make_optimizer(self.spec, model)
        if mistake == "lr":
            self.optimizer.param_groups[0]["lr"] = float(numpy.nextafter(self.optimizer.param_groups[0]["lr"], 1))
        self.scheduler = make_scheduler(self.spec, self.optimizer)
        self.average = self.make_average(model, mistake)
        self.updates = collections.Counter()  # of each parameter
        self.seed(self.spec["job"]["seed"] + self.rank + (mistake == "seed"))

    def seed(self, seed):
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)

    def make_average(self, model, mistake):
        decay = self.spec["ema"]["decay"]
        if not decay:
            return None
        decay = float(numpy.nextafter(numpy.float32(decay), numpy.float32(0))) if mistake == "decay" else decay
        return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))

    def first_model(self):
        """With the weights of step 0, loaded by name; they are those that PyTorch itself begins with."""
        self.seed(self.spec["job"]["seed"])
        model = make_model(self.spec, self.train)
        init = self.spec["model"].get("init", "")
        if init.endswith(".index.json"):
            load_published(model, self.spec["model"])
        elif init:
            load_checkpoint.load(model, init)
        first = {name: value.numpy().copy() for name, value in model.state_dict().items()}
        load_checkpoint.load(model, self.runs[0].checkpoints[0])
        for name, value in model.state_dict().items():
            self.differences.compare(f"initial {name}", 0, value.numpy(), first[name])
        return model

    def run(self):
        seed = self.spec["job"]["seed"] + (self.mistake == "shuffle")
        step, last = 0, len(self.runs[0].steps)
        for loader in epochs(self.spec, self.train, self.rank, seed):
            for batch in loader:
                step += 1
                self.step(step, batch)
                if step == last:
                    return self.compare_outputs(step)
            if self.spec["schedule"].get("unit") == "epoch":
                self.scheduler.step()

    def step(self, step, batch):
        lr = self.optimizer.param_groups[0]["lr"]
        self.optimizer.zero_grad()
        with self.autocast():
            loss, terms, weight = self.loss.training(self.model, batch)
        loss.backward()
        total = self.divide_by_weight(weight) if self.loss.by_tokens else None
        self.updates.update(name for name, p in self.model.module.named_parameters() if p.grad is not None)
        if self.spec["train"]["clip_grad_norm"]:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.spec["train"]["clip_grad_norm"])
        self.optimizer.step()
        if self.average:
            self.average.update_parameters(self.model.module)
        if self.spec["schedule"].get("unit") == "step":
            self.scheduler.step()
        self.compare_folded(step, loss, terms, weight, total)
        if self.loss.by_tokens:
            loss = loss / weight if weight else torch.zeros(())
        self.compare_step(step, loss.item(), lr)
        if self.spec["schedule"]["name"] == "plateau" and step in self.runs[0].evaluations:
            self.scheduler.step(self.evaluate()[self.spec["schedule"]["metric"]])

    def divide_by_weight(self, weight):
        """Gradients are sums over all ranks' targets: they become means. Returns the number of targets."""
        total = sum(self.gathered(weight.double())).float() + (self.mistake == "weight")
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(total.reciprocal())
        return total

    def gathered(self, value):
        """A number of each rank."""
        parts = [torch.empty_like(value) for _ in range(self.ests)]
        dist.all_gather(parts, value.detach(), group=self.group)
        return parts

    def compare_folded(self, step, loss, terms, weight, total):
        """The loss and its terms over all ranks."""
        losses, weights = self.gathered(loss.float()), self.gathered(weight.float()) if self.loss.by_tokens else None

        def mean(values, weights):
            if not self.loss.by_tokens:
                return tree_sum([value * (1 / self.ests) for value in values])
            return tree_sum([v * w for v, w in zip(values, weights)]) * total.reciprocal()
        folded = {name: mean(self.gathered(term.float()), weights) for name, term in zip(self.loss.terms, terms)}
        loss = mean(losses, [1] * self.ests)
        for run in self.runs if self.rank == 0 else ():
            recorded = run.steps[step]
            self.compare(run, "loss", step, numpy.uint32(int(recorded["loss_bits"], 16)), loss.numpy().view(numpy.uint32))
            self.differences.compare_names(f"{run.directory.name}: terms", recorded.get("terms", {}), folded)
            for name, value in folded.items():
                self.compare(run, f"term {name}", step, numpy.float32(recorded["terms"][name]), value.numpy())

    def autocast(self):
        enabled = self.spec["job"]["precision"] == "bf16" and self.mistake != "precision"
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)

    def compare_step(self, step, loss, lr):
        state = evaluation = None
        for run in self.runs:
            bits = numpy.uint32(int(run.steps[step]["est_loss_bits"][self.rank], 16)).view(numpy.float32)
            self.compare(run, f"loss of EST {self.rank}", step, bits, numpy.float32(loss))
            if self.rank == 0:
                self.compare(run, "lr", step, float(run.steps[step]["lr"]), float(lr))  # JSON writes 0.0 as 0
            if self.rank == 0 and step in run.evaluations:
                evaluation = evaluation or self.evaluate()
                recorded = dict(run.evaluations[step])
                recorded |= recorded.pop("metrics", {})
                for key, value in evaluation.items():
                    ours = float("nan") if recorded[key] is None else type(value)(recorded[key])  # JSON writes 2.0 as 2
                    self.compare(run, f"evaluation's {key}", step, ours, value)
            if step in run.checkpoints:
                state = state or self.state()
                self.compare_state(run, step, state, loss)

    def compare_outputs(self, step):
        """What `estrain evaluate --write` has written of the last state, for each sample."""
        written = [run for run in self.runs if self.rank == 0 and (run.directory / OUTPUTS).exists()]
        if written:
            self.evaluate()
        for run in written:
            with h5py.File(run.directory / OUTPUTS) as file:
                for i, name in enumerate(("output", "labels", "losses")):
                    rows = numpy.concatenate([batch[i].numpy() for batch in self.rows])
                    self.compare(run, f"{name} of each sample", step, file[name][()], rows)

    def compare(self, run, what, step, ours, theirs):
        self.differences.compare(f"{run.directory.name}: {what}", step, ours, theirs)

    def compare_state(self, run, step, state, loss):
        arrays = run.arrays(step)
        if self.rank == 0:
            shared = {path for path in arrays if not path.startswith("ests/")}
            self.differences.compare_names(f"{run.directory.name}: names", shared, state["shared"])
            for path in sorted(shared & state["shared"].keys()):
                self.compare(run, path, step, arrays[path], state["shared"][path])
        est = {f"ests/{self.rank}/generator": state["generator"], f"ests/{self.rank}/loss": numpy.float32(loss)}
        if self.spec["model"]["name"] == "python":
            est[f"ests/{self.rank}/python"] = state["python"]
        for path, value in est.items():
            self.compare(run, path, step, arrays[path], value)

    def state(self):
        """The state as a checkpoint has it. A parameter's number of updates is also kept where torch.optim needs none."""
        module = self.model.module
        shared = {f"model/{name}": value.detach().numpy()
                  for name, value in module.named_parameters(remove_duplicate=False)}
        # A buffer that is in no state_dict is a part of the state where forward changes it.
        kept = module.state_dict().keys() | {"seen"}
        shared |= {f"buffers/{name}": (value.byte() if value.dtype == torch.bool else value).numpy()
                   for name, value in module.named_buffers() if name in kept}
        for name, parameter in module.named_parameters():
            slots = {"step": self.updates[name]} | self.optimizer.state[parameter]
            if not self.updates[name]:
                slots |= {slot: torch.zeros_like(parameter) for slot in self.slots()}
            shared |= {f"optimizer/{name}/{slot}": numpy.asarray(value, numpy.int64 if slot == "step" else None)
                       for slot, value in slots.items() if value is not None and slot != FOLLOWS_FROM_STEP}
        if self.average:
            shared |= {f"ema/{name}": value.detach().numpy() for name, value in self.average.module.named_parameters()}
        if self.spec["schedule"]["name"] == "plateau":
            s = self.scheduler
            shared["schedule/plateau"] = numpy.array([s.best, s.num_bad_epochs, s.cooldown_counter,
                                                      *(group["lr"] for group in self.optimizer.param_groups)])
        return {"shared": shared, "generator": torch.get_rng_state().numpy().copy(), "python": self.python_streams()}

    @staticmethod
    def python_streams():
        """Python's `random` and numpy's: 32-bit words, whether a normal number is left over, and that number."""
        _, words, gauss = random.getstate()
        _, keys, position, has_gauss, numpy_gauss = numpy.random.get_state()
        packed = struct.pack("<625Iid", *words, gauss is not None, gauss or 0.0)
        packed += struct.pack("<Iiid", 1, position, has_gauss, numpy_gauss) + keys.astype("<u4").tobytes()
        return numpy.frombuffer(packed + bytes(-len(packed) % 8), numpy.uint8)

    def slots(self):
        """Names of what the optimizer keeps of a parameter."""
        return {slot for state in self.optimizer.state.values() for slot, value in state.items()
                if slot not in ("step", FOLLOWS_FROM_STEP) and value is not None}

    def evaluate(self):
        averaged = self.average and self.spec["ema"]["evaluate"]
        module, generator = self.average.module if averaged else self.model.module, torch.get_rng_state()
        module.eval()
        total, correct, predictions, weight = 0.0, 0, 0, 0.0
        metrics, self.rows = Metrics(self.spec["train"]), []
        with torch.no_grad():
            for batch in DataLoader(self.test, self.spec["train"]["eval_batch"], generator=torch.Generator(),
                                    collate_fn=getattr(self.test, "collate", None)):
                if self.loss.is_output:
                    samples = len(next(iter(batch.values())) if isinstance(batch, dict) else batch[0])
                    with self.autocast():
                        given = self.loss(module, batch)
                    value, *more = given if isinstance(given, tuple) else (given,)
                    for _ in range(samples):  # each counts what its mini-batch gives
                        total += value.item()
                    metrics.add_outputs(more, samples)
                    continue
                with self.autocast():
                    logits, target = self.loss.scores(module, batch)
                    losses = F.cross_entropy(logits, target, self.loss.weights, reduction="none")
                self.rows.append((logits, target, losses))
                samples = len(next(iter(batch.values())) if isinstance(batch, dict) else batch[0])
                flat = target.reshape(-1)
                # Of a ragged target, mini-batches have lengths of their own: their means cannot be added.
                is_ragged = self.spec["model"].get("loss_target") in getattr(self.test, "ragged", [])
                of_samples = torch.sum if is_ragged else torch.mean
                for value in of_samples(losses.view(samples, -1), 1).tolist():
                    total += value
                if self.loss.weights is not None:
                    counted = self.loss.weights[flat.clamp_min(0)] * (flat != -100)
                    for value in of_samples(counted.view(samples, -1), 1).tolist():
                        weight += value
                correct += int((logits.argmax(1) == target).sum())
                metrics.add_scores(logits.movedim(1, -1).reshape(-1, logits.shape[1]), flat)
                predictions += int((flat != -100).sum())
                each = 1 if is_ragged else flat.numel() // samples
        module.train()
        assert torch.equal(generator, torch.get_rng_state())
        if self.loss.weights is None:
            weight = predictions / each if predictions else len(self.test)
        result = {"loss": total / weight, "predictions": predictions}
        result |= metrics.result(len(self.test))
        if self.spec["data"]["format"] in ("text", "tokens") and predictions:
            result["perplexity"] = math.exp(result["loss"])
        return result | {"accuracy": correct / predictions} if predictions else result


def gather_report(replay, group):
    own = [replay.differences.compared, list(replay.differences.found.values())]
    parts = [None] * group.size()
    dist.all_gather_object(parts, own, group=group)
    return {"ranks": group.size(), "steps": len(replay.runs[0].steps), "compared": sum(part[0] for part in parts),
            "differences": [text for part in parts for text in part[1]]}


def run_rank(plan, path):
    make_group = functools.cache(lambda ranks: dist.new_group(range(ranks)))
    report = []
    for entry in plan:
        runs = [Run(directory) for directory in entry["runs"]]
        ests = runs[0].spec["job"]["ests"]
        group = make_group(ests)
        if dist.get_rank() < ests:
            replay = Replay(runs, entry["mistake"], group)
            replay.run()
            report.append(gather_report(replay, group))
            del replay
    if dist.get_rank() == 0:
        pathlib.Path(path).write_text(json.dumps(report))
    dist.barrier()


def start_rank(rank, ranks, store, plan, path):
    """A copy of this process, which has no thread beside this one."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
        run_rank(plan, path)
        dist.destroy_process_group()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    ranks = max(Run(entry["runs"][0]).spec["job"]["ests"] for entry in plan)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    assert len(os.listdir("/proc/self/task")) == 1, "a copy of a process with threads may wait for one of them for ever"
    with tempfile.TemporaryDirectory() as folder:
        left = {start_rank(rank, ranks, f"{folder}/store", plan, sys.argv[2]) for rank in range(ranks)}
        while left:
            pid, status = os.wait()
            left.discard(pid)
            if status:  # the others would wait for it
                for other in left:
                    os.kill(other, signal.SIGKILL)
                sys.exit(f"a rank ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
