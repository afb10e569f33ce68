#pragma once
// Builds a model from the spec's [model] section. Only this file knows the names of the built-in models.

#include <memory>

#include "core/engine/model/data_shape.h"
#include "core/engine/model/layers/initializer.h"
#include "core/engine/model/model.h"
#include "core/job/spec/job_spec.h"

namespace estrain::model {

// `classes`: labels are 0 .. classes - 1; for text `classes` is the size of the vocabulary.

// Throws Fault::spec if the model does not exist or does not fit the samples: images too small (naming the smallest
// size), images for a text model, sequences longer than the context, heads that do not divide the width. Cheap.
void check_model(const spec::ModelSection& section, const DataShape& shape, int64_t classes);

// Checks, then builds the model in training mode. The caller handles `section.init`. Throws as check_model(), and
// Fault::infeasible if memory runs out.
std::shared_ptr<Model> build_model(const spec::ModelSection& section, double label_smoothing, const DataShape& shape,
                                   int64_t classes, Initializer& init);

}  // namespace estrain::model
