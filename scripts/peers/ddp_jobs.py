"""The jobs of ddp_bits.py and their made-up data: small, but together they use all that takes part in the bits."""

import itertools
import json
import pathlib
import struct
import sys
from typing import NamedTuple

import h5py
import numpy
import torch

import programs
import twins

import load_checkpoint  # examples/, which twins puts on the path


class Job(NamedTuple):
    devices: tuple  # device sets; each is a run
    spec: str       # @ stands for the folder with the data and all runs
    resize: str = ""  # the devices that the last run moves to, before it loses a worker; its samples take a while until then


HERE = pathlib.Path(__file__).resolve().parent
PYTHON = f'python = "{sys.executable}"'
PICTURES = f'format = "python", file = "{HERE}/python_data.py:train", test_file = "{HERE}/python_data.py:evaluation", ' \
           f'readers = 2, {PYTHON}'
TEXTS = f'format = "python", file = "{HERE}/python_data.py:texts", test_file = "{HERE}/python_data.py:test_texts", {PYTHON}'
SEED = "job.seed = 5\n"  # of all jobs
GREY = 'format = "idx", images = "@/grey.images", labels = "@/grey.labels", ' \
       'test_images = "@/grey-test.images", test_labels = "@/grey-test.labels"'
COLOUR = 'format = "hdf5", path = "@/colour.h5", test_path = "@/colour-test.h5"'
FLOAT = 'format = "hdf5", path = "@/float.h5"'
ENCODER = 'format = "hdf5", path = "@/encoder.h5", test_path = "@/encoder-test.h5"'
MASKED = 'format = "hdf5", path = "@/masked.h5", test_path = "@/masked-test.h5"'
RAGGED = 'format = "hdf5", path = "@/ragged.h5", test_path = "@/ragged-test.h5"'
UNUSUAL = 'format = "hdf5", path = "@/unusual.h5", test_path = "@/unusual-test.h5"'
TEXT = 'format = "text", path = "@/text"'
NO_DECAY = 'groups = [{ match = ["*.bias", "*norm*.weight"], weight_decay = 0.0 }, ' \
           '{ match = ["position.*"], lr = 3e-4 }]'

NO_BIAS_DECAY = 'groups = [{ match = ["*.bias"], weight_decay = 0.0, betas = [0.7, 0.9], eps = 1e-6 }]'
NO_GREY_DECAY = 'groups = [{ match = ["*.bias"], weight_decay = 0.0, momentum = 0.5 }]'
CLASS_WEIGHTS = "[0.5, 1.0, 2.0, 0.1, 1.5, 1.0, 0.7, 3.0, 1.0, 0.0]"

