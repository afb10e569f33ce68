#include "core/job/spec/data_formats.h"
#include "core/job/spec/keys/key_parts.h"

namespace estrain::spec {
namespace {

Words formats_of(Samples samples) {
  return data_formats_with([=](const DataFormatTraits& row) { return row.samples == samples; });
}

const Words table_formats = formats_of(Samples::images);
const Words photo_formats = formats_of(Samples::photos);
const Words class_photo_formats = data_formats_with(
    [](const DataFormatTraits& row) { return row.samples == Samples::photos && !row.is_for_users_models; });
const Words holdout_formats = data_formats_with([](const DataFormatTraits& row) { return row.has_holdout; });
const Words image_formats =
    data_formats_with([](const DataFormatTraits& row) { return row.samples <= Samples::photos; });
const Words class_image_formats = data_formats_with(
    [](const DataFormatTraits& row) { return row.samples <= Samples::photos && !row.is_for_users_models; });
const Words file_formats = data_formats_with([](const DataFormatTraits& row) { return !row.is_made && !row.is_code; });
const Words code_formats = data_formats_with([](const DataFormatTraits& row) { return row.is_code; });
// Formats whose samples are decoded or made when needed.
const Words lazy_formats =
    data_formats_with([](const DataFormatTraits& row) { return row.samples == Samples::photos || row.is_code; });
const Words test_formats = data_formats_with([](const DataFormatTraits& row) { return row.has_test_path; });

}  // namespace

std::vector<SpecKey<JobSpec>> data_keys() {
  return {
      ESTRAIN_KEY(data.format).means("Format of the data set's files."),
      ESTRAIN_KEY(data.path)
          .path()
          .only("data.format", file_formats)
          .means("A folder (idx, cifar10, cifar100; images: with a folder of image files for each class), a file "
                 "(text, hdf5, tokens) or a pattern of files (tokens: \"fineweb_train_*.bin\", in sorted order), a tar "
                 "file or a folder of them (webdataset), or a folder as PASCAL VOC unpacks (voc)."),
      ESTRAIN_KEY(data.images).path().only("data.format", {"idx"}).means("Training images, instead of data.path."),
      ESTRAIN_KEY(data.labels).path().only("data.format", {"idx"}).means("Training labels, instead of data.path."),
      ESTRAIN_KEY(data.test_images).path().only("data.format", {"idx"}).means("Test images, instead of data.path."),
      ESTRAIN_KEY(data.test_labels).path().only("data.format", {"idx"}).means("Test labels, instead of data.path."),
      ESTRAIN_KEY(data.test_path)
          .path()
          .only("data.format", test_formats)
          .means("The file (tokens: or pattern) or folder for evaluation; voc: where data.test_list is, if not in "
                 "data.path."),
      ESTRAIN_KEY(data.holdout)
          .min(0)
          .below(1)
          .unset("0.1 of text and tokens, else 0")
          .only("data.format", holdout_formats)
          .only("data.test_path", {""})
          .only("data.test_file", {""})
          .means(
              "Fraction of the training samples that is kept for evaluation: the end of a text; of other data a part "
              "of each class, chosen by job.seed (of named arrays and a user's Dataset: of all samples)."),
      ESTRAIN_KEY(data.token_type)
          .only("data.format", {"tokens"})
          .means("Type of a token in flat files; .npy files and those of llm.c declare theirs."),
      ESTRAIN_KEY(data.layout)
          .only("data.format", {"hdf5"})
          .means(
              "Order of the dimensions of images: nchw or nhwc. auto is nchw, and refuses a shape that looks like the "
              "other, such as [1000, 32, 32, 3]."),
      ESTRAIN_KEY(data.plugins)
          .only("data.format", {"hdf5"})
          .not_in_bits()
          .means(
              "Whether HDF5 may load filters for compressed data from the folders in HDF5_PLUGIN_PATH. Their code runs "
              "in check, too."),
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
      ESTRAIN_KEY(data.file)
          .path()
          .only("data.format", code_formats)
          .means("\"data.py:train\": a file of Python code, and in the file a map-style Dataset, or a function that "
                 "returns "
                 "the Dataset: examples/python."),
      ESTRAIN_KEY(data.test_file)
          .path()
          .only("data.format", code_formats)
          .means("The same for evaluation, such as \"data.py:evaluation\"; empty: no evaluation."),
      ESTRAIN_KEY(data.python)
          .path()
          .only("data.format", code_formats)
          .not_in_bits()
          .means("The Python that reads the samples, with any release of torch; empty: model.python, ESTRAIN_PYTHON of "
                 "the environment, or else python3."),
      ESTRAIN_KEY(data.hang_seconds)
          .min(0)
          .max(1'000'000'000)
          .only("data.format", code_formats)
          .not_in_bits()
          .means("Seconds for a sample, after which the process that reads the sample counts as hung; 0: no limit."),
      ESTRAIN_KEY(data.batch).min(1).max(kMostSamples).means("Samples per EST and step."),
      ESTRAIN_KEY(data.shuffle).means("Whether every epoch has a new random order."),
      ESTRAIN_KEY(data.drop_last).means("Whether the last, short batch of an epoch is left out."),
      ESTRAIN_KEY(data.sampler)
          .means("How an epoch's samples are drawn. all: each once. weighted: as many, with replacement, by "
                 "data.sample_weights, as torch's WeightedRandomSampler. balanced: with replacement, every class "
                 "equally often. per_class: each mini-batch has data.per_class samples of each of some classes."),
      ESTRAIN_KEY(data.sample_weights)
          .path()
          .only("data.sampler", {"weighted"})
          .means("The weights of the training samples, in their order: a .npy file, a dataset \"FILE.h5:NAME\", or a "
                 "text file of numbers."),
      ESTRAIN_KEY(data.per_class)
          .min(0)
          .max(kMostSamples)
          .only("data.sampler", {"per_class"})
          .means("Samples of each class in a mini-batch; data.batch is a multiple. The classes of a mini-batch are "
                 "drawn without replacement, and so are a class's samples where it has enough."),
      ESTRAIN_KEY(data.skip_bad)
          .min(0)
          .max(kMostSamples)
          .not_in_bits()
          .only("data.format", lazy_formats)
          .means("Most samples that may be left out because they cannot be read; events.jsonl lists them, and one more "
                 "ends the job. In the place of such a sample stands the next one that can be read."),
      ESTRAIN_KEY(data.channels)
          .numbers({1, 3})
          .unset("as in the files")
          .only("data.format", image_formats)
          .means("3 repeats a grey channel three times; 1 requires grey images."),
      ESTRAIN_KEY(data.orient)
          .only("data.format", class_photo_formats)
          .means("Whether images are turned upright as their EXIF data say, before anything else: as Pillow's "
                 "ImageOps.exif_transpose."),
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
      ESTRAIN_KEY(data.rand_augment)
          .min(0)
          .max(30)
          .lengths({0, 2})
          .only("data.format", class_image_formats)
          .means("[operations, magnitude]: how often a training image is changed by a random one of 14 operations, and "
                 "how far, as by torchvision's RandAugment: 1 to 16 operations, a magnitude from 0 to 30; empty: not "
                 "at all. "
                 "After crop and flip, before data.jitter. For photos, and for images of bytes without data.resize."),
      ESTRAIN_KEY(data.jitter)
          .min(0)
          .max(1000)
          .lengths({0, 4})
          .only("data.format", image_formats)
          .means(
              "[brightness, contrast, saturation, hue]: how far the colours of training images change at random, as "
              "torchvision's ColorJitter; empty: not at all. For photos, and for images of bytes without data.resize."),
      ESTRAIN_KEY(data.erase)
          .min(0)
          .max(1)
          .only("data.format", image_formats)
          .means("Probability with which a rectangle of a training image is set to 0 after the normalisation, as "
                 "torchvision's RandomErasing."),
      ESTRAIN_KEY(data.mixup)
          .min(0)
          .max(1000)
          .only("data.format", class_image_formats)
          .means(
              "Parameter of the Beta distribution by which two images of a training mini-batch, and their labels, are "
              "mixed, as torchvision's MixUp; 0: not at all."),
      ESTRAIN_KEY(data.cutmix)
          .min(0)
          .max(1000)
          .only("data.format", class_image_formats)
          .means("The same for a box that comes from another image, as torchvision's CutMix. With data.mixup, each "
                 "mini-batch is mixed in one way or the other."),
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
          .means("Reader threads of a worker, or with data.format \"python\" reader processes, whatever the number of "
                 "ESTs; "
                 "0: tuned at run time, so that the worker does not wait for data."),
      ESTRAIN_KEY(data.prefetch)
          .min(0)
          .max(65536)
          .not_in_bits()
          .means("Mini-batches that a worker reads ahead; 0: tuned at run time, so that the worker does not wait "
                 "for data."),
      ESTRAIN_KEY(data.pad_values)
          .only("data.format", {"hdf5", "python"})
          .means("What fills the end of the shorter samples of a ragged array (NAME with NAME.offsets, or with lengths "
                 "of a Dataset), "
                 "[\"labels=-100\", \"pixels=0.5\"]; other ragged arrays are filled with 0."),
      ESTRAIN_KEY(data.pad_multiple)
          .min(1)
          .max(kMostUnits)
          .only("data.format", {"hdf5", "python"})
          .means("The length of a mini-batch of a ragged array is that of its longest sample, rounded up to a multiple "
                 "of this: fewer different lengths."),
      ESTRAIN_KEY(data.bucket)
          .min(0)
          .max(kMostUnits)
          .only("data.format", {"hdf5", "python"})
          .means("Steps whose samples are sorted by their length in ragged arrays, so that a step's samples are about "
                 "equally long and little is padded; the steps keep a random order. 0: not sorted."),
  };
}

}  // namespace estrain::spec
