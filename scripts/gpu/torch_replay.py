"""Repeats runs of estrain with one EST in Python's torch, with deterministic algorithms, and compares every bit:

    python torch_replay.py PLAN.json REPORT.jsonl

PLAN: {"device", "hdf5": paths of libraries, the last one HDF5's, "runs": [RUN_DIR, ...], "variants": [...],
"benchmark": whether cuDNN chooses by measuring, which holds for a process: choices are remembered}; of runs with a
checkpoint for every step. Each is repeated in these of the VARIANTS of torch's own options: as a user gets it, and with
forms that could be estrain's, some of them only where that differs. REPORT: a line for each run and variant as it is
done,

    {"run", "variant", "compared": steps, "equal": whether all bits are, "step": the first that differs,
     "loss": [estrain's, torch's] there, "loss_differs", "gradients_differ": as the optimizer's state shows,
     "groups": {"buffers": how many differ, "optimizer", "model"},
     "tensors": [{"name", "differing", "elements", "ulp": the largest distance in units of the last place}]}

or {"run", "variant", "error"}. How to read the first step: buffers differ: the forward pass; momentum_buffer or exp_avg
differ, buffers and loss do not: the backward pass; neither of these, but exp_avg_sq or model/: the form of the
optimizer's update.
"""

import json
import os
import sys
import traceback
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python before 3.11: pip has it
    from pip._vendor import tomli as tomllib

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import run_data  # noqa: E402
from hdf5_file import Hdf5File  # noqa: E402
from training import epochs, make_model, make_optimizer  # noqa: E402

DEFAULT = "torch's default"
VARIANTS = {DEFAULT: {}, "foreach=False": {"foreach": False}, "fused=True": {"fused": True}}  # options of torch.optim
WHERE_DIFFERENT = ("fused=True",)  # tried only where the default differs
MOST_TENSORS = 12  # of a report


def ordered(values):
    """Whole numbers in the order of floats, neighbours 1 apart."""
    bits = values.contiguous().view(torch.int32).to(torch.int64)
    return torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def difference(name, ours, theirs):
    """None where all bits agree. ours: estrain's values, flat."""
    theirs = theirs.detach().cpu().reshape(-1)
    if ours.dtype != theirs.dtype or ours.numel() != theirs.numel():
        return {"name": name, "shape": f"{ours.dtype} {ours.numel()}, in torch {theirs.dtype} {theirs.numel()}"}
    is_float = ours.dtype == torch.float32
    bits, their_bits = (x.contiguous().view(torch.int32) if is_float else x for x in (ours, theirs))
    if torch.equal(bits, their_bits):
        return None
    same = bits == their_bits
    a, b = (ordered(x) if is_float else x.to(torch.int64) for x in (ours, theirs))
    return {"name": name, "differing": int((~same).sum()), "elements": ours.numel(), "ulp": int((a - b).abs().max())}


def count_groups(found):
    return {group: sum(one["name"].startswith(group) for one in found) for group in ("buffers", "optimizer", "model")}


def shown(found):
    """Some of each group, in the order in which a step makes them."""
    each = MOST_TENSORS // 3
    return [one for group in count_groups(found) for one in [x for x in found if x["name"].startswith(group)][:each]]


SUMS_OF_GRADIENTS = ("/exp_avg", "/momentum_buffer")


class Replay:
    def __init__(self, run, device, hdf5, variant):
        self.run, self.device, self.hdf5 = Path(run), torch.device(device), hdf5
        self.spec = tomllib.loads((self.run / "job.toml").read_text())
        torch.set_num_threads(self.spec["job"]["threads"])
        self.data, _ = run_data.open_data(self.spec)
        torch.manual_seed(self.spec["job"]["seed"])
        model = make_model(self.spec, self.data)
        with self.checkpoint(0) as file:
            self.initial = self.compare_model(model, file)
        self.model = model.to(self.device)
        self.optimizer = make_optimizer(self.spec, self.model, **VARIANTS[variant])
        torch.manual_seed(self.spec["job"]["seed"])  # of EST 0: its dropout

    def checkpoint(self, step):
        return Hdf5File(self.hdf5, self.run / f"checkpoints/step-{step:09d}.h5")

    def compare_model(self, model, file):
        parts = [(f"buffers/{name}", value) for name, value in model.named_buffers()]
        parts += [(f"model/{name}", value) for name, value in model.named_parameters()]
        return [found for name, value in parts if (found := difference(name, file.read(name), value))]

    def compare_optimizer(self, file):
        found = []
        for name, parameter in self.model.named_parameters():
            for slot, value in self.optimizer.state[parameter].items():
                path = f"optimizer/{name}/{slot}"
                if slot != "step" and value is not None:
                    found.append(difference(path, file.read(path), value))
        return [one for one in found if one]

    def losses(self):
        """Bits of the loss, by step."""
        lines = (json.loads(line) for line in (self.run / "metrics.jsonl").open())
        return {line["step"]: int(line["est_loss_bits"][0], 16) for line in lines if "est_loss_bits" in line}

    def batches(self):
        for loader in epochs(self.spec, self.data, 0, self.spec["job"]["seed"]):
            yield from loader

    def step(self, batch, target):
        logits = self.model(batch.to(self.device))
        self.optimizer.zero_grad()
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), target.to(self.device).view(-1))
        loss.backward()
        self.optimizer.step()
        return loss.detach().cpu()

    def compare(self):
        if self.initial:
            return {"compared": 0, "equal": False, "step": 0, "tensors": self.initial[:MOST_TENSORS]}
        losses = self.losses()
        for step, (batch, target) in zip(sorted(losses), self.batches()):
            loss = self.step(batch, target)
            bits = int(loss.view(torch.int32)) & 0xFFFFFFFF
            with self.checkpoint(step) as file:
                found = self.compare_model(self.model, file) + self.compare_optimizer(file)
            if bits != losses[step] or found:
                ours = torch.tensor(losses[step], dtype=torch.int64).to(torch.int32).view(torch.float32)
                return {
                    "compared": step, "equal": False, "step": step, "loss": [ours.item(), loss.item()],
                    "loss_differs": bits != losses[step],
                    "gradients_differ": any(one["name"].endswith(SUMS_OF_GRADIENTS) for one in found), "groups": count_groups(found), "tensors": shown(found),
                }  # fmt: skip
        return {"compared": len(losses), "equal": True}


def main():
    plan = json.loads(Path(sys.argv[1]).read_text())
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = plan["benchmark"]
    with open(sys.argv[2], "a") as report:
        for run in plan["runs"]:
            default_equal = False
            for variant in plan["variants"]:
                if default_equal and variant in WHERE_DIFFERENT:
                    continue
                try:
                    found = Replay(run, plan["device"], plan["hdf5"], variant).compare()
                except Exception as error:  # noqa: BLE001: the next one is compared all the same
                    traceback.print_exc()
                    found = {"error": f"{type(error).__name__}: {error}"}
                default_equal |= variant == DEFAULT and found.get("equal", False)
                report.write(json.dumps({"run": run, "variant": variant} | found) + "\n")
                report.flush()


main()