# 90 grey images, 26 coloured ones, 2591 bytes of text to train on.
JOBS = {
    # 45 samples an epoch and EST: the sixth batch is short
    "lenet-momentum": Job(("1", "2"), f"""
job.ests = 2
model.name = "lenet"
data = {{ {GREY}, batch = 8, mean = [0.3], std = [0.2] }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train = {{ epochs = 4, eval_batch = 7 }}
checkpoint.every = 7
"""),
    # goes on from what lenet-momentum has learnt, with 90 images on 4 ESTs: two are taken twice
    "lenet-adamw-4": Job(("1", "cpu=3,cpu=1"), f"""
job.ests = 4
model = {{ name = "lenet", init = "@/lenet-momentum.0/checkpoints/latest" }}
data = {{ {GREY}, batch = 6, drop_last = true }}
optimizer = {{ name = "adamw", lr = 0.003 }}
schedule = {{ name = "cosine", unit = "step", warmup = 5, period = 10, eta_min = 1e-4 }}
train = {{ epochs = 6, clip_grad_norm = 0.4 }}
"""),
    "lenet-transforms": Job(("2",), f"""
job.ests = 2
model.name = "lenet"
data = {{ {GREY}, batch = 4, channels = 3, resize = [20, 23], pad = 2, mean = [0.4, 0.5, 0.6], std = [0.1, 0.2, 0.3] }}
optimizer = {{ name = "sgd", lr = 0.02 }}
train.steps = 5
"""),
    "mlp-adam-3": Job(("1", "3"), f"""
job.ests = 3
model = {{ name = "mlp", hidden = [50, 30], dropout = 0.2 }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "adam", lr = 0.002, weight_decay = 0.01, betas = [0.8, 0.99] }}
schedule = {{ name = "step", period = 2, gamma = 0.7 }}
train = {{ epochs = 5, label_smoothing = 0.1 }}
"""),
    "mlp-dampening-5": Job(("1", "cpu=4,cpu=1"), f"""
job.ests = 5
model = {{ name = "mlp", hidden = [40] }}
data = {{ {GREY}, batch = 5, shuffle = false }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.8, dampening = 0.1, weight_decay = 1e-3 }}
schedule = {{ name = "linear", unit = "step", period = 6, start_factor = 1.0, end_factor = 0.1 }}
train.steps = 9
"""),
    "mlp-clip-8": Job(("1", "cpu=1,cpu=5,cpu=2"), f"""
job.ests = 8
model = {{ name = "mlp", hidden = [], classes = 12 }}
data = {{ {GREY}, batch = 4 }}
optimizer = {{ name = "sgd", lr = 0.1 }}
train = {{ steps = 8, clip_grad_norm = 0.2, label_smoothing = 0.05 }}
"""),
    "mlp-alone": Job(("1",), f"""
job.ests = 1
model = {{ name = "mlp", dropout = 0.5 }}
data = {{ {GREY}, batch = 16 }}
optimizer = {{ name = "adamw", weight_decay = 0.1 }}
train.steps = 8
"""),
    # weights and statistics from a file of load_checkpoint.save
    "resnet18-nesterov": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "resnet18", init = "@/resnet18.h5" }}
data = {{ {COLOUR}, batch = 2, mean = [0.5, 0.4, 0.3], std = [0.2, 0.25, 0.3] }}
optimizer = {{ name = "sgd", lr = 0.01, momentum = 0.9, weight_decay = 5e-4, nesterov = true }}
train = {{ steps = 4, eval_every = 4, eval_batch = 5 }}
"""),
    # of other precisions, in two files, the names begin otherwise; the head from the seed
    "lenet-published": Job(("1", "2"), f"""
