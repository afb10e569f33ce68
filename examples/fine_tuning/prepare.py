#!/usr/bin/env python3
"""Makes all that fine-tuning starts from (README.md): prepare.py FOLDER [--from NAME_OR_FOLDER]."""

import argparse
import importlib.util
import pathlib
import sys

import torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(EXAMPLES / "workloads"))
import small_data  # noqa: E402

JOB = """[job]
name = "fine-tuning"
ests = 4

[model]
name = "program"
file = "net.pt2"
eval_file = "net-eval.pt2"
init = "pretrained/model.safetensors"

[data]
format = "hdf5"
path = "data/questions.h5"
test_path = "data/questions-test.h5"
batch = 8

[optimizer]
name = "adamw"
lr = 5e-4
groups = [{ match = ["*.bias", "*LayerNorm*"], weight_decay = 0.0 }]

[schedule]
name = "linear"
unit = "step"
period = 40
start_factor = 1.0
end_factor = 0.0

[train]
steps = 40
clip_grad_norm = 1.0
eval_every = 20
eval_batch = 16
"""

# The programs bring the shapes, with weights drawn anew; the job's model.init brings those of the folder.
NET = """import importlib.util
import pathlib

from transformers import BertConfig

specification = importlib.util.spec_from_file_location("bert", {file!r})
bert = importlib.util.module_from_spec(specification)
specification.loader.exec_module(bert)


def build():
    config = BertConfig.from_pretrained(pathlib.Path(__file__).parent / "tuned")
    return bert.QuestionAnswering(config), bert.example(config.vocab_size, min(384, config.max_position_embeddings))
"""


def workload(name):
    specification = importlib.util.spec_from_file_location("model", EXAMPLES / "workloads" / name / "model.py")
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--from", dest="source", metavar="NAME_OR_FOLDER", help="what from_pretrained knows")
    arguments = parser.parse_args()
    folder, bert = arguments.folder, workload("bert")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    if arguments.source:
        module = bert.QuestionAnswering.from_pretrained(arguments.source)
    else:
        module, _ = bert.small()
    module.save_pretrained(folder / "pretrained")
    module.config.save_pretrained(folder / "tuned")
    (folder / "net.py").write_text(NET.format(file=str(EXAMPLES / "workloads/bert/model.py")))
    small_data.write(folder / "data", ["questions"])
    (folder / "job.toml").write_text(JOB)


if __name__ == "__main__":
    main()
