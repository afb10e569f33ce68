#pragma once
// A TokenArray is a file's list of token numbers, read in place. The first bytes distinguish three kinds of file:
//
//   .npy         numpy's, versions 1 to 3: one dimension, little-endian, uint8, uint16, uint32, int32 or int64
//   llm.c's      256 int32 words of header (20240520, 1, tokens, 0 …), then uint16; with 20240801, 7: then uint32
//   flat         nothing but tokens, uint16 or uint32 (nanoGPT's train.bin); every file of neither kind above
//
// All little-endian.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data/files/data_files.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// Immutable, hence thread-safe. Keeps the file's memory alive.
class TokenArray {
 public:
  enum class Word { u8, u16, u32, i32, i64 };

  // `flat`: the type in a file without a header. Throws Fault::corrupt if the file is truncated or the header is not a
  // token file's.
  static TokenArray of(const DataFile& file, spec::TokenType flat);
  // Every byte is a token.
  static TokenArray of_bytes(const FileBytes& bytes);

  int64_t size() const { return size_; }  // tokens
  Word word() const { return word_; }

  // Copies tokens [first, first + count), without a range check.
  void copy(int64_t first, int64_t count, int64_t* out) const;

  // The index of the first token outside [0, classes) in [first, first + count); nothing if all are in range.
  std::optional<int64_t> find_outside(int64_t classes, int64_t first, int64_t count) const;
  int64_t at(int64_t index) const;

 private:
  TokenArray(FileBytes file, size_t offset, int64_t size, Word word)
      : file_(std::move(file)), begin_(file_.data() + offset), size_(size), word_(word) {}
  // Calls `body` with a typed pointer to the first token.
  template <typename Body>
  auto visit(Body body) const;

  FileBytes file_;
  const std::byte* begin_;
  int64_t size_;
  Word word_;
};

// TokenShards are the tokens of several files as one array, in the order of the files. Immutable, hence thread-safe.
class TokenShards {
 public:
  struct Shard {
    std::string path;
    TokenArray tokens;
  };
  explicit TokenShards(std::vector<Shard> shards);  // at least one

  int64_t size() const { return ends_.back(); }  // tokens
  // As TokenArray's.
  void copy(int64_t first, int64_t count, int64_t* out) const;
  std::optional<int64_t> find_outside(int64_t classes, int64_t first, int64_t count) const;
  int64_t at(int64_t index) const;

  // The file of a token, and the token's number in the file.
  struct Place {
    const std::string& path;
    int64_t index;
  };
  Place place_of(int64_t index) const;

 private:
  size_t shard_of(int64_t index) const;
  int64_t begin_of(size_t shard) const { return shard == 0 ? 0 : ends_[shard - 1]; }
  // Calls body(shard, first, count) for the part of each shard in [first, first + count), while the body returns true.
  template <typename Body>
  void visit(int64_t first, int64_t count, Body body) const;

  std::vector<Shard> shards_;
  std::vector<int64_t> ends_;  // of each shard's tokens in the array
};

// "uint16"
const char* name_of(TokenArray::Word word);

}  // namespace estrain::data
