#include <fmt/ranges.h>

#include <iterator>

#include "core/base/error.h"
#include "core/data/format_table.h"
#include "core/data/formats/dataset.h"
#include "core/data/sampling/padded_array.h"
#include "core/formats/h5/filters.h"

namespace estrain::data {
namespace {

// The test set is in the last file.
void require_samples(const DataPair& pair) {
  if (pair.train->size() == 0)
    throw Error::make(Fault::corrupt, "data: {}: the training set is empty", pair.files.front().path);
  if (pair.test && pair.test->size() == 0) {
    throw Error::make(Fault::corrupt, "data: {}: the test set is empty, so there is nothing to evaluate",
                      pair.files.back().path)
        .advise("give a test set with samples, or remove the keys of data that name it");
  }
}

std::string describe(const SampleShape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }

}  // namespace

void Dataset::read_fields(int64_t, const SampleDraw&, std::span<std::byte* const>) const {
  throw Error(Fault::bug, "a data set of one array was asked for several");
}

void Dataset::read_run(const SampleRun& run) const {
  const SampleShape samples = shape();
  std::vector<std::byte*> out = run.out;
  int64_t* targets = run.targets;
  for (size_t place = 0; place < run.indices.size(); ++place) {
    if (run.is_abandoned()) return;
    const int64_t index = run.indices[place];
    const SampleDraw draw = run.draw(index, place);
    if (samples.kind == SampleShape::Kind::fields) {
      read_fields(index, draw, out);
    } else {
      read(index, draw, out.front(), targets);
      targets += samples.targets();
    }
    for (size_t i = 0; i < out.size(); ++i) out[i] += samples.bytes_of_input(i);
  }
}

DataPair open(const spec::DataSection& section, int64_t text_context, uint64_t seed, std::optional<int64_t> classes,
              const std::vector<std::string>& arrays) {
  DataPair pair = with_context("data", [&] {
    if (section.plugins) h5::allow_plugins();
    const Format& format = format_of(section);
    std::vector<DataFile> files = open_files(format.file_names(section));
    DataPair opened = format.open({section, text_context, seed, classes, arrays}, files);
    opened.files.insert(opened.files.begin(), std::make_move_iterator(files.begin()),
                        std::make_move_iterator(files.end()));
    return opened;
  });
  require_samples(pair);
  if (pair.test && pair.train->shape().kind == SampleShape::Kind::fields) {
    require_same_arrays(pair.train->shape(), pair.test->shape());
  } else if (pair.test && pair.test->shape() != pair.train->shape()) {
    throw Error::make(Fault::mismatch, "data: training samples have shape {}, test samples {}",
                      describe(pair.train->shape()), describe(pair.test->shape()))
        .advise("set data.resize or data.crop to give both the same size");
  }
  return pair;
}

}  // namespace estrain::data
