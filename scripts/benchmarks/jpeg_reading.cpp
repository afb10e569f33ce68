// Reads a folder of JPEG files as one of a worker's readers does, for comparison with Pillow and torchvision.
//
// usage: jpeg_reading FOLDER      with a folder for each class
// Prints a line when it is ready. Each line "decode" (the pixels of every file) or "sample" (training samples, as
// torchvision's recipe for ImageNet cuts them) on stdin does so for all files and prints the seconds. Ends with stdin.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/data/formats/dataset.h"
#include "core/formats/image/image.h"

namespace estrain {
namespace {

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

void decode(const std::vector<std::string>& files) {
  image::Image picture;
  for (const std::string& file : files) {
    const std::string bytes = read_file(file);
    image::decode(std::as_bytes(std::span(bytes)), picture);
  }
}

void read_samples(const data::Dataset& samples, int64_t epoch) {
  std::vector<float> input(samples.shape().input_bytes() / sizeof(float));
  int64_t target = 0;
  for (int64_t i = 0; i < samples.size(); ++i)
    samples.read(i, data::SampleDraw(1, Epoch(epoch), i), reinterpret_cast<std::byte*>(input.data()), &target);
}

int serve(const std::string& folder) {
  const std::vector<std::string> files = files_of(folder);
  spec::DataSection section;
  section.format = spec::DataFormat::images;
  section.path = folder;
  section.scale = {0.08, 1.0};
  section.flip = true;
  section.crop = {224, 224};
  section.mean = {0.485, 0.456, 0.406};
  section.std = {0.229, 0.224, 0.225};
  const data::DataPair data = data::open(section, 0, 1);
  std::cout << "ready" << std::endl;
  int64_t epoch = 0;
  for (std::string verb; std::cin >> verb;) {
    const int64_t begin = monotonic_ns();
    if (verb == "decode") decode(files);
    if (verb == "sample") read_samples(*data.train, epoch++);
    std::cout << static_cast<double>(monotonic_ns() - begin) / 1e9 << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace estrain

int main(int argc, char** argv) {
  if (argc == 2) return estrain::serve(argv[1]);
  std::cerr << "usage: jpeg_reading FOLDER\n";
  return 2;
}
