#pragma once
// From the spec's [model] section to a model. The only place that knows the zoo's names.

#include <memory>

#include "core/model/data_shape.h"
#include "core/model/initializer.h"
#include "core/model/model.h"
#include "core/spec/job_spec.h"

namespace estrain::model {

// `classes`: labels are 0 .. classes - 1; for text the size of the vocabulary.

// Throws Fault::spec where no such model exists, or it cannot take such samples: images too small (saying the smallest
// size), images for a text model, sequences beyond its context, heads that do not divide the width. Costs nothing.
void check_model(const spec::ModelSection& section, const DataShape& shape, int64_t classes);

// Checks, then builds the model in training mode. `section.init` is the caller's business. Throws as check_model(), and
// Fault::infeasible for want of memory.
std::shared_ptr<Model> build_model(const spec::ModelSection& section, double label_smoothing, const DataShape& shape,
                                   int64_t classes, Initializer& init);

}  // namespace estrain::model
