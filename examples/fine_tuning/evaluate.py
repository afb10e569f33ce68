#!/usr/bin/env python3
"""Evaluates what was fine-tuned, with transformers alone: evaluate.py FOLDER. Prints the loss over the test data and that
of estrain's last evaluation; exit code 1 where they are not equal bit for bit."""

import json
import pathlib
import sys
import tomllib

import h5py
import torch
from transformers import BertForQuestionAnswering

NAMES = {"ids": "input_ids", "mask": "attention_mask", "types": "token_type_ids", "start": "start_positions",
         "end": "end_positions"}


def mean_loss(model, path, batch):
    """Each mini-batch's loss counts for each of its samples, in their order, as core/engine/model/exported/exported.h has it."""
    with h5py.File(path) as file:
        arrays = {theirs: torch.from_numpy(file[ours][()]).long() for ours, theirs in NAMES.items()}
    samples, total = len(arrays["input_ids"]), 0.0
    with torch.no_grad():
        for first in range(0, samples, batch):
            part = {name: array[first:first + batch] for name, array in arrays.items()}
            loss = model(**part).loss.item()
            for _ in range(len(part["input_ids"])):
                total += loss
    return total / samples


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    spec = tomllib.loads((folder / "run/job.toml").read_text())
    model = BertForQuestionAnswering.from_pretrained(folder / "tuned").eval()
    ours = mean_loss(model, spec["data"]["test_path"], spec["train"]["eval_batch"])
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").open()]
    theirs = [line["eval"]["loss"] for line in lines if "eval" in line]
    print(f"test loss: {ours!r} by transformers, {theirs[-1]!r} by estrain after {len(lines) - len(theirs)} steps, "
          f"{theirs[0]!r} before that")
    sys.exit(0 if ours == theirs[-1] else 1)


if __name__ == "__main__":
    main()
