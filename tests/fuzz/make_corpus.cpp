// Writes the seed inputs for fuzzing that are too tedious to write by hand: make_corpus FOLDER. Its output is the same
// every time.
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "core/base/files/files.h"
#include "core/formats/h5/file.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/export_model.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/core/state/record/sample_records.h"
#include "tests/program_file.h"
#include "tests/written_images.h"

namespace estrain::fuzz {
namespace {

class Corpus {
 public:
  explicit Corpus(std::string root) : root_(std::move(root)) {}
  std::string path(const std::string& target, const std::string& name) const {
    make_folders(root_ + "/" + target);
    return root_ + "/" + target + "/" + name;
  }
  void write(const std::string& target, const std::string& name, const std::string& bytes) const {
    std::ofstream(path(target, name), std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::string root_;
};

std::string numbers(size_t count, unsigned from = 0, unsigned below = 256) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>((i * 37 + i / 7 * 11 + from) % below);
  return bytes;
}

std::string idx(const std::vector<uint32_t>& dims, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(dim >> shift);
  }
  return bytes + values;
}

std::string idx_input(int flags, const std::string& labels, const std::string& images) {
  return std::string{static_cast<char>(flags), static_cast<char>(labels.size()), '\0'} + labels + images;
}

std::string ending_of(const std::string& image) {
  switch (image[0]) {
    case '\xff':
      return ".jpg";
    case 'B':
      return ".bmp";
    case 'R':
      return ".webp";
    case 'I':
      return ".tif";
    default:
      return ".png";
  }
}

void write_pictures(const Corpus& corpus) {
  using testing::jpeg_bytes;
  using testing::png_bytes;
  const testing::Picture colours = testing::some_picture(14, 17, 3), grey = testing::some_picture(11, 9, 1);
  testing::Picture few = grey;
  for (uint8_t& pixel : few.pixels) pixel &= 3;
  const std::pair<const char*, std::string> images[] = {
      {"jpeg", jpeg_bytes(colours)},
      {"progressive", jpeg_bytes(colours, {60, true})},
      {"grey_jpeg", jpeg_bytes(grey, {20})},
      {"inks", jpeg_bytes(testing::some_picture(8, 9, 4), {90, false, true})},
      {"png", png_bytes(colours)},
      {"interlaced", png_bytes(colours, {PNG_COLOR_TYPE_RGB, 8, true})},
      {"palette", png_bytes(few, {PNG_COLOR_TYPE_PALETTE, 2})},
      {"deep", png_bytes(colours, {PNG_COLOR_TYPE_RGB, 16})},
      {"bmp", testing::bmp_bytes(colours)},
      {"runs",
       testing::bmp_of_rows(5, 2, std::string("\3\1\0\0\0\3\1\2\1\0\2\2\0\1", 14), {8, 1, 3, std::string(12, 'c')})},
      {"webp", testing::webp_bytes(colours)},
      {"lossy", testing::webp_bytes(colours, 60)},
      {"pieces", testing::webp_of_chunks(
                     testing::webp_features(2, 30, 30) + testing::riff_chunk("ANIM", std::string(6, '\0')) +
                     testing::riff_chunk("ANMF", testing::little_endian(1, 3) + testing::little_endian(2, 3) +
                                                     testing::little_endian(16, 3) + testing::little_endian(13, 3) +
                                                     std::string(4, '\0') +
                                                     testing::chunk_of_webp(testing::webp_bytes(colours, 60))))},
      {"tiff", testing::tiff_bytes(colours)},
      {"tiles", testing::tiff_of_pieces(
                    {{256, {18}}, {257, {9}}, {258, {8}}, {259, {32773}}, {262, {1}}, {322, {16}}, {323, {16}}},
                    {std::string("\x81t\x81t", 4), std::string("\x81u\x81u", 4)})},
      {"jpeg_strip", testing::tiff_of_pieces(testing::tiff_tags(colours, 6, 8, 7), {jpeg_bytes(colours)})},
      {"alpha", png_bytes(testing::some_picture(8, 9, 2), {PNG_COLOR_TYPE_GRAY_ALPHA})},
  };
  char flags = 0;
  std::vector<std::pair<std::string, std::string>> samples;
  for (const auto& [name, bytes] : images) {
    corpus.write("image", name, std::string(1, flags++) + bytes);
    samples.emplace_back(std::string(name) + ending_of(bytes), bytes);
    samples.emplace_back(std::string(name) + ".cls", std::to_string(flags % 3));
  }
  corpus.write("webdataset", "all", std::string(1, '\0') + testing::tar_bytes(samples));
  samples.resize(2);
  samples.emplace_back("next.png", images[4].second);
  samples.emplace_back("next.json", R"({"label": 2})");
  corpus.write("webdataset", "json", std::string(1, '\3') + testing::tar_bytes(samples));
  const std::string name(120, 'n');
  const std::string longer = testing::tar_member("././@LongLink", name + ".png" + '\0', 'L') +
                             testing::tar_member("short", images[4].second) +
                             testing::tar_member("././@LongLink", name + ".cls" + '\0', 'L') +
                             testing::tar_member("short", "1") + std::string(1024, '\0');
  corpus.write("webdataset", "gnu", std::string(1, '\2') + longer);
}

void write_voc(const Corpus& corpus) {
  const std::string object =
      "<object><name>cat</name><difficult>0</difficult><bndbox><xmin>3</xmin><ymin>4.5</ymin><xmax>30</xmax>"
      "<ymax>20</ymax></bndbox></object>";
  const std::string head(1, '\0');
  corpus.write("voc", "one", head + "<annotation>" + object + "</annotation>");
  corpus.write("voc", "more",
               head + "<?xml version='1.0'?><!-- x --><annotation><folder>a&amp;b</folder>" + object +
                   "<object><name>dog</name><truncated>1</truncated><difficult>1</difficult><bndbox><xmin>1</xmin>"
                   "<ymin>1</ymin><xmax>40</xmax><ymax>30</ymax></bndbox></object></annotation>");
  corpus.write("voc", "none", head + "<annotation/>");
  corpus.write("voc", "list", "\1a\na \r\n\n");
}

void write_tokens(const Corpus& corpus) {
  const std::string head{'\0', '\3', '\xff', '\xff'}, tokens = numbers(120, 0, 2);
  corpus.write("tokens", "flat", head + tokens);
  std::string npy = "{'descr': '<u2', 'fortran_order': False, 'shape': (60,), }";
  npy.resize(117, ' ');
  corpus.write("tokens", "npy", head + "\x93NUMPY" + std::string{'\1', '\0', '\x76', '\0'} + npy + "\n" + tokens);
  std::string header(1024, '\0');
  const int32_t words[3] = {20240520, 1, 60};
  header.replace(0, sizeof words, reinterpret_cast<const char*>(words), sizeof words);
  corpus.write("tokens", "llmc", head + header + tokens);
}

void write_idx(const Corpus& corpus) {
  const std::string labels = idx({6}, numbers(6, 0, 10));
  const std::string grey = idx({6, 4, 4}, numbers(96)), colour = idx({6, 3, 4, 4}, numbers(288));
  corpus.write("idx", "plain", idx_input(0, labels, grey));
  corpus.write("idx", "colour", idx_input(64, labels, colour));
  corpus.write("idx", "packed", idx_input(1 | 2 | 4 | 8 | 16 | 32, labels, grey));
  corpus.write("idx", "broken_gzip", idx_input(1 | 2, labels, grey));
  corpus.write("idx", "empty", idx_input(0, idx({0}, ""), idx({0, 4, 4}, "")));
}

void write_others(const Corpus& corpus) {
  corpus.write("cifar", "ten", std::string("\x00\x04\x18", 3) + '\7' + numbers(3072));  // 6,148 bytes: two records
  corpus.write("cifar", "hundred", std::string("\x01\x04\x18", 3) + "\3\7" + numbers(3072));
  corpus.write("cifar", "augmented", std::string("\x0e\x01\x0c", 3) + '\7' + numbers(3072));
  corpus.write("text", "held_out", std::string("\0\x08\x40\0", 4) + numbers(300, 0, 128));
  corpus.write("text", "two_files", std::string("\x02\x04\0\x20", 4) + numbers(200, 0, 128));
}

void write_programs(const Corpus& corpus) {
  const testing::ProgramParts sound = testing::small_program();
  corpus.write("program", "archive", '\0' + sound.file());
  corpus.write("program", "graph", '\1' + sound.model.dump());
  corpus.write("program", "weights", '\2' + sound.weights.dump());
  corpus.write("program", "constants", '\3' + sound.constants.dump());
  corpus.write("program", "values", '\4' + numbers(24));
}

void write_checkpoints(const Corpus& corpus) {
  using namespace checkpoint;
  const auto write = [&](const std::string& name, const StateLayout& layout, CheckpointMeta meta) {
    const State state = filled(layout);
    const std::string whole = corpus.path("checkpoint_bytes", name);
    write_checkpoint(whole, state.layout, state.bytes(), meta);
    export_model(CheckpointFile::open(whole), corpus.path("safetensors", name), {ModelFormat::safetensors});
    const std::string bytes = read_file(whole);
    corpus.write("checkpoint_forged", name, bytes);
    corpus.write("checkpoint_bytes", name, bytes + '\0');
    corpus.write("checkpoint_bytes", name + "_fitted", bytes + '\1');
  };
  StateLayout tiny;
  tiny.append(Role::parameter, "w", "", DType::f32, {3});
  write("tiny", tiny, sample_meta());
  write("small", small_layout(), sample_meta());
  for (int i = 0; i < 3; ++i)
    corpus.write("checkpoint_structure", "recipe" + std::to_string(i), numbers(300, 50 + 61 * i));
}

void write_images(const Corpus& corpus) {
  const std::string path = corpus.path("hdf5_bytes", "images");
  {
    h5::File file = h5::File::create(path);
    {
      h5::Group root = file.root();
      const std::string pixels = numbers(6 * 3 * 4 * 4);
      std::vector<int64_t> labels = {0, 1, 2, 3, 4, 5};
      root.create_dataset("images", h5::Type::u8, {6, 3, 4, 4}).write(h5::Type::u8, pixels.data());
      root.create_dataset("labels", h5::Type::i64, {6}).write(h5::Type::i64, labels.data());
    }
    file.close();
  }
  for (int i = 0; i < 3; ++i) corpus.write("hdf5_structure", "recipe" + std::to_string(i), numbers(400, 13 + 71 * i));
}

void write_records(const Corpus& corpus) {
  using namespace record;
  const std::vector<StepRecord> records = sample_records(1, 4);
  const std::string fingerprints = corpus.path("fingerprints", "four_steps"),
                    metrics = corpus.path("metrics", "four_steps");
  std::filesystem::remove(fingerprints);
  std::filesystem::remove(metrics);
  FingerprintWriter(fingerprints, {"fc.weight", "fc.bias", "est.0"}, Step(0)).append(records);
  const std::string bytes = read_file(fingerprints);
  corpus.write("fingerprints", "torn", bytes.substr(0, bytes.size() - 5));
  corpus.write("fingerprints", "fitted", bytes + '\1');
  MetricsWriter writer(metrics, Step(0));
  writer.append(records);
  writer.append(EvaluationRecord{Step(4), 0.5, 0.75, 1000});
}

}  // namespace
}  // namespace estrain::fuzz

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const estrain::fuzz::Corpus corpus(argv[1]);
  estrain::fuzz::write_idx(corpus);
  estrain::fuzz::write_pictures(corpus);
  estrain::fuzz::write_voc(corpus);
  estrain::fuzz::write_tokens(corpus);
  estrain::fuzz::write_others(corpus);
  estrain::fuzz::write_programs(corpus);
  estrain::fuzz::write_checkpoints(corpus);
  estrain::fuzz::write_images(corpus);
  estrain::fuzz::write_records(corpus);
  return 0;
}
