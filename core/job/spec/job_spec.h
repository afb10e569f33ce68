#pragma once
// A checked training job as the user wrote it. Every default is in this file and nowhere else. keys.cpp documents each
// key's meaning, range and unit; help, configs/REFERENCE.md and the messages are made from keys.cpp.
//
// JobSpec is plain data: it holds no file handles, and two equal JobSpecs give two runs with equal bits (given D1 and
// one kind of device).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/job/batches/batch_change.h"
#include "core/job/spec/optimizer_section.h"

namespace estrain::spec {

// EasyScale section 3.3: the conditions under which bits stay the same.
enum class Determinism { d0, d1, d2, automatic };
enum class Kernels { torch, portable };
enum class Precision { fp32, tf32, bf16 };
enum class Algorithms { measured, torch };
enum class CudaGraphs { off, automatic };
enum class Exchange { automatic, host };
enum class StateMemory { device, host };
enum class Secrecy { all, control };
enum class SendFactors { automatic, always, never };
enum class DataFormat { idx, cifar10, cifar100, text, hdf5, synthetic, tokens, images, webdataset, voc, python };
enum class TokenType { u16, u32 };
enum class ImageOrder { automatic, nchw, nhwc };
enum class Sampler { all, weighted, balanced, per_class };
enum class Weight { ests, tokens };
enum class Loss { output, cross_entropy, mse, bce_with_logits, nll };
enum class NonfinitePolicy { stop, skip };

struct JobSection {
  std::string name = "job";
  int64_t seed = 0;  // >= 0
  int64_t ests = 1;  // N, fixed for the life of the job
  Determinism determinism = Determinism::d1;
  Kernels kernels = Kernels::torch;  // D2 implies portable
  int64_t threads = 1;               // intra-op threads of every worker; part of the bits
  // Precision of the forward and backward pass. tf32: products and convolutions on GPUs; bf16: torch.autocast's choice
  // of operators. Weights, gradients, their sums and the optimizer are always fp32.
  Precision precision = Precision::fp32;
  // The choice of algorithms for products and convolutions on GPUs: measured once by the run, or made by LibTorch's
  // heuristics, which give the bits of PyTorch on the same GPU.
  Algorithms algorithms = Algorithms::measured;
  // Whether GPUs replay an EST's forward and backward pass as a CUDA graph. Does not affect the bits.
  CudaGraphs cuda_graphs = CudaGraphs::off;
  // How several workers sum gradients: GPUs among themselves, if each worker has its own GPU, or in host memory. Does
  // not affect the bits.
  Exchange exchange = Exchange::automatic;
  // Where GPUs that keep the state have the optimizer slots: in their own memory, or in page-locked memory of the host,
  // which takes less memory of the GPU and makes steps slower. Does not affect the bits.
  StateMemory state = StateMemory::device;

  bool operator==(const JobSection&) const = default;
};

// A CodePlace is "net.py:build": a file of Python code, and a name in the file.
struct CodePlace {
  std::string file, name;

  explicit CodePlace(const std::string& place)
      : file(place.substr(0, place.rfind(':'))),
        name(place.size() > file.size() ? place.substr(file.size() + 1) : "") {}
  bool is_whole() const { return !file.empty() && !name.empty(); }
};

struct ModelSection {
  std::string name;                     // mlp, lenet, resnet18/34/50, vgg11/19, gpt, program, python
  std::string init;                     // file with the initial weights; empty: from the seed
  std::vector<std::string> init_match;  // names that come from `init`, patterns; "!…" leaves out; empty: all, strictly
  std::vector<std::string> init_prefix;  // "A=B": names that begin with A in `init` begin with B in the model
  std::optional<int64_t> classes;        // default: the data set's (text: the vocabulary of 256 bytes)
  std::vector<int64_t> hidden = {128};   // mlp: width of each hidden layer
  std::optional<double> dropout;         // gpt: 0.1; vgg: 0.5; mlp: 0
  int64_t layers = 2;                    // gpt: number of blocks
  int64_t heads = 2;                     // gpt
  int64_t width = 64;                    // gpt: embedding width; a multiple of heads
  int64_t context = 64;                  // gpt: longest sequence, in tokens
  bool tied = true;                      // gpt: output projection shares the token embedding
  std::string file;                      // program: exported in train() mode; python: "net.py:build"
  std::string eval_file;                 // program: exported in eval() mode; empty: `file` with dropout off
  Loss loss = Loss::output;              // program, python
  std::string loss_target;               // both: the input for the loss to compare with; empty: the data's labels
  std::string python;                    // python: the interpreter; empty: python3 of the environment

  bool is_python() const { return name == "python"; }
  bool is_users() const { return name == "program" || is_python(); }
  // The two parts of `file` for python. The function's name is empty if `file` has no colon.
  std::string code_file() const { return CodePlace(file).file; }
  std::string function() const { return CodePlace(file).name; }

