#include "core/spec/keys/keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace estrain::spec {
namespace {

// A key's name is made from the path of its field, so they cannot disagree.
#define ESTRAIN_KEY(field) \
  make_key<JobSpec>(       \
      #field, [](auto& spec) -> auto& { return spec.field; })
#define ESTRAIN_GROUP_KEY(field) \
  make_key<OptimizerGroup>(      \
      #field, [](auto& group) -> auto& { return group.field; })

using Words = std::vector<std::string>;

const Words models(model_names.begin(), model_names.end());
const Words users_models = {"program", "python"};
const Words table_formats = {"idx", "cifar10", "cifar100", "hdf5", "synthetic"};  // images of one size
const Words photo_formats = {"images", "webdataset", "voc"};                      // of any
const Words image_formats = {"idx", "cifar10", "cifar100", "hdf5", "synthetic", "images", "webdataset", "voc"};
const Words file_formats = {"idx", "cifar10", "cifar100", "text", "hdf5", "tokens", "images", "webdataset", "voc"};
const Words with_betas = {"adam", "adamw"};
const Words with_momentum = {"sgd", "rmsprop"};
const Words with_eps = {"adam", "adamw", "rmsprop", "adagrad"};
const Words with_period = {"step", "cosine", "linear", "polynomial", "onecycle"};
const Words following_evaluations = {"plateau"};
const Words with_unit = {"constant", "step", "multistep", "cosine", "linear", "polynomial", "onecycle"};
const Words with_warmup = {"constant", "step", "multistep", "cosine", "linear", "polynomial"};

// Larger than any use, and small enough that their products do not overflow.
constexpr int64_t kMostUnits = 1'000'000;        // of a layer, a side of an image
constexpr int64_t kMostSamples = 1'000'000'000;  // of a data set, a batch
constexpr int64_t kMostSteps = 1'000'000'000'000;
constexpr int64_t kMostSeconds = 1'000'000'000;

// "0; adamw 0.01": an optimizer setting's defaults.
std::string defaults_of(double OptimizerTraits::*setting) {
  std::string text = fmt::format("{}", optimizers[0].*setting);
  for (const OptimizerTraits& optimizer : optimizers) {
    if (optimizer.*setting != optimizers[0].*setting)
      text += fmt::format("; {} {}", optimizer.name, optimizer.*setting);
  }
  return text;
}

std::vector<Key<JobSpec>> job_and_model_keys() {
  return {
      ESTRAIN_KEY(job.name).filled().not_in_bits().means("The job's name, and that of its run directory."),
      ESTRAIN_KEY(job.seed).min(0).max(int64_t{1} << 62).means("Seed of every random stream of the job."),
      ESTRAIN_KEY(job.ests).min(1).max(65536).means(
          "Number of ESTs (logical data-parallel ranks), fixed for the whole job."),
      ESTRAIN_KEY(job.determinism)
          .means("Level of determinism: D0 repeats the bits only on an unchanged placement, D1 on any number of "
                 "workers, D2 "
                 "also on any kind of device; auto: D2 if it costs almost nothing."),
      ESTRAIN_KEY(job.kernels)
          .means("The kernels: PyTorch's, or estrain's portable ones, with equal bits on all devices; D2 implies "
                 "\"portable\"."),
      ESTRAIN_KEY(job.precision)
          .means("Arithmetic of the forward and backward pass: \"tf32\" lets GPUs round the factors of products and "
                 "convolutions, \"bf16\" is torch.autocast; weights and sums of gradients stay fp32."),
      ESTRAIN_KEY(job.algorithms)
          .means("Which algorithms compute products and convolutions on GPUs: \"measured\" once and kept with the run, "
                 "or \"torch\": chosen by LibTorch's heuristics, which gives PyTorch's bits."),
      ESTRAIN_KEY(job.cuda_graphs)
          .not_in_bits()
          .means("Whether GPUs launch an EST's forward and backward pass as one CUDA graph, if it can be captured; "
                 "not with the portable kernels."),
      ESTRAIN_KEY(job.exchange)
          .not_in_bits()
          .means("How several workers sum gradients: \"auto\": by NCCL between GPUs, if each worker has one "
                 "of its own; otherwise, or with \"host\", in host memory."),
      ESTRAIN_KEY(job.threads).min(1).max(1024).means("Intra-op threads of every worker; part of the bits."),

      ESTRAIN_KEY(model.name).choices(models).must_be_given().means("The network to train."),
      ESTRAIN_KEY(model.init)
          .path()
          .means("HDF5 or safetensors file with a PyTorch state_dict to start from; empty: initial weights from the "
                 "seed."),
      ESTRAIN_KEY(model.classes)
          .min(1)
          .max(kMostUnits)
          .unset("the data set's; text: 256")
          .means("Number of outputs; data.format \"tokens\" needs it: the size of the vocabulary."),
      ESTRAIN_KEY(model.hidden).min(1).max(kMostUnits).only("model.name", {"mlp"}).means("Width of each hidden layer."),
      ESTRAIN_KEY(model.dropout)
          .min(0)
          .below(1)
          .unset("gpt 0.1, vgg 0.5, mlp 0")
          .only("model.name", {"mlp", "vgg11", "vgg19", "gpt"})
          .means("Probability of dropping an activation."),
      ESTRAIN_KEY(model.layers).min(1).max(10'000).only("model.name", {"gpt"}).means("Number of transformer blocks."),
      ESTRAIN_KEY(model.heads).min(1).max(kMostUnits).only("model.name", {"gpt"}).means("Attention heads of a block."),
      ESTRAIN_KEY(model.width)
          .min(1)
          .max(kMostUnits)
          .only("model.name", {"gpt"})
          .means("Embedding width, a multiple of the heads."),
      ESTRAIN_KEY(model.context)
          .min(1)
          .max(kMostUnits)
          .only("model.name", {"gpt", "program", "python"})
          .means("Length of a sequence in tokens."),
      ESTRAIN_KEY(model.tied)
          .only("model.name", {"gpt"})
          .means("Whether the output projection shares the token embedding."),
      ESTRAIN_KEY(model.file)
          .path()
          .only("model.name", users_models)
          .means("program: the exported program (.pt2) to train, exported in train() mode: examples/export. python: "
                 "\"net.py:build\", a file and the function in it that returns the module."),
      ESTRAIN_KEY(model.python)
          .path()
          .only("model.name", {"python"})
          .not_in_bits()
          .means("The Python that workers run in, such as \"venv/bin/python\", with the LibTorch that estrain is built "
                 "with; empty: python3 of the environment."),
      ESTRAIN_KEY(model.eval_file)
          .path()
          .only("model.name", {"program"})
          .means("The same model exported in eval() mode; empty: the trained program with dropout off and batch norm "
                 "frozen."),
      ESTRAIN_KEY(model.loss)
          .only("model.name", users_models)
          .means("The minimised loss: the model's first \"output\", or torch.nn.functional's loss of it and "
                 "model.loss_target."),
      ESTRAIN_KEY(model.loss_target)
          .only("model.name", users_models)
          .means("The input or array that the loss compares with; empty: the data's labels."),
  };
}

std::vector<Key<JobSpec>> data_keys() {
  return {
      ESTRAIN_KEY(data.format).means("Format of the data set's files."),
      ESTRAIN_KEY(data.path)
          .path()
          .only("data.format", file_formats)
          .means(
              "A folder (idx, cifar10, cifar100; images: with a folder of JPEG and PNG files for each class), a file "
              "(text, hdf5, tokens), a tar file or a folder of them (webdataset), or a folder as PASCAL VOC unpacks "
              "(voc)."),
      ESTRAIN_KEY(data.images).path().only("data.format", {"idx"}).means("Training images, instead of data.path."),
      ESTRAIN_KEY(data.labels).path().only("data.format", {"idx"}).means("Training labels, instead of data.path."),
      ESTRAIN_KEY(data.test_images).path().only("data.format", {"idx"}).means("Test images, instead of data.path."),
      ESTRAIN_KEY(data.test_labels).path().only("data.format", {"idx"}).means("Test labels, instead of data.path."),
      ESTRAIN_KEY(data.test_path)
          .path()
          .only("data.format", {"text", "hdf5", "tokens", "images", "webdataset", "voc"})
          .means("The file or folder for evaluation; voc: where data.test_list is, if not in data.path."),
      ESTRAIN_KEY(data.holdout)
          .min(0)
          .below(1)
          .only("data.format", {"text", "tokens"})
          .only("data.test_path", {""})
          .means("Fraction of the text, at its end, that is kept for evaluation."),
      ESTRAIN_KEY(data.token_type)
          .only("data.format", {"tokens"})
          .means("Type of a token in flat files; .npy files and those of llm.c declare theirs."),
      ESTRAIN_KEY(data.list)
          .filled()
          .only("data.format", {"voc"})
          .means("The list in ImageSets/Main, without .txt, of the training samples."),
      ESTRAIN_KEY(data.test_list)
          .only("data.format", {"voc"})
          .means("The list of the samples for evaluation; empty: none."),
      ESTRAIN_KEY(data.boxes)
          .min(1)
          .max(10'000)
          .only("data.format", {"voc"})
          .means("Places for boxes in a sample; those that stay empty have the class -1."),
      ESTRAIN_KEY(data.names)
          .only("data.format", {"voc"})
          .means("Names of the classes, in the order of their numbers; empty: the twenty of PASCAL VOC."),
      ESTRAIN_KEY(data.difficult)
          .only("data.format", {"voc"})
          .means("Whether objects that are marked as difficult are taken, too."),
      ESTRAIN_KEY(data.batch).min(1).max(kMostSamples).means("Samples per EST and step."),
      ESTRAIN_KEY(data.shuffle).means("Whether every epoch has a new random order."),
      ESTRAIN_KEY(data.drop_last).means("Whether the last, short batch of an epoch is left out."),
      ESTRAIN_KEY(data.channels)
          .numbers({1, 3})
          .unset("as in the files")
          .only("data.format", image_formats)
          .means("3 repeats a grey channel three times; 1 requires grey images."),
      ESTRAIN_KEY(data.resize)
          .min(1)
          .max(kMostUnits)
          .lengths({0, 1, 2})
          .only("data.format", image_formats)
          .means(
              "[height, width] to which images are scaled, bilinearly; for images, webdataset and voc also [side], the "
              "length of the shorter side."),
      ESTRAIN_KEY(data.pad)
          .min(0)
          .max(4096)
          .only("data.format", table_formats)
          .means("Zero pixels added on each side, after resizing."),
      ESTRAIN_KEY(data.crop)
          .min(1)
          .max(kMostUnits)
          .lengths({0, 2})
          .only("data.format", image_formats)
          .means("[height, width] of the crop: at a random place in training, in the centre in evaluation."),
      ESTRAIN_KEY(data.scale)
          .above(0)
          .max(1)
          .lengths({0, 2})
          .only("data.format", photo_formats)
          .means("[least, most] fraction of an image's area that training cuts out at a random place and scales to "
                 "data.crop, as "
                 "torchvision's RandomResizedCrop; empty: training crops what data.resize left."),
      ESTRAIN_KEY(data.ratio)
          .above(0)
          .max(1000)
          .lengths({2})
          .only("data.format", photo_formats)
          .means("[least, most] width / height of the area that data.scale cuts out."),
      ESTRAIN_KEY(data.flip)
          .only("data.format", image_formats)
          .means("Whether training images are mirrored left-right with probability 1/2."),
      ESTRAIN_KEY(data.mean)
          .only("data.format", image_formats)
          .means("Subtracted from each channel, on the [0, 1] scale."),
      ESTRAIN_KEY(data.std)
          .above(0)
          .only("data.format", image_formats)
          .means("Divides each channel, after data.mean is subtracted."),
      ESTRAIN_KEY(data.shape)
          .min(1)
          .max(kMostSamples)
          .lengths({1, 3})
          .only("data.format", {"synthetic"})
          .means("[channels, height, width] of an image, or [length] of a vector."),
      ESTRAIN_KEY(data.samples)
          .min(1)
          .max(kMostSamples)
          .only("data.format", {"synthetic"})
          .means("Training samples; an eighth as many, at least one, for evaluation."),
      ESTRAIN_KEY(data.readers)
          .min(0)
          .max(1024)
          .not_in_bits()
          .means(
              "Reader threads of a worker, whatever its number of ESTs; 0: tuned at run time, so that the worker does "
              "not wait for data."),
      ESTRAIN_KEY(data.prefetch)
          .min(0)
          .max(65536)
          .not_in_bits()
          .means("Mini-batches that a worker reads ahead; 0: tuned at run time, so that the worker does not wait "
                 "for data."),
  };
}

std::vector<Key<JobSpec>> optimizer_and_schedule_keys() {
  return {
      ESTRAIN_KEY(optimizer.name).means("The optimizer, with torch.optim's arithmetic and defaults."),
      ESTRAIN_KEY(optimizer.lr)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::lr))
          .means("Learning rate, before the schedule."),
      ESTRAIN_KEY(optimizer.momentum).min(0).only("optimizer.name", with_momentum).means("Momentum factor."),
      ESTRAIN_KEY(optimizer.dampening).only("optimizer.name", {"sgd"}).means("Dampening of the momentum."),
      ESTRAIN_KEY(optimizer.nesterov)
          .only("optimizer.name", {"sgd"})
          .means("Nesterov's momentum; needs momentum > 0 and no dampening."),
      ESTRAIN_KEY(optimizer.weight_decay)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::weight_decay))
          .means("Weight decay: decoupled (adamw), otherwise an L2 term."),
      ESTRAIN_KEY(optimizer.betas)
          .min(0)
          .below(1)
          .lengths({2})
          .only("optimizer.name", with_betas)
          .means("Decay rates of the running averages of the gradient and of its square."),
      ESTRAIN_KEY(optimizer.eps)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::eps))
          .only("optimizer.name", with_eps)
          .means("Added to the denominator."),
      ESTRAIN_KEY(optimizer.alpha)
          .min(0)
          .only("optimizer.name", {"rmsprop"})
          .means("Decay rate of the running average of the gradient's square."),
      ESTRAIN_KEY(optimizer.centered)
          .only("optimizer.name", {"rmsprop"})
          .means("Whether to divide by the gradient's variance: subtracts the square of the average gradient."),
      ESTRAIN_KEY(optimizer.lr_decay)
          .min(0)
          .only("optimizer.name", {"adagrad"})
          .means("Decay of the learning rate at every update of a parameter."),
      ESTRAIN_KEY(optimizer.initial_accumulator_value)
          .min(0)
          .only("optimizer.name", {"adagrad"})
          .means("Initial value of the sum of the gradients' squares."),
      ESTRAIN_KEY(optimizer.groups).means("Parameters with their own settings; the first match wins."),

