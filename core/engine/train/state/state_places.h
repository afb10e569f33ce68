#pragma once
// The places of all tensors in a copy of the state. Each part appends its own places to the layout, in the order of the
// members.

#include <cstdint>

#include "core/engine/train/state/average_places.h"
#include "core/engine/train/state/est_places.h"
#include "core/engine/train/state/metric_places.h"
#include "core/engine/train/state/model_places.h"
#include "core/engine/train/state/optimizer_places.h"

namespace estrain::train {

struct StatePlaces {
  ModelPlaces model;
  OptimizerPlaces optimizer;
  EstPlaces ests;
  MetricPlaces metrics;
  AveragePlaces averages;
  uint64_t bytes;  // of one copy
};

}  // namespace estrain::train