job.ests = 2
data = {{ {GREY}, batch = 8 }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train.steps = 3
[model]
name = "lenet"
init = "@/published/model.safetensors.index.json"
init_prefix = ["module."]
init_match = ["*", "!fc3.*"]
"""),
    "vgg11": Job(("2",), f"""
job.ests = 2
model.name = "vgg11"
data = {{ {FLOAT}, batch = 2 }}
optimizer = {{ name = "sgd", lr = 0.01 }}
train.steps = 2
"""),
    "gpt": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "gpt", context = 24, width = 48, layers = 2, heads = 3, dropout = 0.1 }}
data = {{ {TEXT}, batch = 5 }}
optimizer = {{ name = "adamw", lr = 0.003, weight_decay = 0.1, betas = [0.9, 0.95], {NO_DECAY} }}
schedule = {{ name = "cosine", unit = "step", warmup = 3, period = 20 }}
train = {{ epochs = 2, clip_grad_norm = 1.0 }}
"""),
    "gpt-4": Job(("1", "cpu=1,cpu=3", "4"), f"""
job.ests = 4
model = {{ name = "gpt", context = 24, width = 32, layers = 1, heads = 2 }}
data = {{ {TEXT}, batch = 4 }}
optimizer = {{ name = "adamw", lr = 0.003, {NO_DECAY} }}
train = {{ epochs = 2, clip_grad_norm = 0.5, label_smoothing = 0.1 }}
"""),
    # torch.autocast
    "lenet-bf16": Job(("1",), f"""
job.ests = 1
job.precision = "bf16"
model.name = "lenet"
data = {{ {GREY}, batch = 8, mean = [0.3], std = [0.2] }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train = {{ epochs = 2, eval_batch = 7 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "resnet18-bf16": Job(("1",), f"""
job.ests = 1
job.precision = "bf16"
model = {{ name = "resnet18", init = "@/resnet18.h5" }}
data = {{ {COLOUR}, batch = 4, mean = [0.5, 0.4, 0.3], std = [0.2, 0.25, 0.3] }}
optimizer = {{ name = "sgd", lr = 0.01, momentum = 0.9, weight_decay = 5e-4 }}
train = {{ steps = 10, eval_every = 5, eval_batch = 5 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "gpt-bf16": Job(("1",), f"""
job.ests = 1
job.precision = "bf16"
model = {{ name = "gpt", context = 24, width = 48, layers = 2, heads = 3, dropout = 0.1 }}
data = {{ {TEXT}, batch = 5 }}
optimizer = {{ name = "adamw", lr = 0.003, weight_decay = 0.1, betas = [0.9, 0.95], {NO_DECAY} }}
train = {{ steps = 20, clip_grad_norm = 1.0, label_smoothing = 0.1 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "gpt-bf16-2": Job(("1", "2"), f"""
job.ests = 2
job.precision = "bf16"
model = {{ name = "gpt", context = 24, width = 48, layers = 2, heads = 3, dropout = 0.1 }}
data = {{ {TEXT}, batch = 5 }}
optimizer = {{ name = "adamw", lr = 0.003, {NO_DECAY} }}
train = {{ steps = 12 }}
"""),
    "mlp-rmsprop-plateau": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "mlp", hidden = [50, 30], dropout = 0.2 }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "rmsprop", lr = 0.002, momentum = 0.9, centered = true, weight_decay = 0.01, {NO_GREY_DECAY} }}
schedule = {{ name = "plateau", patience = 0, factor = 0.5, threshold = 0.2, cooldown = 1 }}
train = {{ epochs = 5, eval_every = 3, eval_batch = 7 }}
checkpoint.every = 6
"""),
    "mlp-rmsprop-multistep": Job(("2",), f"""
job.ests = 2
model = {{ name = "mlp", hidden = [50] }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "rmsprop", alpha = 0.9 }}
schedule = {{ name = "multistep", milestones = [2, 3], gamma = 0.5, warmup = 1 }}
train = {{ epochs = 5, clip_grad_norm = 0.5 }}
"""),
    "lenet-adagrad-cycle": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model.name = "lenet"
data = {{ {GREY}, batch = 6 }}
optimizer = {{ name = "adagrad", lr_decay = 0.01, initial_accumulator_value = 0.1 }}
schedule = {{ name = "onecycle", unit = "step", period = 20, three_phase = true }}
train.steps = 18
checkpoint.every = 5
"""),
    "mlp-adagrad-polynomial": Job(("2",), f"""
job.ests = 3
model = {{ name = "mlp", hidden = [50] }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "adagrad", weight_decay = 0.01 }}
schedule = {{ name = "polynomial", unit = "step", period = 15, power = 0.9, warmup = 4 }}
train.steps = 20
"""),
    "mlp-nadam-restarts": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "mlp", hidden = [50, 30], dropout = 0.2 }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "nadam", weight_decay = 0.01, decoupled_weight_decay = true, layer_decay = 0.7, {NO_BIAS_DECAY} }}
schedule = {{ name = "restarts", unit = "step", period = 3, period_factor = 2, warmup = 2 }}
train = {{ steps = 14, clip_grad_norm = 0.5 }}
checkpoint.every = 5
"""),
    "lenet-radam-wsd": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model.name = "lenet"
data = {{ {GREY}, batch = 6 }}
optimizer = {{ name = "radam", betas = [0.8, 0.95] }}
schedule = {{ name = "wsd", unit = "step", period = 6, decay = 8, decay_shape = "1-sqrt", warmup = 2 }}
train.steps = 18
checkpoint.every = 5
"""),
    "mlp-lion-table": Job(("2",), f"""
job.ests = 3
model = {{ name = "mlp", hidden = [50] }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "lion", lr = 1e-3, weight_decay = 0.1 }}
schedule = {{ name = "table", unit = "step", points = [0, 4, 12], factors = [1.0, 0.5, 0.1], between = "linear" }}
train.steps = 16
"""),
    "gpt-amsgrad-layers": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "gpt", context = 24, width = 48, layers = 2, heads = 3, dropout = 0.1 }}
data = {{ {TEXT}, batch = 5 }}
optimizer = {{ name = "adamw", lr = 0.003, amsgrad = true, layer_decay = 0.8, {NO_DECAY} }}
schedule = {{ name = "inverse_sqrt", unit = "step", period = 3, warmup = 3 }}
train.steps = 8
"""),
    "mlp-exponential": Job(("2",), f"""
job.ests = 2
model = {{ name = "mlp", hidden = [50] }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "adam", amsgrad = true }}
schedule = {{ name = "exponential", gamma = 0.8 }}
train.epochs = 4
"""),
    # optimizers that update whole parameters
    "lenet-adafactor": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model.name = "lenet"