      ESTRAIN_KEY(schedule.name)
          .means("How the learning rate changes: like torch's StepLR, MultiStepLR, CosineAnnealingLR, LinearLR, "
                 "PolynomialLR, OneCycleLR, ReduceLROnPlateau, or not at all."),
      ESTRAIN_KEY(schedule.unit)
          .only("schedule.name", with_unit)
          .means("Unit of period, milestones and warmup, and of the schedule's updates."),
      ESTRAIN_KEY(schedule.period)
          .min(1)
          .max(kMostSteps)
          .only("schedule.name", with_period)
          .means("Units between two drops (step), until the lowest rate (cosine), until the last factor (linear), "
                 "until zero "
                 "(polynomial), in the whole cycle (onecycle)."),
      ESTRAIN_KEY(schedule.gamma).above(0).only("schedule.name", {"step", "multistep"}).means("Factor of each drop."),
      ESTRAIN_KEY(schedule.milestones)
          .min(1)
          .max(kMostSteps)
          .only("schedule.name", {"multistep"})
          .means("Units after which the rate drops; a number given twice drops it twice."),
      ESTRAIN_KEY(schedule.eta_min).min(0).only("schedule.name", {"cosine"}).means("Lowest learning rate."),
      ESTRAIN_KEY(schedule.start_factor)
          .above(0)
          .max(1)
          .only("schedule.name", {"linear"})
          .means("Factor on the learning rate at the start."),
      ESTRAIN_KEY(schedule.end_factor)
          .min(0)
          .max(1)
          .only("schedule.name", {"linear"})
          .means("Factor on the learning rate after the period."),
      ESTRAIN_KEY(schedule.power).min(0).only("schedule.name", {"polynomial"}).means("Power of the polynomial."),
      ESTRAIN_KEY(schedule.pct_start)
          .above(0)
          .below(1)
          .only("schedule.name", {"onecycle"})
          .means("Fraction of the period in which the rate rises to optimizer.lr."),
      ESTRAIN_KEY(schedule.anneal_strategy).only("schedule.name", {"onecycle"}).means("How the rate rises and falls."),
      ESTRAIN_KEY(schedule.div_factor)
          .above(0)
          .only("schedule.name", {"onecycle"})
          .means("The first rate is optimizer.lr divided by this."),
      ESTRAIN_KEY(schedule.final_div_factor)
          .above(0)
          .only("schedule.name", {"onecycle"})
          .means("The last rate is the first one divided by this."),
      ESTRAIN_KEY(schedule.three_phase)
          .only("schedule.name", {"onecycle"})
          .means("Whether the rate first falls to the first rate, mirroring its rise, and then to the last rate."),
      ESTRAIN_KEY(schedule.metric)
          .only("schedule.name", following_evaluations)
          .means("The metric of evaluations that must improve: the loss by falling, the accuracy by rising."),
      ESTRAIN_KEY(schedule.factor)
          .above(0)
          .below(1)
          .only("schedule.name", following_evaluations)
          .means("Factor of each drop."),
      ESTRAIN_KEY(schedule.patience)
          .min(0)
          .max(kMostSteps)
          .only("schedule.name", following_evaluations)
          .means("Evaluations in a row without improvement before the rate drops."),
      ESTRAIN_KEY(schedule.threshold)
          .min(0)
          .only("schedule.name", following_evaluations)
          .means("Least improvement over the best evaluation that counts."),
      ESTRAIN_KEY(schedule.threshold_mode)
          .only("schedule.name", following_evaluations)
          .means("Whether the threshold is a fraction of the best value (rel) or a difference from it (abs)."),
      ESTRAIN_KEY(schedule.cooldown)
          .min(0)
          .max(kMostSteps)
          .only("schedule.name", following_evaluations)
          .means("Evaluations after a drop that do not count against the patience."),
      ESTRAIN_KEY(schedule.min_lr).min(0).only("schedule.name", following_evaluations).means("Lowest learning rate."),
      ESTRAIN_KEY(schedule.warmup)
          .min(0)
          .max(kMostSteps)
          .only("schedule.name", with_warmup)
          .means("Units of linear warm-up before the schedule; 0: none."),
      ESTRAIN_KEY(schedule.warmup_start)
          .above(0)
          .max(1)
          .only("schedule.name", with_warmup)
          .means("Factor on the learning rate at the warm-up's start."),
  };
}