  bool operator==(const ModelSection&) const = default;
};

struct DataSection {
  DataFormat format = DataFormat::synthetic;
  std::string path;            // a folder (idx, cifar, images, voc), a file (text, tokens, hdf5), either (webdataset)
  std::string images, labels;  // idx: training files, instead of `path`
  std::string test_images, test_labels;  // idx: test files, instead of `path`
  std::string test_path;  // hdf5, images, webdataset: the test set. text, tokens: test file, instead of `holdout`. voc:
                          // the folder of test_list, if different
  std::optional<double> holdout;  // part kept for evaluation, [0, 1): text and tokens 0.1, the last of the file;
                                  // images, webdataset, hdf5, python 0, samples of each class
  TokenType token_type = TokenType::u16;          // tokens: the type in a file without the name of a type
  ImageOrder layout = ImageOrder::automatic;      // hdf5: where the channels of images stand
  bool plugins = false;                           // hdf5: load filter plugins; does not affect the bits
  std::string list = "train", test_list = "val";  // voc: ImageSets/Main/NAME.txt; no test_list: no test set
  int64_t boxes = 56;                             // voc: places for boxes in a sample
  std::vector<std::string> names;                 // voc: classes; empty: VOC's twenty
  bool difficult = false;                         // voc: take "difficult" objects, too
  std::string file, test_file;                    // python: "data.py:train", a file and what in it gives the data set
  std::string python;        // python: the interpreter; empty: model.python, or else python3 of the environment
  double hang_seconds = 60;  // python: for a sample, before a data worker counts as hung; 0: no limit
  int64_t batch = 32;        // samples per EST and step
  bool shuffle = true;
  bool drop_last = false;          // leave out an epoch's last, short batch
  Sampler sampler = Sampler::all;  // how an epoch's samples are drawn
  std::string sample_weights;      // sampler "weighted": where the weights of the samples are
  int64_t per_class = 0;           // sampler "per_class": samples of each class in a mini-batch
  int64_t skip_bad = 0;            // samples that may be left out because they cannot be read
  // image transforms, in this order
  std::optional<int64_t> channels;  // 3: repeat a grey channel three times; 1: must be grey already
  std::vector<int64_t> resize;      // [height, width], bilinear (half-pixel centres, no anti-aliasing); photos (images,
                                    // webdataset): anti-aliased, [side] for the shorter side alone
  int64_t pad = 0;                  // zero pixels added on each side, before normalisation
  std::vector<int64_t> crop;        // [height, width]: random place in training, centre in evaluation
  std::vector<double> scale;        // photos: part of the area cut out in training and scaled to `crop`; empty: no cut
  std::vector<double> ratio = {3.0 / 4, 4.0 / 3};  // photos: width / height of the cut of `scale`
  bool flip = false;                               // mirror left-right with probability 1/2 in training
  bool orient = false;                             // photos: turned as their EXIF data say
  std::vector<double> jitter;                      // brightness, contrast, saturation, hue, in training
  std::vector<int64_t> rand_augment;               // [operations, magnitude], in training
  double erase = 0;                                // probability of an erased rectangle in training
  double mixup = 0, cutmix = 0;                    // alpha of the Beta distribution; 0: none
  std::vector<double> mean, std;                   // per channel, on the [0, 1] scale; empty: not normalised
  // synthetic
  std::vector<int64_t> shape = {3, 32, 32};  // of one sample; rank 1 gives vectors
  int64_t samples = 1024;                    // training samples; an eighth as many for evaluation, at least one
  // loading; does not affect the bits
  int64_t readers = 1;   // reader threads (python: processes) of a worker, whatever its number of ESTs; 0: tuned
  int64_t prefetch = 4;  // mini-batches read ahead of need, per worker
  // hdf5, arrays whose samples have lengths of their own (data/formats/hdf5_arrays.h)
  std::vector<std::string> pad_values;  // "NAME=VALUE": what fills the end of a shorter sample; otherwise 0
  int64_t pad_multiple = 1;             // mini-batches are padded to a multiple of this length
  int64_t bucket = 0;                   // steps whose samples are sorted by length; 0: not sorted

  bool operator==(const DataSection&) const = default;
};

struct TrainSection {
  std::optional<int64_t> steps;  // exactly one of steps and epochs
  std::optional<int64_t> epochs;
  int64_t eval_every = 0;      // steps between evaluations; 0: at the end of each epoch; -1: never
  int64_t eval_batch = 256;    // samples per evaluation batch
  double clip_grad_norm = 0;   // 0: no clipping
  double label_smoothing = 0;  // [0, 1)
  // Metrics of an evaluation beside loss and accuracy.
  std::vector<int64_t> top_k;        // accuracies that count a target among the k most likely classes
  bool per_class = false;            // accuracy of each class
  std::vector<std::string> metrics;  // program: names of the evaluation program's outputs from the second output on
  std::vector<std::string> terms;    // names of the training program's outputs from the second output on
  Weight weight = Weight::ests;      // what counts alike in the mean over ESTs
  std::vector<double> loss_weights;  // of the classes; empty: 1 each
  // A step whose gradients hold NaN or infinity: end the job, or continue without that step's update.
  NonfinitePolicy nonfinite = NonfinitePolicy::stop;
  // A function of the user's Python that gets all outputs of an evaluation (engine/train/evaluation/users_metrics.h).
  std::string metrics_file;                // "metrics.py:f"; empty: none
  std::vector<std::string> metrics_names;  // the numbers that the function returns
  std::string metrics_python;              // the interpreter; empty: model.python, data.python, or else python3
  std::vector<std::string> falling;        // metrics that get better by falling, beside the loss

