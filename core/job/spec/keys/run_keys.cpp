#include "core/job/spec/keys/key_parts.h"

namespace estrain::spec {
namespace {

constexpr int64_t kMostSeconds = 1'000'000'000;

const Words adaptive = {"adaptive"};

}  // namespace

std::vector<SpecKey<JobSpec>> run_keys() {
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
      ESTRAIN_KEY(train.label_smoothing)
          .min(0)
          .below(1)
          .means("Label smoothing of the cross entropy; evaluations are without it."),
      ESTRAIN_KEY(train.loss_weights)
          .min(0)
          .means(
              "Weights of the classes in the cross entropy (or model.loss = \"nll\"), in training and evaluation, as "
              "torch.nn.CrossEntropyLoss(weight=...); with \"bce_with_logits\" its pos_weight. Empty: 1 each."),
      ESTRAIN_KEY(train.weight)
          .means("What counts alike in a step: the ESTs' mean losses (ests), as in DistributedDataParallel, or each "
                 "target that is not ignored (tokens): the sum of all losses over the number of such targets, whatever "
                 "their share in an EST. A loss of the model's own needs the number as a term \"tokens\"."),
      ESTRAIN_KEY(train.terms)
          .only("model.name", users_models)
          .in_bits_only("train.weight", {"tokens"})
          .means("Names for the outputs of a user's model in training behind the first, a number each: terms of the "
                 "loss, on record at every step, folded over the ESTs like the loss."),
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
      ESTRAIN_KEY(train.metrics_file)
          .path()
          .means(
              "\"metrics.py:f\": a function in a file of Python code, which is called after each evaluation with all "
              "outputs of the evaluation set and returns metrics by name: F1, AUC, mAP. Empty: none."),
      ESTRAIN_KEY(train.metrics_names)
          .not_in_bits()
          .means("The names of the numbers that the function of train.metrics_file returns."),
      ESTRAIN_KEY(train.metrics_python)
          .path()
          .not_in_bits()
          .means(
              "The Python that runs train.metrics_file, with numpy; empty: model.python, data.python, ESTRAIN_PYTHON "
              "of the environment, or else python3."),
      ESTRAIN_KEY(train.falling)
          .means("Metrics that get better by falling, like the loss; all others get better by rising: for "
                 "early_stop.metric and checkpoint.best."),

      ESTRAIN_KEY(ema.decay).min(0).below(1).means(
          "Decay of the exponential moving average of the weights, like torch's AveragedModel with "
          "get_ema_multi_avg_fn(decay); 0: no average is kept."),
      ESTRAIN_KEY(ema.evaluate)
          .in_bits_only("schedule.name", following_evaluations)
          .means("Whether evaluations use the averaged weights, if there are any."),

      ESTRAIN_KEY(early_stop.patience)
          .min(0)
          .max(kMostSteps)
          .in_bits_as_switch()
          .means("Evaluations in a row without improvement before the job ends; 0: it does not end so. A resume may "
                 "change a number above 0 to another: a job that has ended early trains on."),
      ESTRAIN_KEY(early_stop.metric)
          .means(
              "The metric of evaluations that must improve: \"loss\", \"accuracy\", or a name such as \"top5\" or one "
              "of "
              "train.metrics and train.metrics_names. The loss and the names in train.falling improve by falling, all "
              "others by rising."),
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
          .means(
              "The metric of the best evaluation, as in early_stop.metric: every evaluated state is written, and the "
              "best one stays in checkpoints/best. \"none\": no such state."),

      ESTRAIN_KEY(resources.devices)
          .takes_integer()
          .filled()
          .not_in_bits()
          .means("A number of CPU workers, a list of devices such as \"cpu,cpu\", or \"auto\": the GPUs of the "
                 "allocation, else what the cores allow."),

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
                 "s. Also the longest time that a call of train.metrics_file may take; 0: ten minutes."),
      ESTRAIN_KEY(recovery.rules)
          .path()
          .not_in_bits()
          .means("TOML file of rules that recognise the causes of faults, tried before the built-in ones."),

      ESTRAIN_KEY(elastic.mode)
          .not_in_bits()
          .means("Whether the planner also changes the devices of the running job (auto: it "
                 "decides on offers, gives slow workers fewer ESTs, and undoes changes that prove slower), or only its "
                 "user (manual)."),
      ESTRAIN_KEY(elastic.batch)
          .not_in_bits()
          .means(
              "Whether the batch size and the learning rates may be changed while the job runs (adaptive: by "
              "`estrain change`, and by a pool whose policy chooses batches if train.epochs is given), which gives "
              "other bits than without the change. A pool scales learning rates with the batch: SGD's by the policy's "
              "rule, those of other optimizers by the square root of that."),
      ESTRAIN_KEY(elastic.changes)
          .not_in_bits()
          .only("elastic.batch", adaptive)
          .means("Changes of the batch size and the learning rates, in the order of their steps. Those that are made "
                 "while the job runs are added to its job.toml and listed in changes.jsonl."),
      ESTRAIN_KEY(elastic.batch_range)
          .min(1)
          .max(kMostSamples)
          .lengths({0, 2})
          .not_in_bits()
          .only("elastic.batch", adaptive)
          .means("[least, most]: batch sizes that a pool may choose, in samples per EST; empty: it may choose any."),

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
              "way. With \"control\" the GPUs of several hosts pass gradients to each other by NCCL, which does not "
              "encrypt, and lets in whoever reaches its ports."),
      ESTRAIN_KEY(network.interface)
          .not_in_bits()
          .means("The network interface by which the hosts of a job reach each other, such as \"eth0\"; \"\": as the "
                 "system chooses. Agents that start before the run take --interface."),

      ESTRAIN_KEY(network.factors)
          .not_in_bits()
          .means("Whether hosts send, in place of the gradient of a dense layer or an embedding, the two factors whose "
                 "product the gradient is; each host computes the product itself, with the same bits. \"auto\": where "
                 "the factors have less than half of the bytes, and the products take less time than the network; "
                 "\"always\": where they have less than half of the bytes; \"never\". Only for workers on the CPU, and "
                 "for models other than modules in Python."),

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

#define ESTRAIN_CHANGE_KEY(field) \
  make_key<batches::BatchChange>( \
      #field, [](auto& change) -> auto& { return change.field; })

const std::vector<SpecKey<batches::BatchChange>>& change_keys() {
  static const std::vector<SpecKey<batches::BatchChange>> keys = {
      ESTRAIN_CHANGE_KEY(after).min(0).max(kMostSteps).must_be_given().means("The steps after this one are changed."),
      ESTRAIN_CHANGE_KEY(batch)
          .min(1)
          .max(kMostSamples)
          .must_be_given()
          .means("Samples per EST and step from there on."),
      ESTRAIN_CHANGE_KEY(lr_factor).above(0).means("Factor on the learning rates of the schedule from there on."),
  };
  return keys;
}

#undef ESTRAIN_CHANGE_KEY

}  // namespace estrain::spec