data = {{ {GREY}, batch = 6 }}
optimizer = {{ name = "adafactor", weight_decay = 0.1 }}
train = {{ steps = 8, clip_grad_norm = 0.5 }}
checkpoint.every = 3
"""),
    "gpt-muon": Job(("1", "2"), f"""
job.ests = 2
job.threads = 2
model = {{ name = "gpt", context = 24, width = 48, layers = 2, heads = 3, dropout = 0.1 }}
data = {{ {TEXT}, batch = 5 }}
schedule = {{ name = "wsd", unit = "step", period = 4, decay = 4, warmup = 2 }}
train.steps = 8
[optimizer]
name = "muon"
lr = 0.02
layer_decay = 0.8
groups = [{{ match = ["*.bias", "*norm*", "position.*", "token.*"], name = "adamw", lr = 3e-3, betas = [0.9, 0.95] }}]
"""),
    "mlp-lamb": Job(("2",), f"""
job.ests = 3
model = {{ name = "mlp", hidden = [50] }}
data = {{ {GREY}, batch = 7 }}
optimizer = {{ name = "lamb", lr = 0.01, groups = [{{ match = ["*.bias"], weight_decay = 0.0 }}] }}
train.steps = 6
"""),
    "gpt-untied-threads": Job(("2",), f"""
job.ests = 2
job.threads = 2
model = {{ name = "gpt", context = 24, width = 64, layers = 1, heads = 2, tied = false }}
data = {{ {TEXT}, batch = 8 }}
optimizer = {{ name = "adam", lr = 0.001 }}
train.steps = 4
"""),
    # an average of the weights, which is evaluated; batch norm beside it
    "lenet-average": Job(("1", "2"), f"""
