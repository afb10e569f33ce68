"""Users' modules that are exported, trained by estrain, and trained again by PyTorch: small, but together they do what
real ones do. Each is made by a function that returns the module and an example mini-batch; the loss is what forward
returns first, but for "resnet", which returns logits.

    python scripts/peers/programs.py FOLDER [NAME...]     writes NAME.pt2 and NAME-eval.pt2

NAME may also be a folder of examples/workloads: what small() there makes.
"""

import importlib.util
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES.parent / "core/engine/python"))
import export  # noqa: E402

SEED = 17


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


class ResNet(nn.Module):
    """Gives logits: the loss is the job's."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.layers = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 24, 2))
        self.head = nn.Linear(24, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.bn(self.stem(images))), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.layers(x), 1).flatten(1))


class Encoder(nn.Module):
    """Answers questions as BERT does: three inputs, two targets, masked attention, dropout, a tied projection."""

    def __init__(self, vocabulary=40, width=24, heads=3, length=12):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.types = nn.Embedding(2, width)
        self.register_buffer("order", torch.arange(length), persistent=False)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 2 * width, 0.1, "gelu", batch_first=True)
                                    for _ in range(2))
        self.spans = nn.Linear(width, 2)
        self.project = nn.Linear(width, vocabulary, bias=False)
        self.project.weight = self.words.weight

    def forward(self, ids, mask, types, start, end):
        x = self.norm(self.words(ids) + self.places(self.order) + self.types(types))
        x = F.dropout(x, 0.1, self.training)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~mask)
        first, last = self.spans(x).unbind(-1)
        hidden = torch.finfo(x.dtype).min
        first, last = first.masked_fill(~mask, hidden), last.masked_fill(~mask, hidden)
        words = F.cross_entropy(self.project(x).flatten(0, 1), ids.flatten())
        return (F.cross_entropy(first, start) + F.cross_entropy(last, end)) / 2 + 0.1 * words


class Decoder(nn.Module):
    """GPT: causal attention, tied weights, tokens and targets."""

    def __init__(self, vocabulary=256, context=16, width=32, heads=2):
        super().__init__()
        self.heads = heads
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(torch.randn(context, width) * 0.02)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets):
        n, length = tokens.shape
        x = self.drop(self.token(tokens) + self.place[:length])
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(n, length, -1)))
        x = x + self.drop(self.mlp(self.norms[1](x)))
        logits = self.head(self.norms[2](x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class Unusual(nn.Module):
    """A frozen and an unused layer, a buffer that is replaced, another outside of the state_dict that is changed,
    weight_norm, no_grad and autocast blocks, sizes computed from the mini-batch, a scalar input's broadcast."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(20, 32).requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(32, 32))
        self.bn = nn.BatchNorm1d(32)
        self.last = nn.Linear(32, 1)
        self.register_buffer("mean", torch.zeros(32))
        self.register_buffer("seen", torch.zeros(1), persistent=False)

    def forward(self, features, weight, target):
        x = torch.tanh(self.frozen(features) + 1.0)
        if self.training:
            with torch.no_grad():
                self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
                self.seen += x.shape[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.normed(x - self.mean)
        x = self.bn(x.float() + self.seen * 0.01)
        x = torch.cat([x[:, ::2], x[:, 1::2]], 1)
        x = F.dropout(x.view(x.shape[0] * 2, 16), 0.25, self.training).view(-1, 32)
        loss = F.mse_loss(self.last(x).squeeze(1) * weight, target.to(torch.float32), reduction="sum")
        return loss / x.shape[0]


class Scored(nn.Module):
    """In eval() mode it also tells, of each sample, whether it was right, and a number of the whole mini-batch."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))

    def forward(self, features, target):
        x = self.layers(features)
        loss = F.cross_entropy(x, target)
        return loss if self.training else (loss, (x.argmax(1) == target).float(), x.abs().max())


class Tagger(nn.Module):
    """Gives logits for each token, the classes in the second dimension: the loss is the job's."""

    def __init__(self, vocabulary=40, width=16, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.2), nn.Linear(width, classes))

    def forward(self, ids):
        return self.layers(self.embed(ids)).transpose(1, 2)


class RaggedTagger(nn.Module):
    """For texts of any length: the tokens see each other and their neighbours, but no padding."""

    def __init__(self, vocabulary=40, width=16, tags=5):
        super().__init__()
        self.embed, self.near = nn.Embedding(vocabulary, width), nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Linear(width, tags)

    def forward(self, tokens, tokens_mask, tokens_lengths):
        x = self.embed(tokens) * tokens_mask[..., None] / tokens_lengths[:, None, None].sqrt()
        x = F.relu(self.near(x.transpose(1, 2))).transpose(1, 2)
        seen = (x @ x.transpose(1, 2)).masked_fill(~tokens_mask[:, None], -torch.inf).softmax(2)
        return self.head(F.dropout(x + seen @ x, 0.1, self.training)).transpose(1, 2)


class Termed(Tagger):
    """Has a loss of its own: the mean over the tokens with a tag, of which a mini-batch may have none. Behind the loss
    come its two terms, and the number of these tokens."""

    def forward(self, ids, tags):
        logits, tokens = super().forward(ids), (tags != -100).sum()
        ce = F.cross_entropy(logits, tags, reduction="sum") / tokens.clamp_min(1)
        size = logits.square().mean()
        return ce + 0.01 * size, ce, size, tokens


