#!/usr/bin/env python3
"""Compares every model of estrain with its Python twin, bit for bit: initial weights, losses, gradients, batch-norm
statistics and the generator's state after two training passes, and evaluation.

usage: model_bits.py MODEL_DUMP [--only PATTERN...]      (in a venv with torch, torchvision, numpy, h5py)
       model_bits.py --golden

MODEL_DUMP is the program built from scripts/peers/model_dump.cpp. Exit code 1 where a bit differs. --golden prints the
table of tests/core/engine/model/golden_test.cpp: digests of the names and of the initial weights that Python gives.
"""

import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F

import twins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import load_checkpoint  # noqa: E402

DTYPES = {"Float": numpy.float32, "Long": numpy.int64, "Byte": numpy.uint8}


def case(name, shape, batch=4, classes=10, seed=7, label_smoothing=0.0, precision="fp32", **model):
    return dict(model=dict(name=name, **model), shape=shape, batch=batch, classes=classes, seed=seed,
                label_smoothing=label_smoothing, precision=precision)


CASES = {
    "mlp": case("mlp", [1, 28, 28], batch=32),
    "mlp-deep": case("mlp", [20], hidden=[33, 17], dropout=0.3, classes=3, label_smoothing=0.1),
    "mlp-linear": case("mlp", [3, 8, 8], hidden=[]),
    "lenet": case("lenet", [1, 28, 28], batch=32),
    "lenet-one": case("lenet", [1, 28, 28], batch=1),
    "lenet-colour": case("lenet", [3, 32, 40], classes=100, label_smoothing=0.2),
    "resnet18": case("resnet18", [3, 32, 32], batch=8),
    "resnet18-grey": case("resnet18", [1, 28, 28], seed=123456789012),
    "resnet34": case("resnet34", [3, 64, 48], batch=2, classes=7),
    "resnet50": case("resnet50", [3, 40, 40], batch=2, classes=100, label_smoothing=0.1),
    "vgg11": case("vgg11", [3, 32, 32]),
    "vgg11-plain": case("vgg11", [1, 64, 32], dropout=0.0, classes=3),
    "vgg19": case("vgg19", [3, 48, 48], batch=2),
    "gpt": case("gpt", [], classes=256),
    "gpt-untied": case("gpt", [], classes=100, tied=False, layers=3, heads=4, width=48, context=33),
    "gpt-no-dropout": case("gpt", [], classes=256, dropout=0.0, label_smoothing=0.1, heads=1, width=128, context=128),
    "gpt-odd": case("gpt", [], classes=61, heads=3, width=39, context=17, layers=1, dropout=0.5, batch=3),
    "mlp-bf16": case("mlp", [1, 28, 28], batch=32, dropout=0.2, precision="bf16"),
    "lenet-bf16": case("lenet", [1, 28, 28], batch=32, precision="bf16"),
    "lenet-bf16-one": case("lenet", [3, 33, 40], batch=1, label_smoothing=0.2, precision="bf16"),
    "resnet18-bf16": case("resnet18", [3, 32, 32], batch=8, precision="bf16"),
    "resnet34-bf16": case("resnet34", [3, 64, 48], batch=2, classes=7, precision="bf16"),
    "resnet50-bf16": case("resnet50", [3, 40, 40], batch=2, classes=100, label_smoothing=0.1, precision="bf16"),
    "vgg11-bf16": case("vgg11", [1, 64, 32], batch=2, classes=3, precision="bf16"),
    "vgg19-bf16": case("vgg19", [3, 48, 48], batch=2, precision="bf16"),
    "gpt-bf16": case("gpt", [], classes=256, precision="bf16"),
    "gpt-bf16-untied": case("gpt", [], classes=100, tied=False, layers=3, heads=4, width=48, context=33,
                            label_smoothing=0.1, precision="bf16"),
}


def twin(case):
    return twins.twin(shape=case["shape"], classes=case["classes"], **case["model"])


def read_dump(path):
    tensors = {}
    with open(path, "rb") as file:
        while line := file.readline():
            header = json.loads(line)
            values = numpy.frombuffer(file.read(header["bytes"]), DTYPES[header["dtype"]])
            tensors[header["name"]] = torch.from_numpy(values.reshape(header["shape"]).copy())
    return tensors


def dump_of(program, case):
    with tempfile.TemporaryDirectory() as folder:
        case_file, out = pathlib.Path(folder, "case.json"), pathlib.Path(folder, "out")
        case_file.write_text(json.dumps(case))
        subprocess.run([program, case_file, out], check=True)
        return read_dump(out)


def in_precision(name):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=name == "bf16")


def evaluation(model, batch, target, precision):
    """Losses and correct counts per sample."""
    model.eval()
    with torch.no_grad(), in_precision(precision):
        logits = model(batch)
        logits = logits.view(-1, logits.shape[-1])
        losses = F.cross_entropy(logits, target.view(-1), reduction="none").view(len(target), -1).mean(1)
    return losses, (logits.argmax(1) == target.view(-1)).view(len(target), -1).sum(1)


