#pragma once
// Tiny jobs that together use every feature in which placement could change results: dropout, augmentation, buffers,
// both update paths (with and without clipping), groups, schedules with a warm-up, short last batches. The jobs
// train several epochs within `train.steps`. Only the long jobs stay in their first epoch and do not end by
// themselves.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/scratch_folder.h"

namespace estrain::testing {

// 150 vectors over 8 ESTs: 19 each, in batches of 4, 4, 4, 4 and 3. AdamW, clipped.
inline std::string mlp_job() {
  return R"([job]
name = "mlp"
seed = 11
ests = 8
[model]
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
period = 4
gamma = 0.5
warmup = 3
[train]
steps = 13
eval_every = 6
clip_grad_norm = 0.5
label_smoothing = 0.1
)";
}

// Momentum SGD without clipping: a single worker updates within the backward pass.
inline std::string lenet_job() {
  return R"([job]
name = "lenet"
seed = 12
ests = 8
[model]
name = "lenet"
classes = 10
[data]
format = "synthetic"
shape = [1, 28, 28]
samples = 100
batch = 5
pad = 2
crop = [28, 28]
flip = true
mean = [0.45]
std = [0.3]
readers = 2
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
weight_decay = 0.001
[schedule]
name = "cosine"
unit = "step"
period = 9
warmup = 2
[train]
steps = 10
label_smoothing = 0.05
)";
}

inline std::string resnet18_job() {
  return R"([job]
name = "resnet18"
seed = 13
ests = 8
[model]
name = "resnet18"
classes = 10
[data]
format = "synthetic"
shape = [3, 32, 32]
samples = 40
batch = 3
pad = 4
crop = [32, 32]
flip = true
[optimizer]
name = "sgd"
lr = 0.1
momentum = 0.9
nesterov = true
weight_decay = 0.0005
[[optimizer.groups]]
match = ["*.bias", "bn*.weight", "*.bn*.weight"]
weight_decay = 0.0
[schedule]
name = "cosine"
unit = "epoch"
period = 3
warmup = 1
[train]
steps = 5
eval_every = "never"
)";
}

// Text of `bytes` bytes without repetition.
inline std::string some_text(size_t bytes) {
  std::string text;
  for (uint64_t n = 1; text.size() < bytes; ++n) text += "line " + std::to_string(n * n % 9973) + " of the book; ";
  text.resize(bytes);
  return text;
}

inline std::string gpt_job(const std::string& text_file) {
  return R"([job]
name = "gpt"
seed = 14
ests = 8
[model]
name = "gpt"
layers = 1
heads = 2
width = 32
context = 32
dropout = 0.1
[data]
format = "text"
holdout = 0.1
batch = 2
path = ")" +
         text_file + R"("
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
period = 8
warmup = 2
[train]
steps = 8
clip_grad_norm = 1.0
label_smoothing = 0.05
)";
}

// Long enough to stop, resize and kill: about 5 ms a step, 2500 steps an epoch.
inline std::string long_job() {
  return R"([job]
name = "long"
seed = 15
ests = 6
[model]
name = "mlp"
hidden = [256, 256, 128]
dropout = 0.3
classes = 10
[data]
format = "synthetic"
shape = [256]
samples = 480000
batch = 32
[optimizer]
name = "adamw"
lr = 0.001
[schedule]
name = "cosine"
unit = "step"
period = 1000
warmup = 20
[train]
steps = 1000000
eval_every = "never"
clip_grad_norm = 1.0
)";
}

// The same with images: augmentation, momentum, no clipping.
inline std::string long_image_job() {
  return R"([job]
name = "long-image"
seed = 16
ests = 5
[model]
name = "lenet"
classes = 10
[data]
format = "synthetic"
shape = [1, 28, 28]
samples = 100000
batch = 8
pad = 2
crop = [28, 28]
flip = true
[optimizer]
name = "sgd"
lr = 0.01
momentum = 0.9
[train]
steps = 1000000
eval_every = "never"
)";
}

// An IDX file of bytes.
inline std::string idx(const std::vector<uint32_t>& dims, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (const uint32_t dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(dim >> shift));
  return bytes + values;
}

// LeNet on 28 x 28 images from the two files.
inline std::string idx_job(const std::string& images, const std::string& labels) {
  return R"([job]
ests = 2
[model]
name = "lenet"
classes = 10
[data]
format = "idx"
batch = 2
images = ")" +
         images + "\"\nlabels = \"" + labels + "\"\n[train]\nsteps = 3\n";
}

}  // namespace estrain::testing