class Recurrent(nn.Module):
    """One LSTM, of two layers in both directions with dropout between them, reads a text twice: forwards, then from
    where that ended. Another of one direction follows, whose input comes time first."""

    def __init__(self, vocabulary=40, width=10, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.both = nn.LSTM(width, width, 2, dropout=0.3, bidirectional=True, batch_first=True)
        self.one = nn.LSTM(2 * width, width, bias=False)
        self.head = nn.Linear(3 * width, classes)

    def forward(self, ids, start):
        x = self.embed(ids)
        first, state = self.both(x)
        second, (hidden, _) = self.both(x.flip(1), state)
        _, (last, _) = self.one((first + second).transpose(0, 1))
        return F.cross_entropy(self.head(torch.cat([hidden[-2], hidden[-1], last[0]], 1)), start)


class ChannelsLast(nn.Module):
    """Weights in channels_last, some with one channel, some of one pixel; a transposed weight; a mask as an argument; buffers
    of booleans and of int32."""

    def __init__(self):
        super().__init__()
        self.grey, self.stem = nn.Conv2d(3, 1, 1), nn.Conv2d(1, 8, 3, padding=1)
        self.bn, self.mix, self.wide = nn.BatchNorm2d(8), nn.Conv2d(8, 16, 1), nn.Conv2d(16, 8, 3, 2)
        self.turned = nn.Parameter((torch.randn(10, 8) * 0.3).t())
        self.register_buffer("seen", torch.zeros(10, dtype=torch.bool))
        self.register_buffer("count", torch.zeros(2, dtype=torch.int32))

    def forward(self, images, mask, labels):
        if self.training:
            self.count += 1
            self.seen |= (torch.arange(10) == labels[:, None]).any(0)
        x = self.mix(F.relu(self.bn(self.stem(self.grey(images * mask[:, None])))))
        return F.cross_entropy(self.wide(F.relu(x)).mean((2, 3)) @ self.turned, labels)


class Typed(nn.Module):
    """Under torch.autocast it depends on the types that tensors have then."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(20, 32), nn.Linear(32, 1)

    def forward(self, features, weight, target):
        x = self.first(features)
        x = x.masked_fill(x < 0, torch.finfo(x.dtype).eps)
        with torch.autocast("cuda", enabled=False):
            x = x * x.float().sigmoid()
        if self.training:
            x = x * torch.empty_like(x).uniform_(0, 1)
        return F.mse_loss(self.last(x).squeeze(1).float() * weight, target.float())


def resnet():
    return ResNet(), (torch.randn(4, 3, 32, 32),)


def encoder():
    ids = torch.randint(0, 40, (4, 12))
    mask = torch.arange(12).expand(4, 12) < torch.tensor([[12], [9], [5], [12]])
    return Encoder(), {"ids": ids, "mask": mask, "types": (ids > 20).long(), "start": torch.tensor([0, 3, 4, 11]),
                       "end": torch.tensor([1, 8, 4, 11])}


def decoder():
    return Decoder(), (torch.randint(0, 256, (4, 16)), torch.randint(0, 256, (4, 16)))


def unusual():
    return Unusual(), (torch.randn(4, 20), torch.rand(4), torch.tensor([0, 1, 1, 0]))


def scored():
    return Scored(), (torch.randn(4, 20), torch.tensor([0, 1, 1, 0]))


def tagger():
    return Tagger(), {"ids": torch.randint(0, 40, (4, 12))}


def ragged():
    lengths = torch.tensor([7, 2, 5, 7])
    return RaggedTagger(), {"tokens": torch.randint(0, 40, (4, 7)), "tokens_mask": torch.arange(7) < lengths[:, None],
                            "tokens_lengths": lengths}


def termed():
    return Termed(), {"ids": torch.randint(0, 40, (4, 12)), "tags": torch.randint(0, 5, (4, 12))}


def recurrent():
    return Recurrent(), {"ids": torch.randint(0, 40, (4, 12)), "start": torch.tensor([0, 1, 2, 1])}


def channels_last():
    return ChannelsLast().to(memory_format=torch.channels_last), {
        "images": torch.randn(4, 3, 32, 32), "mask": torch.rand(4, 32, 32) < 0.8, "labels": torch.tensor([0, 3, 9, 3])}


def typed():
    return Typed(), (torch.randn(4, 20), torch.rand(4), torch.tensor([0, 1, 1, 0]))


BF16 = ("typed",)  # exported for it
RAGGED = {"ragged": ("tokens", "tokens_mask")}

ALL = {"channels_last": channels_last, "typed": typed, "scored": scored, "resnet": resnet, "encoder": encoder, "decoder": decoder, "unusual": unusual,
       "recurrent": recurrent, "ragged": ragged, "tagger": tagger, "termed": termed}


def build(name):
    """The module as it is exported, and an example mini-batch."""
    make = ALL.get(name) or workload(name)
    torch.manual_seed(SEED)
    module, batch = make()
    return module.train(), batch


def workload(name):
    return function(EXAMPLES / "workloads" / name / "model.py", "small")


def function(file, name):
    """A function in a file of Python code."""
    specification = importlib.util.spec_from_file_location(f"loaded_{abs(hash(str(file)))}", file)
    loaded = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = loaded
    specification.loader.exec_module(loaded)
    return getattr(loaded, name)


def write(folder, names=ALL):
    for name in names:
        export.export(*build(name), pathlib.Path(folder) / f"{name}.pt2", precision="bf16" if name in BF16 else "fp32",
                      ragged=RAGGED.get(name, ()))


def write_unchecked(folder, name, pixels=None):
    """For training alone, without a comparison with the module; of images with so many pixels on each side."""
    module, batch = build(name)
    if pixels:
        batch = (batch[0][..., :pixels, :pixels], *batch[1:])
    args, kwargs = export.own_tensors(batch)
    program = export.trace(module, args, kwargs)
    torch.export.save(program, pathlib.Path(folder) / f"{name}.pt2", extra_files=export.TRAINING_MARK)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2:] or ALL)
