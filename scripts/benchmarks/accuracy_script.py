"""Trains the net of a spec in plain PyTorch, as one process, and prints {"accuracy": of the test set at the end}:

    accuracy_script.py SPEC.toml SEED

Of the spec it takes what configs/lenet-fashion.toml says: LeNet, idx data, SGD, a linear schedule by step. A batch is
that of all ESTs together.
"""

import json
import sys
import tomllib
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import run_data  # noqa: E402
import twins  # noqa: E402

TEST_BATCH = 1000


def read_images(spec):
    """Training and test set, each as (images, labels) in memory."""
    section = spec["data"]
    keys = {"crop": 0, "flip": False, "resize": [], "pad": 0}
    sets = run_data.open_data({"data": keys | section, "model": spec["model"]})
    mean, std = torch.tensor(section["mean"])[:, None, None], torch.tensor(section["std"])[:, None, None]
    return [(images.pixels.float().div(255).sub(mean).div(std), images.labels) for images in sets]


def train(spec, images, labels, seed):
    torch.manual_seed(seed)
    model = twins.twin(spec["model"]["name"], list(images.shape[1:]), int(labels.max()) + 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=spec["optimizer"]["lr"], momentum=spec["optimizer"]["momentum"])
    schedule = spec["schedule"]
    scheduler = torch.optim.lr_scheduler.LinearLR(
        optimizer, schedule["start_factor"], schedule["end_factor"], schedule["period"]
    )
    batch = spec["data"]["batch"] * spec["job"]["ests"]
    for _ in range(spec["train"]["epochs"]):
        for chosen in torch.randperm(len(labels)).split(batch):
            optimizer.zero_grad()
            F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            scheduler.step()
    return model


def right(model, images, labels):
    """For each image, whether the model gets it right."""
    model.eval()
    with torch.no_grad():
        pairs = zip(images.split(TEST_BATCH), labels.split(TEST_BATCH))
        return torch.cat([model(some).argmax(1) == of_them for some, of_them in pairs])


def main():
    spec = tomllib.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    training, test = read_images(spec)
    accuracy = right(train(spec, *training, int(sys.argv[2])), *test).double().mean().item()
    print(json.dumps({"accuracy": accuracy}))


if __name__ == "__main__":
    main()
