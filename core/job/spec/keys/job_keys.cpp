#include "core/job/spec/keys/key_parts.h"

namespace estrain::spec {
namespace {

const Words models(model_names.begin(), model_names.end());

}  // namespace

std::vector<SpecKey<JobSpec>> job_and_model_keys() {
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
                 "not with the portable kernels, and not for a module in Python."),
      ESTRAIN_KEY(job.exchange)
          .not_in_bits()
          .means("How several workers sum gradients: \"auto\": by NCCL between GPUs, if each worker has one "
                 "of its own, and on several hosts if network.secrecy is \"control\"; otherwise, or with \"host\", in "
                 "host memory."),
      ESTRAIN_KEY(job.state).not_in_bits().means(
          "Where GPUs have the optimizer's slots: in their own memory (\"device\"), or in page-locked memory of "
          "the host (\"host\"), for models that do not fit otherwise. Each step then reads and writes the slots "
          "over the GPU's link to the host."),
      ESTRAIN_KEY(job.threads).min(1).max(1024).means("Intra-op threads of every worker; part of the bits."),

      ESTRAIN_KEY(model.name).choices(models).must_be_given().means("The network to train."),
      ESTRAIN_KEY(model.init)
          .path()
          .means("HDF5 or safetensors file with a PyTorch state_dict to start from, a checkpoint, or a "
                 "model.safetensors.index.json; empty: initial weights from the seed."),
      ESTRAIN_KEY(model.init_match)
          .not_in_bits()
          .means("Parameters and buffers that come from model.init, as patterns: [\"backbone.*\"], or [\"*\", "
                 "\"!head.*\"] for all but a head. All others keep their values from the seed, and the file may have "
                 "more. Empty: all come from the file, which has no others."),
      ESTRAIN_KEY(model.init_prefix)
          .not_in_bits()
          .means("How names begin in model.init and in the model: [\"module.\"] removes the beginning, "
                 "[\"bert.=encoder.\"] gives another one, [\"=net.\"] adds one."),
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
          .means("program: the exported program (.pt2) to train, exported in train() mode (`estrain export`). python: "
                 "\"net.py:build\", a file and the function in it that returns the module."),
      ESTRAIN_KEY(model.python)
          .path()
          .only("model.name", {"python"})
          .not_in_bits()
          .means(
              "The Python that workers run in, such as \"venv/bin/python\", with the LibTorch that estrain is built "
              "with; empty: ESTRAIN_PYTHON of the environment, which an estrain installed by pip sets, else python3."),
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

}  // namespace estrain::spec
