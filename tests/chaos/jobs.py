"""Tiny jobs for chaos runs. Together they use every feature in which a fault could change results. Steps of some
milliseconds, several epochs within `steps`, a checkpoint every few steps."""
from dataclasses import dataclass

MLP = """[model]
name = "mlp"
hidden = [48, 32]
dropout = 0.2
classes = 10
[data]
format = "synthetic"
shape = [24]
samples = 150
batch = 4
[optimizer]
name = "adamw"
lr = 0.01
weight_decay = 0.05
[[optimizer.groups]]
match = ["*.bias"]
weight_decay = 0.0
lr = 0.02
[schedule]
name = "step"
unit = "step"
period = 60
gamma = 0.5
warmup = 3
[train]
steps = {steps}
eval_every = 40
clip_grad_norm = 0.5
label_smoothing = 0.1
"""

LENET = """[model]
name = "lenet"
classes = 10
[data]
format = "synthetic"
shape = [1, 28, 28]
samples = 130
batch = 3
pad = 2
crop = [28, 28]
flip = true
mean = [0.45]
std = [0.3]
readers = 2
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
weight_decay = 0.001
[schedule]
name = "cosine"
unit = "step"
period = 90
warmup = 2
[train]
steps = {steps}
eval_every = "never"
label_smoothing = 0.05
"""

GPT = """[model]
name = "gpt"
layers = 1
heads = 2
width = 32
context = 16
dropout = 0.1
[data]
format = "text"
holdout = 0.1
batch = 2
path = "{text}"
[optimizer]
name = "adamw"
lr = 0.003
betas = [0.9, 0.95]
weight_decay = 0.1
[[optimizer.groups]]
match = ["*.bias", "*norm*.weight"]
weight_decay = 0.0
[schedule]
name = "cosine"
unit = "step"
period = 80
warmup = 2
[train]
steps = {steps}
eval_every = 70
clip_grad_norm = 1.0
label_smoothing = 0.05
"""

# 9.4 MB of state saved after every step, so that a save is nearly always in progress.
SAVING = """[model]
name = "mlp"
hidden = [1024, 512]
dropout = 0.1
classes = 10
[data]
format = "synthetic"
shape = [256]
samples = 4000
batch = 2
[optimizer]
name = "adamw"
lr = 0.001
[train]
steps = {steps}
eval_every = "never"
"""

BODIES = {"mlp": MLP, "lenet": LENET, "gpt": GPT, "saving": SAVING}
STEPS = {"mlp": 300, "lenet": 100, "gpt": 120, "saving": 1000000}
TEXT_BYTES = 8000


def write_text(path):
    """Text without repetition."""
    words, n = [], 0
    while sum(map(len, words)) < TEXT_BYTES:
        n += 1
        words.append(f"line {n * n % 9973} of the book; ")
    path.write_text("".join(words)[:TEXT_BYTES])


@dataclass(frozen=True)
class Job:
    kind: str
    ests: int
    steps: int

    @property
    def name(self):
        return f"{self.kind}-{self.ests}-{self.steps}"

    def spec(self, text, checkpoint_every=20, retries=50):
        head = f'[job]\nname = "{self.name}"\nseed = {100 + self.ests}\nests = {self.ests}\n'
        tail = f"[checkpoint]\nevery = {checkpoint_every}\nkeep = 3\n[recovery]\nretries = {retries}\n"
        return head + BODIES[self.kind].format(steps=self.steps, text=text) + tail


def draw(random):
    kind = random.choice(["mlp", "mlp", "lenet", "gpt"])
    return Job(kind, random.choice([4, 6, 8]) if kind == "mlp" else random.choice([4, 5]), STEPS[kind])