  bool operator==(const TrainSection&) const = default;
};

struct CheckpointSection {
  int64_t every = 0;  // steps; 0: only at step 0, resizes, stops and the end
  int64_t keep = 3;   // newest valid checkpoints to keep (step 0 always stays); >= 1
  // Every evaluated state is saved, too, and the state of the best evaluation stays.
  std::string best = "none";  // the metric, by name (comparable_metrics())

  bool operator==(const CheckpointSection&) const = default;
};

// An average of the weights: average = decay * average + (1 - decay) * weights, after every step.
struct EmaSection {
  double decay = 0;      // 0: no average
  bool evaluate = true;  // evaluations are of the average

  bool operator==(const EmaSection&) const = default;
};

// The job ends if evaluations no longer get better.
struct EarlyStopSection {
  int64_t patience = 0;         // evaluations in a row without a new best; 0: no early stop
  std::string metric = "loss";  // the metric to compare, by name (comparable_metrics())
  double min_delta = 0;         // the least improvement that counts as better

  bool operator==(const EarlyStopSection&) const = default;
};

struct ResourcesSection {
  std::string devices = "1";  // a number of CPU workers, a list such as "cpu,cpu", or "auto"

  bool operator==(const ResourcesSection&) const = default;
};

// The reaction to a process of the run that ends or hangs (core/run/faults/diagnosis.h).
struct RecoverySection {
  int64_t retries = 3;  // faults at the same step before the job gives up; 0: any fault ends the job
  double hang_seconds =
      0;              // seconds without progress before a worker counts as hung; 0: derived from the job's own steps
  std::string rules;  // TOML file of further rules for recognising causes; empty: only the built-in rules

  bool operator==(const RecoverySection&) const = default;
};

// Whether the planner changes devices and shares while the job runs.
enum class ElasticMode {
  manual,     // the user alone, by `estrain resize`
  automatic,  // the planner too: it weighs offers, moves ESTs away from slow workers, and falls back
};

// Whether the batch size and learning rate may be changed while the job runs, which changes its bits.
enum class BatchMode { fixed, adaptive };

struct ElasticSection {
  ElasticMode mode = ElasticMode::manual;
  BatchMode batch = BatchMode::fixed;
  // The changes so far, and changes known beforehand; in the order of steps. changes.jsonl of a run lists the changes,
  // too.
  std::vector<batches::BatchChange> changes = {};
  std::vector<int64_t> batch_range;  // [least, most] for a pool's choice, samples per EST and step; empty: any

  bool operator==(const ElasticSection&) const = default;
};

// Computing mini-batches a second time to find devices that compute wrong results (core/state/audit/audit.h).
struct AuditSection {
  int64_t every = 0;  // steps; 0: no audit
  bool redo = false;  // the steps since the last good audit

  bool operator==(const AuditSection&) const = default;
};

// Connections between the hosts of a job (core/hosts/net/connection.h).
struct NetworkSection {
  Secrecy secrecy = Secrecy::all;  // control: workers' data goes in clear, between hosts that proved the key
  std::string interface;           // the interface between hosts ("eth0"); empty: the system chooses
  SendFactors factors = SendFactors::automatic;  // of gradients, where these are smaller

  bool operator==(const NetworkSection&) const = default;
};

struct LoggingSection {
  double every_seconds = 1;    // between progress lines (not on a terminal: 10 times as long)
  bool fingerprints = true;    // record digests of every step
  std::vector<int64_t> trace;  // [first, last]: steps that workers record operator by operator
  bool tensorboard = false;    // write metrics for TensorBoard, too
  bool openmetrics = false;    // write the status for Prometheus, too

  bool operator==(const LoggingSection&) const = default;
};

struct JobSpec {
  JobSection job;
  ModelSection model;
  DataSection data;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  TrainSection train;
  EmaSection ema;
  EarlyStopSection early_stop;
  CheckpointSection checkpoint;
  ResourcesSection resources;
  RecoverySection recovery;
  ElasticSection elastic;
  AuditSection audit;
  NetworkSection network;
  LoggingSection logging;

  bool operator==(const JobSpec&) const = default;
};

}  // namespace estrain::spec