def expected(case):
    """The results of Python for the case, under the names and in the order of model_dump."""
    torch.manual_seed(case["seed"])
    model = twin(case)
    result = {f"parameter/{name}": value.detach().clone() for name, value in model.named_parameters()}
    result |= {f"buffer/{name}": value.clone() for name, value in model.named_buffers()}
    first_names = {}
    for name, value in model.named_parameters(remove_duplicate=False):
        if value in first_names:
            result[f"alias/{name}={first_names[value]}"] = torch.zeros(0)
        first_names.setdefault(value, name)
    torch.manual_seed(case["seed"] + 1)
    for n in "12":
        result[f"input{n}"], result[f"target{n}"] = batch, target = draw_batch(case)
        model.zero_grad(set_to_none=True)
        with in_precision(case["precision"]):
            logits = model(batch)
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1),
                                   label_smoothing=case["label_smoothing"])
        loss.backward()
        result[f"loss{n}"] = loss.detach()
        result |= {f"gradient{n}/{name}": value.grad for name, value in model.named_parameters()}
        result |= {f"buffer{n}/{name}": value.clone() for name, value in model.named_buffers()}
        result[f"generator{n}"] = torch.get_rng_state()
    batch, target = draw_batch(case)
    result["input_evaluation"], result["target_evaluation"] = batch, target
    result["evaluation/losses"], result["evaluation/correct"] = evaluation(model, batch, target,
                                                                                 case["precision"])
    check_round_trip(case, model)
    return result


def draw_batch(case):
    n, classes = case["batch"], case["classes"]
    if case["shape"]:
        return torch.randn([n, *case["shape"]]), torch.randint(classes, (n,))
    context = case["model"].get("context", 64)
    return torch.randint(classes, (n, context)), torch.randint(classes, (n, context))


def check_round_trip(case, model):
    """examples/load_checkpoint.py gives back what it saved, names and order of parameters included."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "weights.h5")
        load_checkpoint.save(model, path)
        other = twin(case)
        load_checkpoint.load(other, path)
        for name, value in model.state_dict().items():
            assert same_bits(value, other.state_dict()[name]), f"load_checkpoint changed {name}"


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def differences(dump, want):
    if list(dump) != list(want):
        missing, unknown = set(want) - set(dump), set(dump) - set(want)
        yield f"names differ: missing {sorted(missing)}, unknown {sorted(unknown)}, or in another order"
    for name in want:
        if name in dump and not same_bits(dump[name], want[name]):
            yield name


GOLDEN = {
    "mlp": case("mlp", [1, 28, 28]),
    "lenet": case("lenet", [1, 28, 28]),
    "resnet18": case("resnet18", [3, 32, 32]),
    "resnet34": case("resnet34", [3, 32, 32]),
    "resnet50": case("resnet50", [3, 32, 32]),
    "vgg11": case("vgg11", [3, 32, 32]),
    "vgg19": case("vgg19", [3, 32, 32]),
    "gpt": case("gpt", [], classes=256),
}


def name_digest(model):
    """FNV-1a over the lines "name [sizes]" of all parameters, then buffers."""
    digest = 0xCBF29CE484222325
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        for byte in f"{name} {list(value.shape)}\n".encode():
            digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return digest


def value_digest(model):
    """Sum over the 32-bit words of all parameters, one after another, of word[i] * (2 * i + 1), modulo 2^64."""
    digest, first = numpy.uint64(0), 0
    for parameter in model.parameters():
        words = parameter.detach().numpy().ravel().view(numpy.uint32).astype(numpy.uint64)
        weights = numpy.arange(first, first + len(words), dtype=numpy.uint64) * numpy.uint64(2) + numpy.uint64(1)
        digest, first = digest + (words * weights).sum(dtype=numpy.uint64), first + len(words)
    return int(digest)


def print_golden():
    numpy.seterr(over="ignore")
    for name, case in GOLDEN.items():
        torch.manual_seed(case["seed"])
        model = twin(case)
        print(f'{{"{name}", 0x{name_digest(model):016x}, 0x{value_digest(model):016x}}},')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="MODEL_DUMP", nargs="?")
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN")
    arguments = parser.parse_args()
    if arguments.golden:
        return print_golden()
    if not arguments.program:
        parser.error("MODEL_DUMP is missing")
    torch.set_num_threads(1)
    names = [name for name in CASES if any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.only)]
    num_different = 0
    for name in names:
        dump = dump_of(arguments.program, CASES[name])
        found = list(differences(dump, expected(CASES[name])))
        num_different += bool(found)
        print(f"{name:16} {len(dump):5} tensors: {'equal' if not found else 'DIFFERENT: ' + ', '.join(found[:5])}",
              flush=True)
    print(f"{len(names) - num_different} of {len(names)} cases equal")
    sys.exit(1 if num_different or not names else 0)


if __name__ == "__main__":
    main()
