#include "core/data/formats/hdf5.h"

#include "core/base/error.h"
#include "core/data/formats/hdf5_arrays.h"
#include "core/data/formats/holdout.h"
#include "core/data/formats/labelled_images.h"
#include "core/data/sampling/padded_array.h"
#include "core/formats/h5/elsewhere.h"
#include "core/formats/h5/file.h"
#include "core/formats/h5/group.h"
#include "core/job/spec/defaults.h"

namespace estrain::data {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr const char* kHdf5Advice =
    "images must be uint8 or float32 of shape (N, C, H, W), (N, H, W) or, with data.layout = \"nhwc\", (N, H, W, C); "
    "labels integers of shape (N)";
constexpr int64_t kMostChannels = 4;  // of usual images: grey, with alpha, colours, with alpha

Error wrong(const std::string& path, const std::string& what) {
  return Error::make(Fault::mismatch, "{}: {}", path, what).advise(kHdf5Advice);
}

void require_clear_order(const std::vector<int64_t>& shape, const std::string& path) {
  if (shape[1] <= kMostChannels || shape[3] > kMostChannels) return;
  throw Error::make(Fault::mismatch, "{}: images of shape {}: {} channels of {} x {} pixels, or {} channels of {} x {}",
                    path, h5::shape_text(shape), shape[1], shape[2], shape[3], shape[3], shape[1], shape[2])
      .advise(fmt::format("say which: data.layout = \"nhwc\" for {0} channels, which stand last, or \"nchw\" for {1}",
                          shape[3], shape[1]));
}

bool is_integer(h5::Type type) { return type != h5::Type::f32 && type != h5::Type::f64 && type != h5::Type::other; }

struct StoredImages {
  ImageLayout layout;
  bool is_interleaved = false;  // a pixel's channels stand together
};

// How the dataset `images` of the file `path` holds images, by data.layout. Without data.layout, a shape of images of a
// few pixels with many channels is refused if the opposite layout would mean usual images.
StoredImages stored_images(const h5::DatasetObject& images, spec::ImageOrder order, const std::string& path) {
  const std::vector<int64_t>& shape = images.shape();
  const size_t rank = shape.size();
  if (rank != 3 && rank != 4) throw wrong(path, "images has shape " + h5::shape_text(shape));
  if (images.type() != h5::Type::u8 && images.type() != h5::Type::f32)
    throw wrong(path, "images holds neither uint8 nor float32");
  if (rank == 4 && order == spec::ImageOrder::automatic) require_clear_order(shape, path);
  StoredImages stored;
  stored.is_interleaved = rank == 4 && order == spec::ImageOrder::nhwc;
  const size_t row = stored.is_interleaved ? 1 : rank - 2;
  const int64_t channels = rank == 3 ? 1 : stored.is_interleaved ? shape[3] : shape[1];
  stored.layout = {images.type() == h5::Type::u8 ? PixelType::u8 : PixelType::f32, channels, shape[row],
                   shape[row + 1]};
  if (stored.layout.elements() == 0) throw wrong(path, "its images have no pixels");
  return stored;
}

// The dataset `images` or `labels`.
h5::DatasetObject labelled_part(const h5::Group& root, const char* name, const std::string& path) {
  if (root.contains(name)) return root.dataset(name);
  throw Error::make(Fault::mismatch, "{}: has no dataset {}; it has: {}", path, name, names_in(root))
      .advise(fmt::format("{}; arrays of other names are for a network of your own, whose forward names them: "
                          "`estrain init DATA --model net.py:build` writes such a job",
                          kHdf5Advice));
}

// All labels of the file `path`.
std::vector<int64_t> hdf5_labels(const h5::DatasetObject& labels, const std::string& path) {
  if (labels.shape().size() != 1 || !is_integer(labels.type()))
    throw wrong(path, fmt::format("labels is not a list of integers, but {} {}", h5::type_name(labels.type()),
                                  h5::shape_text(labels.shape())));
  require_readable(labels, path);
  std::vector<int64_t> values(static_cast<size_t>(labels.elements()));
  labels.read(h5::Type::i64, values.data());
  return values;
}

std::unique_ptr<ImageTable> read_hdf5_images(const DataFile& file, spec::ImageOrder order) {
  const std::string& path = file.path;
  const h5::Group root = h5::File::open(path).root();
  const h5::DatasetObject images = labelled_part(root, "images", path), labels = labelled_part(root, "labels", path);
  const StoredImages stored = stored_images(images, order, path);
  const std::vector<int64_t> values = hdf5_labels(labels, path);
  if (images.shape()[0] != static_cast<int64_t>(values.size()))
    throw Error::make(Fault::corrupt, "{}: {} images, but {} labels", path, images.shape()[0], values.size());
  auto table = std::make_unique<ImageTable>(stored.layout);
  if (values.empty()) return table;
  const Elements pixels = elements_of(images, images.type(), file);
  table->append({pixels.owner, pixels.first, stored.layout.bytes(), stored.is_interleaved}, values, path + ": labels");
  return table;
}

void scan_hdf5_images(const h5::File& file, spec::ImageOrder order, ScannedSet& set, std::vector<Finding>& findings) {
  note_file(findings, file.path(), [&] {
    const h5::DatasetObject images = labelled_part(file.root(), "images", file.path());
    const ImageLayout layout = stored_images(images, order, file.path()).layout;
    set.files.back().images = images.shape()[0];
    set.layout = layout;
    require_readable(images, file.path());
    return fmt::format("{} images of {}, {}", images.shape()[0], text_of(layout), h5::type_name(images.type()));
  });
}

void scan_hdf5_labels(const h5::File& file, LabelledFile& labelled, std::vector<Finding>& findings) {
  note_file(findings, file.path(), [&] {
    labelled.labels = hdf5_labels(labelled_part(file.root(), "labels", file.path()), file.path());
    return fmt::format("{} labels", labelled.labels->size());
  });
}

ScannedSet scan_hdf5_set(std::string name, const std::string& path, spec::ImageOrder order,
                         std::vector<Finding>& findings) {
  ScannedSet set{std::move(name), {}, {{path + ": labels", {}, {}}}};
  try {
    const h5::File file = h5::File::open(path);
    scan_hdf5_images(file, order, set, findings);
    scan_hdf5_labels(file, set.files.back(), findings);
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
  }
  return set;
}

std::vector<ScannedSet> scan_pictures(const spec::DataSection& section, std::vector<Finding>& findings) {
  std::vector<ScannedSet> sets = {scan_hdf5_set("training", section.path, section.layout, findings)};
  if (!section.test_path.empty()) sets.push_back(scan_hdf5_set("test", section.test_path, section.layout, findings));
  return sets;
}

std::unique_ptr<Dataset> scan_array_file(const FileName& name, const DataRequest& request,
                                         std::vector<Finding>& findings) {
  try {
    std::unique_ptr<Dataset> samples = read_hdf5_arrays(open_files({name}).front(), request.arrays, request.section);
    findings.push_back(Finding::fine(
        "data", fmt::format("{}: {} samples of {}", name.path, samples->size(), describe_arrays(samples->shape()))));
    return samples;
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
    return nullptr;
  }
}

void scan_arrays(const DataRequest& request, DataScan& scan) {
  const spec::DataSection& section = request.section;
  const std::vector<std::string>& arrays = request.arrays;
  try {
    refuse_transforms(section, arrays);
  } catch (const Error& error) {
    scan.findings.push_back(Finding::of("data", error));
  }
  const auto train = scan_array_file({"training data", section.path, FileKind::as_it_is}, request, scan.findings);
  if (train) scan.train_samples = train->size();
  if (train && section.test_path.empty()) note_held_out(scan, of_one_class(train->size()), spec::holdout(section));
  if (section.test_path.empty()) return;
  const auto test = scan_array_file({"test data", section.test_path, FileKind::as_it_is}, request, scan.findings);
  if (!train || !test) return;
  try {
    require_same_arrays(train->shape(), test->shape());
  } catch (const Error& error) {
    scan.findings.push_back(Finding::of("data", error));
  }
}

// The files are the training file, the test file if the section has the key, then the files to which links and virtual
// datasets lead.
DataPair open_pictures(const DataRequest& request, const std::vector<DataFile>& files) {
  refuse_padding(request.section);
  const spec::ImageOrder order = request.section.layout;
  const bool has_test = !request.section.test_path.empty();
  return open_images({read_hdf5_images(files[0], order), has_test ? read_hdf5_images(files[1], order) : nullptr},
                     request);
}

DataPair open_arrays(const DataRequest& request, const std::vector<DataFile>& files) {
  refuse_transforms(request.section, request.arrays);
  DataPair pair;
  pair.train = read_hdf5_arrays(files[0], request.arrays, request.section);
  if (!request.section.test_path.empty()) {
    pair.test = read_hdf5_arrays(files[1], request.arrays, request.section);
  } else {
    hold_out(pair, of_one_class(pair.train->size()), spec::holdout(request.section), request.seed);
  }
  return pair;
}

// HDF5 opens files again, by path.
void require_unchanged(const std::vector<DataFile>& files) {
  for (const DataFile& file : files)
    if (FileStamp::of(file.path) != file.content.stamp)
      throw Error::make(Fault::io, "{}: changed while it was read", file.path).advise("try again");
}

// The inputs of a module in Python are not known before the module is built: the module is offered all arrays.
ModelInputs offered_inputs(const std::string& path) {
  constexpr program::ScalarType any_class = program::ScalarType::i64;
  ModelInputs inputs;
  for (const std::string& name : array_names(path))
    inputs.push_back({.name = name, .type = name == "images" ? program::ScalarType::f32 : any_class, .sizes = {}});
  return inputs;
}

class Hdf5Format : public Format {
 public:
  // The files of the section, then the files to which links and virtual datasets in these lead.
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    std::vector<FileName> names =
        one_or_two(section, {"", "", FileKind::as_it_is}, "data.format = \"hdf5\" needs data.path, the training file");
    for (const FileName& name : std::vector<FileName>(names)) {
      int64_t part = 0;
      for (const std::string& path : h5::other_files(name.path))
        names.push_back({fmt::format("{}, part {}", name.what, ++part), path, FileKind::as_it_is});
    }
    return names;
  }
  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    DataPair pair = request.arrays.empty() ? open_pictures(request, files) : open_arrays(request, files);
    require_unchanged(files);
    return pair;
  }
  void scan(const DataRequest& request, DataScan& scan) const override {
    if (!request.arrays.empty()) return scan_arrays(request, scan);
    scan_images(scan, scan_pictures(request.section, scan.findings), request);
  }
  // The code that opens the data reports an unreadable file.
  std::vector<std::string> arrays_for(const std::string& path, const std::optional<ModelInputs>& known) const override {
    ModelInputs inputs = known.value_or(ModelInputs());
    try {
      if (!known) inputs = offered_inputs(path);
      if (is_labelled_pictures(path, inputs)) return {};
    } catch (const Error&) {
      return names_of(inputs);
    }
    return names_of(inputs);
  }
  std::optional<DataPlace> in_folder(const std::filesystem::path& folder) const override {
    const std::filesystem::path train = folder / "train.h5", test = folder / "test.h5";
    if (!exists(train)) return std::nullopt;
    return DataPlace{train, exists(test) ? test.string() : ""};
  }
  bool is_file(const std::filesystem::path&, std::string_view first_bytes) const override {
    return first_bytes.starts_with(kSignature);
  }
};

}  // namespace

const Format& hdf5_format() {
  static const Hdf5Format format;
  return format;
}

void require_labelled_images(const std::string& path) {
  const h5::Group root = h5::File::open(path).root();
  for (const char* name : {"images", "labels"}) labelled_part(root, name, path);
}

}  // namespace estrain::data