job.ests = 2
model.name = "lenet"
data = {{ {GREY}, batch = 8 }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
ema.decay = 0.9
train = {{ steps = 9, eval_every = 4, eval_batch = 7 }}
checkpoint.every = 1
"""),
    "program-average-4": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model = {{ name = "program", file = "@/resnet.pt2", eval_file = "@/resnet-eval.pt2", loss = "cross_entropy" }}
data = {{ {COLOUR}, batch = 2, mean = [0.5, 0.4, 0.3], std = [0.2, 0.25, 0.3] }}
optimizer = {{ name = "adamw", lr = 0.003 }}
ema.decay = 0.4
train = {{ steps = 6, eval_every = 2, eval_batch = 5, clip_grad_norm = 1.0, top_k = [2, 5], per_class = true }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    # users' own modules (programs.py), exported
    "program-resnet": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "program", file = "@/resnet.pt2", loss = "cross_entropy" }}
data = {{ {COLOUR}, batch = 4, mean = [0.5, 0.4, 0.3], std = [0.2, 0.25, 0.3] }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9, weight_decay = 5e-4, nesterov = true }}
train = {{ steps = 7, eval_every = 4, eval_batch = 5, label_smoothing = 0.1 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-encoder": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "program", file = "@/encoder.pt2", eval_file = "@/encoder-eval.pt2" }}
data = {{ {ENCODER}, batch = 4 }}
optimizer = {{ name = "adamw", lr = 0.003, weight_decay = 0.1 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 5, clip_grad_norm = 1.0 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-encoder-4": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model = {{ name = "program", file = "@/encoder.pt2" }}
data = {{ {ENCODER}, batch = 3 }}
optimizer = {{ name = "adam", lr = 0.003 }}
train = {{ steps = 8, eval_every = 3 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-decoder-4": Job(("1", "2"), f"""
job.ests = 4
model = {{ name = "program", file = "@/decoder.pt2", eval_file = "@/decoder-eval.pt2", context = 16 }}
data = {{ {TEXT}, batch = 3 }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ epochs = 1 }}
"""),
    "program-unusual": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "program", file = "@/unusual.pt2", eval_file = "@/unusual-eval.pt2" }}
data = {{ {UNUSUAL}, batch = 7 }}
optimizer = {{ name = "sgd", lr = 0.01, momentum = 0.9, weight_decay = 0.01 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 5 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-channels-last": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "program", file = "@/channels_last.pt2", eval_file = "@/channels_last-eval.pt2" }}
data = {{ {MASKED}, batch = 4 }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9, weight_decay = 5e-4 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 5, clip_grad_norm = 0.3 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-typed-bf16": Job(("1",), f"""
job.ests = 1
job.precision = "bf16"
model = {{ name = "program", file = "@/typed.pt2", eval_file = "@/typed-eval.pt2" }}
data = {{ {UNUSUAL}, batch = 7 }}
optimizer = {{ name = "sgd", lr = 0.05 }}
train = {{ steps = 9 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-recurrent-4": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model = {{ name = "program", file = "@/recurrent.pt2", eval_file = "@/recurrent-eval.pt2" }}
data = {{ {ENCODER}, batch = 3 }}
optimizer = {{ name = "adam", lr = 0.003 }}
train = {{ steps = 8, eval_every = 3, eval_batch = 5, clip_grad_norm = 1.0 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-metrics": Job(("2",), f"""
job.ests = 2
model = {{ name = "program", file = "@/scored.pt2", eval_file = "@/scored-eval.pt2" }}
data = {{ {UNUSUAL}, batch = 7 }}
optimizer = {{ name = "sgd", lr = 0.1 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 5, metrics = ["right", "largest"] }}
"""),
    # each target counts alike; their classes have weights
    "lenet-tokens-3": Job(("1", "cpu=1,cpu=2"), f"""
job.ests = 3
model.name = "lenet"
data = {{ {GREY}, batch = 8, mean = [0.3], std = [0.2] }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 7, weight = "tokens", loss_weights = {CLASS_WEIGHTS}, label_smoothing = 0.1, clip_grad_norm = 0.4 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "lenet-weights": Job(("1", "2"), f"""
job.ests = 2
model.name = "lenet"
data = {{ {GREY}, batch = 8 }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 7, loss_weights = {CLASS_WEIGHTS} }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-tagger-4": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model = {{ name = "program", file = "@/tagger.pt2", eval_file = "@/tagger-eval.pt2", loss = "cross_entropy", loss_target = "tags" }}
data = {{ {ENCODER}, batch = 2 }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ steps = 12, eval_every = 5, eval_batch = 5, weight = "tokens" }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-tagger-weights": Job(("2",), f"""
job.ests = 2
model = {{ name = "program", file = "@/tagger.pt2", loss = "cross_entropy", loss_target = "tags" }}
data = {{ {ENCODER}, batch = 12, drop_last = true }}
optimizer = {{ name = "sgd", lr = 0.05 }}
train = {{ steps = 7, eval_every = 5, eval_batch = 5, loss_weights = [0.5, 2.0, 1.0, 0.25, 3.0] }}
"""),
    # Texts of any length, 61 on 4 ESTs; the short mini-batch is left out.
    "program-ragged-4": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model = {{ name = "program", file = "@/ragged.pt2", eval_file = "@/ragged-eval.pt2", loss = "cross_entropy", loss_target = "tags" }}
data = {{ {RAGGED}, batch = 3, bucket = 2, pad_values = ["tags=-100", "tokens=39"], drop_last = true }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ steps = 12, eval_every = 5, eval_batch = 5, weight = "tokens" }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    # The same from a user's Dataset, of python_data.py; over a resize and a killed worker.
    "program-texts-4": Job(("1",), f"""
job.ests = 4
model = {{ name = "program", file = "@/ragged.pt2", eval_file = "@/ragged-eval.pt2", loss = "cross_entropy", loss_target = "tags" }}
data = {{ {TEXTS}, batch = 3, bucket = 2, pad_values = ["tags=-100", "tokens=39"], drop_last = true }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ steps = 40, eval_every = 15, eval_batch = 5, weight = "tokens" }}
""", resize="cpu=1,cpu=3"),
    "program-ragged-multiple": Job(("2",), f"""
job.ests = 2
model = {{ name = "program", file = "@/ragged.pt2", loss = "cross_entropy", loss_target = "tags" }}
data = {{ {RAGGED}, batch = 5, pad_multiple = 4, pad_values = ["tags=-100"] }}
optimizer = {{ name = "sgd", lr = 0.05 }}
train = {{ steps = 8, eval_every = 4, eval_batch = 4, loss_weights = [0.5, 2.0, 1.0, 0.25, 3.0] }}
"""),
    "program-termed-4": Job(("1", "cpu=3,cpu=1"), f"""
job.ests = 4
model = {{ name = "program", file = "@/termed.pt2" }}
data = {{ {ENCODER}, batch = 2 }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train = {{ steps = 12, eval_every = 5, eval_batch = 5, weight = "tokens", terms = ["ce", "size", "tokens"], clip_grad_norm = 1.0 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "python-termed-3": Job(("1", "cpu=1,cpu=2"), f"""
job.ests = 3
model = {{ name = "python", file = "{HERE}/programs.py:termed", {PYTHON} }}
data = {{ {ENCODER}, batch = 4 }}
optimizer = {{ name = "adam", lr = 0.003 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 5, terms = ["ce", "size"] }}
"""),
    # users' own modules in Python: of examples/python, python_models.py and programs.py
    "python-adaptive": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "python", file = "{programs.EXAMPLES}/python/net.py:build", {PYTHON} }}
data = {{ {GREY}, batch = 8, mean = [0.3], std = [0.2] }}
optimizer = {{ name = "adamw", lr = 0.003, weight_decay = 0.1 }}
train = {{ steps = 14, eval_every = 5, eval_batch = 7, metrics = ["right"], clip_grad_norm = 1.0 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "python-adaptive-4": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model = {{ name = "python", file = "{programs.EXAMPLES}/python/net.py:build", {PYTHON} }}
data = {{ {GREY}, batch = 6 }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train = {{ steps = 12, eval_every = 6, eval_batch = 7 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "python-encoder": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "python", file = "{HERE}/python_models.py:encoder", {PYTHON} }}
data = {{ {ENCODER}, batch = 4 }}
optimizer = {{ name = "adam", lr = 0.003 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 5 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "python-unusual": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "python", file = "{HERE}/programs.py:unusual", {PYTHON} }}
data = {{ {UNUSUAL}, batch = 7 }}
optimizer = {{ name = "sgd", lr = 0.01, momentum = 0.9, weight_decay = 0.01 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 5 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "python-bf16": Job(("1",), f"""
job.ests = 1
job.precision = "bf16"
model = {{ name = "python", file = "{HERE}/programs.py:decoder", context = 16, {PYTHON} }}
data = {{ {TEXT}, batch = 4 }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ steps = 6 }}
"""),
    "python-resnet": Job(("2",), f"""
job.ests = 2
model = {{ name = "python", file = "{HERE}/programs.py:resnet", loss = "cross_entropy", {PYTHON} }}
data = {{ {COLOUR}, batch = 4, mean = [0.5, 0.4, 0.3], std = [0.2, 0.25, 0.3] }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9, weight_decay = 5e-4, nesterov = true }}
train = {{ steps = 7, eval_every = 4, eval_batch = 5, label_smoothing = 0.1 }}
"""),
    # tokens in three files of llm.c
    "gpt-shards": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "gpt", context = 24, width = 48, layers = 1, heads = 3, classes = 256 }}
data = {{ format = "tokens", path = "@/web_train_*.bin", test_path = "@/web_val_*.bin", batch = 5 }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ epochs = 2 }}
"""),
    "mlp-weighted-4": Job(("1", "cpu=3,cpu=1"), f"""
job.ests = 4
model = {{ name = "mlp", hidden = [30] }}
data = {{ {GREY}, batch = 6, sampler = "weighted", sample_weights = "@/grey.npy" }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train = {{ epochs = 3 }}
"""),
    "mlp-balanced": Job(("2",), f"""
job.ests = 2
model = {{ name = "mlp", hidden = [30] }}
data = {{ {COLOUR}, batch = 5, drop_last = true, sampler = "balanced" }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ epochs = 4 }}
"""),
    # the last mini-batch of an epoch has a single class; some classes have fewer than 3 samples
    "mlp-per-class": Job(("1", "2"), f"""
job.ests = 2
model = {{ name = "mlp", hidden = [30] }}
data = {{ {COLOUR}, batch = 9, sampler = "per_class", per_class = 3 }}
optimizer = {{ name = "sgd", lr = 0.05 }}
train = {{ epochs = 4 }}
"""),
    # a user's Dataset, of python_data.py
    "python-data": Job(("1", "cpu=1,cpu=3"), f"""
job.ests = 4
model = {{ name = "lenet" }}
data = {{ {PICTURES}, batch = 5 }}
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9 }}
train = {{ steps = 9, eval_every = 4, eval_batch = 7 }}
checkpoint = {{ every = 1, keep = 100 }}
"""),
    "program-bf16": Job(("1",), f"""
job.ests = 1
job.precision = "bf16"
model = {{ name = "program", file = "@/decoder.pt2", eval_file = "@/decoder-eval.pt2", context = 16 }}
data = {{ {TEXT}, batch = 4 }}
optimizer = {{ name = "adamw", lr = 0.003 }}
train = {{ steps = 6 }}
"""),
}


def write_data(folder):
    """Everything that the specs' paths name, but for runs."""
    draw = numpy.random.default_rng(1)
    write_idx(folder, "grey", draw, 90)
    for name, count in ("train_000001", 700), ("train_000002", 301), ("train_000010", 400), ("val_000000", 333):
        tokens = numpy.random.default_rng(count).integers(0, 256, count, numpy.uint16).tobytes()
        (folder / f"web_{name}.bin").write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + tokens)
    numpy.save(folder / "grey.npy", numpy.random.default_rng(2).random(90) ** 3)
    write_idx(folder, "grey-test", draw, 30)
    for name, count in ("colour", 26), ("colour-test", 11):
        write_hdf5(folder / f"{name}.h5", draw.integers(0, 256, (count, 3, 32, 32), numpy.uint8), draw)
    write_hdf5(folder / "float.h5", draw.standard_normal((8, 1, 32, 32), numpy.float32), draw)
    words = [draw.bytes(int(draw.integers(1, 7))) for _ in range(40)]
    (folder / "text").write_bytes(b" ".join(words[draw.integers(0, 40)] for _ in range(2000))[:2879])
    write_arrays(folder, draw)
    write_ragged(folder, draw)
    programs.write(folder)
    torch.manual_seed(123)
    write_published(folder / "published", twins.twin("lenet", [1, 28, 28], 100).state_dict())
    model = twins.twin("resnet18", [3, 32, 32], 10)
    with torch.no_grad():
        model(torch.randn(4, 3, 32, 32))  # statistics that no model begins with
    load_checkpoint.save(model, folder / "resnet18.h5")


def write_published(folder, state):
    """As models are published: a head of 100 classes, a part of the tensors in each of two files, and the same tensors by
    torch.save."""
    folder.mkdir()
    types = itertools.cycle((torch.bfloat16, torch.float16, torch.float64, torch.float32))
    state = {f"module.{name}": (tensor / 3).to(dtype) for (name, tensor), dtype in zip(state.items(), types)}
    torch.save(state, folder / "published.pth")
    parts = {name: f"model-{i % 2 + 1:05}-of-00002.safetensors" for i, name in enumerate(state)}
    for part in set(parts.values()):
        write_safetensors(folder / part, {name: tensor for name, tensor in state.items() if parts[name] == part})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": parts}))


def write_safetensors(path, tensors):
    names = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64", torch.float32: "F32"}
    elements, header = b"", {}
    for name, tensor in tensors.items():
        begin, elements = len(elements), elements + tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, len(elements)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + elements)


def write_arrays(folder, draw):
    """For programs.encoder, programs.unusual and programs.channels_last, some in narrower types than theirs."""
    for name, count in ("encoder", 50), ("encoder-test", 13):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            lengths = draw.integers(3, 13, count)
            file["ids"] = draw.integers(0, 40, (count, 12))
            file["mask"] = (numpy.arange(12) < lengths[:, None]).astype(numpy.uint8)
            file.create_dataset("types", data=(file["ids"][()] > 20).astype(numpy.int32), chunks=(5, 12), compression=1)
            file["start"] = draw.integers(0, 3, count).astype(numpy.uint16)
            file["end"] = draw.integers(0, 3, count)
            ids = file["ids"][()]  # from left to right some texts have tags, and most of a mini-batch may have none
            file["tags"] = numpy.where((numpy.arange(12) < lengths[:, None]) & (ids[:, :1] < 16), ids % 5, -100)
    for name, count in ("unusual", 50), ("unusual-test", 13):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["features"] = draw.standard_normal((count, 20), numpy.float32)
            file["weight"] = draw.random(count, numpy.float32)
            file["target"] = draw.integers(0, 2, count)
            file["not_taken"] = draw.random(3)
    for name, count in ("masked", 50), ("masked-test", 13):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["images"] = draw.standard_normal((count, 3, 32, 32), numpy.float32)
            file["labels"] = draw.integers(0, 10, count)
            file["mask"] = draw.random((count, 32, 32)) < 0.8


def write_ragged(folder, draw):
    """Texts, most of them short, with a tag for each token."""
    for name, count in ("ragged", 61), ("ragged-test", 13):
        lengths = 1 + (draw.random(count) ** 3 * 20).astype(numpy.int64)
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["tokens"] = draw.integers(0, 40, lengths.sum()).astype(numpy.uint8)
            file["tokens.offsets"] = numpy.append(0, lengths.cumsum())
            file["tags"] = file["tokens"][()].astype(numpy.int64) % 5
            file["tags.offsets"] = file["tokens.offsets"]


def write_idx(folder, name, draw, count):
    """Images with a bright square that depends on the label."""
    labels = numpy.arange(count, dtype=numpy.uint8) % 10
    images = draw.integers(0, 128, (count, 28, 28), numpy.uint8)
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 4)
        image[9 * row:9 * row + 7, 7 * column:7 * column + 7] += 100
    (folder / f"{name}.images").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + images.tobytes())
    (folder / f"{name}.labels").write_bytes(struct.pack(">2i", 0x801, count) + labels.tobytes())


def write_hdf5(path, images, draw):
    with h5py.File(path, "w") as file:
        file["images"] = images
        file["labels"] = numpy.append(draw.integers(0, 10, len(images) - 1), 9)