std::vector<Key<JobSpec>> other_keys() {
  return {
      ESTRAIN_KEY(train.steps)
          .min(1)
          .max(kMostSteps)
          .unset("train.epochs says")
          .not_in_bits()
          .means("Number of optimizer updates; give either this or train.epochs."),
      ESTRAIN_KEY(train.epochs)
          .min(1)
          .max(kMostUnits)
          .unset("train.steps says")
          .not_in_bits()
          .means("Number of passes over the data; give either this or train.steps."),
      ESTRAIN_KEY(train.eval_every)
          .min(-1)
          .max(kMostSteps)
          .words({{"epoch", 0}, {"never", -1}})
          .in_bits_only("schedule.name", following_evaluations)
          .means("Steps between evaluations; 0 means \"epoch\" (after each epoch), -1 means \"never\"."),
      ESTRAIN_KEY(train.eval_batch)
          .min(1)
          .max(kMostSamples)
          .in_bits_only("schedule.name", following_evaluations)
          .means("Samples per batch of an evaluation."),
      ESTRAIN_KEY(train.clip_grad_norm)
          .min(0)
          .means("Norm to which the gradient is clipped (torch's clip_grad_norm_); 0: not clipped."),
      ESTRAIN_KEY(train.label_smoothing).min(0).below(1).means("Label smoothing of the cross entropy."),
      ESTRAIN_KEY(train.nonfinite)
          .not_in_bits()
          .means("If a gradient holds NaN or infinity: stop before that step, or skip its update and continue."),

      ESTRAIN_KEY(train.top_k)
          .min(1)
          .max(kMostUnits)
          .not_in_bits()
          .means("Numbers k: evaluations also report how often the target is among the k most likely classes."),
      ESTRAIN_KEY(train.per_class)
          .not_in_bits()
          .means("Whether evaluations also report the accuracy of each class; needs data with one class per sample."),
      ESTRAIN_KEY(train.metrics)
          .only("model.name", users_models)
          .not_in_bits()
          .means("Names for the outputs of a user's model in evaluation behind the first: numbers for each sample or "
                 "for the mini-batch, averaged over the samples."),

      ESTRAIN_KEY(ema.decay).min(0).below(1).means(
          "Decay of the exponential moving average of the weights, like torch's AveragedModel with "
          "get_ema_multi_avg_fn(decay); 0: no average is kept."),
      ESTRAIN_KEY(ema.evaluate)
          .in_bits_only("schedule.name", following_evaluations)
          .means("Whether evaluations use the averaged weights, if there are any."),

      ESTRAIN_KEY(early_stop.patience)
          .min(0)
          .max(kMostSteps)
          .means("Evaluations in a row without improvement before the job ends; 0: it does not end "
                 "so."),
      ESTRAIN_KEY(early_stop.metric)
          .means("The metric of evaluations that must improve: the loss by falling, the accuracy by rising."),
      ESTRAIN_KEY(early_stop.min_delta).min(0).means("Least improvement over the best evaluation that counts."),

      ESTRAIN_KEY(checkpoint.every)
          .min(0)
          .max(kMostSteps)
          .not_in_bits()
          .means("Steps between checkpoints; 0: only at step 0, at resizes, stops and the end."),
      ESTRAIN_KEY(checkpoint.keep)
          .min(1)
          .max(kMostUnits)
          .not_in_bits()
          .means("Newest checkpoints that stay, besides that of step 0."),
      ESTRAIN_KEY(checkpoint.best)
          .not_in_bits()
          .means("The metric of the best evaluation: every evaluated state is written, and the best one stays in "
                 "checkpoints/best."),

      ESTRAIN_KEY(resources.devices)
          .takes_integer()
          .filled()
          .not_in_bits()
          .means("A number of CPU workers, a list of devices such as \"cpu,cpu\", or \"auto\": what the cores allow."),

      ESTRAIN_KEY(recovery.retries)
          .min(0)
          .max(1'000'000)
          .not_in_bits()
          .means("Faults at one step from which the job recovers; one more at that step ends it."),
      ESTRAIN_KEY(recovery.hang_seconds)
          .min(0)
          .max(kMostSeconds)
          .not_in_bits()
          .means("Seconds without progress after which a worker counts as hung; 0: three times the longest step plus 2 "
                 "s."),
      ESTRAIN_KEY(recovery.rules)
          .path()
          .not_in_bits()
          .means("TOML file of rules that recognise the causes of faults, tried before the built-in ones."),

      ESTRAIN_KEY(elastic.mode)
          .not_in_bits()
          .means("Whether the planner also changes the devices of the running job (auto: it "
                 "decides on offers, gives slow workers fewer ESTs, and undoes changes that prove slower), or only its "
                 "user (manual)."),

      ESTRAIN_KEY(audit.every)
          .min(0)
          .max(kMostSteps)
          .not_in_bits()
          .means(
              "Steps between audits, which find devices that compute wrong results: one mini-batch is computed a "
              "second "
              "time, on another device if there is one, and the state in memory is compared with its digests; 0: none. "
              "With several hosts, each host audits its own devices."),
      ESTRAIN_KEY(audit.redo)
          .not_in_bits()
          .means("Whether the job, after an audit has found something wrong, redoes the steps since the last good "
                 "audit, from "
                 "the newest checkpoint before them. If not, it goes on without the wrong device. A job over several "
                 "hosts ends "
                 "instead, and can be resumed from that checkpoint."),

      ESTRAIN_KEY(network.secrecy)
          .not_in_bits()
          .means(
              "What is encrypted between the hosts of a job: \"all\", or \"control\": not the gradients and states, "
              "which anybody on the network can then read and change. Only hosts with the run's key are let in either "
              "way."),
      ESTRAIN_KEY(network.interface)
          .not_in_bits()
          .means("The network interface by which the hosts of a job reach each other, such as \"eth0\"; \"\": as the "
                 "system chooses. Agents that start before the run take --interface."),

      ESTRAIN_KEY(logging.every_seconds)
          .above(0)
          .max(kMostSeconds)
          .not_in_bits()
          .means("Seconds between progress lines; ten times as long without a terminal."),
      ESTRAIN_KEY(logging.fingerprints).not_in_bits().means("Whether the digests of every step are recorded."),
      ESTRAIN_KEY(logging.trace)
          .min(1)
          .max(kMostSteps)
          .lengths({0, 2})
          .not_in_bits()
          .means("[first, last]: steps that every worker records operator by operator, and on a GPU kernel by kernel, "
                 "like "
                 "torch.profiler, in the run's traces/, for ui.perfetto.dev."),
      ESTRAIN_KEY(logging.tensorboard)
          .not_in_bits()
          .means("Whether metrics are also written for TensorBoard, in the run's tensorboard/."),
      ESTRAIN_KEY(logging.openmetrics)
          .not_in_bits()
          .means("Whether the run's metrics.prom has its status every second, in the OpenMetrics text format, "
                 "for Prometheus' node_exporter."),
  };
}

}  // namespace

