#pragma once
// The record of a step or an evaluation in the run's files.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace estrain::record {

struct StepRecord {
  Step step;    // 1 after the first update
  Epoch epoch;  // of the step's samples
  double lr = 0;
  float loss = 0;                 // tree mean of the ESTs' losses
  std::vector<float> est_losses;  // by virtual rank
  std::vector<uint64_t> digests;  // in the order of the fingerprints file's names
  double samples_per_second = 0;
  // Terms of the loss by name, folded like the loss (train.terms). Not finite: null in the file.
  std::vector<std::pair<std::string, float>> terms = {};
  bool left_out = false;  // no update: a number was not finite (train.nonfinite = "skip")
};

struct EvaluationRecord {
  Step step;
  double loss = 0;
  double accuracy = 0;      // 0 to 1; null in the file without predictions
  int64_t predictions = 0;  // 0: the model makes no right or wrong predictions
  // By name: "top5", "class3", "perplexity", a user's. NaN: null in the file.
  std::vector<std::pair<std::string, double>> metrics = {};
};

}  // namespace estrain::record