const std::vector<Key<JobSpec>>& job_keys() {
  static const std::vector<Key<JobSpec>> keys = [] {
    std::vector<Key<JobSpec>> all;
    for (const auto& part : {job_and_model_keys(), data_keys(), optimizer_and_schedule_keys(), other_keys()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return keys;
}

const std::vector<Key<OptimizerGroup>>& group_keys() {
  static const std::vector<Key<OptimizerGroup>> keys = {
      ESTRAIN_GROUP_KEY(match).filled().must_be_given().means(
          "Glob patterns (`*`, `?`, `[abc]`) on the names of parameters, such as `*.bias`."),
      ESTRAIN_GROUP_KEY(lr).min(0).unset("optimizer.lr").means("The group's learning rate."),
      ESTRAIN_GROUP_KEY(weight_decay).min(0).unset("optimizer.weight_decay").means("The group's weight decay."),
      ESTRAIN_GROUP_KEY(momentum)
          .min(0)
          .unset("optimizer.momentum")
          .only("optimizer.name", with_momentum)
          .means("The group's momentum."),
  };
  return keys;
}

#undef ESTRAIN_KEY
#undef ESTRAIN_GROUP_KEY

const Key<JobSpec>* find_key(std::string_view name) {
  const auto& keys = job_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::string_view table_of(std::string_view name) { return name.substr(0, name.find('.')); }
std::string_view leaf_of(std::string_view name) { return name.substr(name.find('.') + 1); }

bool holds(const Condition& condition, const JobSpec& spec) {
  const std::string value = find_key(condition.selector)->write(spec).value_or("");
  return std::any_of(condition.values.begin(), condition.values.end(),
                     [&](const std::string& allowed) { return toml::literal(allowed) == value; });
}

bool all_hold(const std::vector<Condition>& conditions, const JobSpec& spec) {
  return std::all_of(conditions.begin(), conditions.end(),
                     [&](const auto& condition) { return holds(condition, spec); });
}

}  // namespace estrain::spec
