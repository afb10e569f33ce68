#include "core/hosts/net/secrecy/seal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace estrain::net {
namespace {

using Bytes = std::vector<std::byte>;

RecordSeal::Secrets secrets_of(unsigned char direction) {
  return [direction](uint64_t generation) {
    RecordSeal::Secret secret;
    secret.key.fill(direction);
    secret.key[0] = static_cast<unsigned char>(generation);
    return secret;
  };
}

Bytes random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// By each of the libraries that this machine has.
using Make = std::unique_ptr<Gcm> (*)(Gcm::SealOrOpen);
std::vector<Make> libraries() {
  if (!multi_buffer_gcm(Gcm::SealOrOpen::seal)) return {openssl_gcm};
  return {openssl_gcm, multi_buffer_gcm};
}

struct Record {
  Bytes bytes;
  Gcm::Tag tag;
};

Record sealed(RecordSeal& seal, const Bytes& plain) {
  Record record{Bytes(plain.size()), {}};
  seal.begin();
  seal.record().pass(plain, record.bytes.data());
  record.tag = seal.record().tag();
  return record;
}

// Opens in place, `at_once` bytes at a time. Returns whether it is genuine.
bool open(RecordSeal& seal, Record& record, size_t at_once) {
  seal.begin();
  for (size_t at = 0; at < record.bytes.size(); at += at_once) {
    const auto piece = std::span(record.bytes).subspan(at, std::min(at_once, record.bytes.size() - at));
    seal.record().pass(piece, piece.data());
  }
  return seal.record().is_genuine(record.tag);
}

TEST_CASE("records are what they were, wherever they are cut") {
  for (const Make sealing : libraries()) {
    for (const Make opening : libraries()) {
      RecordSeal seal(sealing(Gcm::SealOrOpen::seal), secrets_of(1)),
          opens(opening(Gcm::SealOrOpen::open), secrets_of(1));
      for (const size_t at_once : {size_t{1}, size_t{15}, size_t{4097}, record_bytes}) {
        for (const size_t bytes : {size_t{1}, size_t{16}, size_t{1000}, record_bytes}) {
          const Bytes plain = random_bytes(bytes, 1);
          Record record = sealed(seal, plain);
          if (bytes > 1) CHECK(record.bytes != plain);
          CHECK(open(opens, record, at_once));
          CHECK(record.bytes == plain);
        }
      }
    }
  }
}

TEST_CASE("a record that is changed, moved, said again or sent back is not genuine") {
  for (const Make make : libraries()) {
    RecordSeal seal(make(Gcm::SealOrOpen::seal), secrets_of(1));
    const Bytes plain = random_bytes(1000, 2);
    const Record first = sealed(seal, plain), second = sealed(seal, plain);
    CHECK(first.bytes != second.bytes);
    // Whether one that has opened nothing yet, or only the first, takes it.
    const auto is_taken = [&](Record record, unsigned char direction = 1, bool as_second = false) {
      RecordSeal opens(make(Gcm::SealOrOpen::open), secrets_of(direction));
      Record before = first;
      if (as_second) CHECK(open(opens, before, 1000));
      return open(opens, record, 1000);
    };
    CHECK(is_taken(first));
    CHECK(is_taken(second, 1, true));
    Record changed = first;
    changed.bytes[999] ^= std::byte{1};
    CHECK(!is_taken(changed));
    changed = first;
    changed.tag[15] ^= std::byte{0x80};
    CHECK(!is_taken(changed));
    changed = first;
    changed.bytes.pop_back();
    CHECK(!is_taken(changed));
    CHECK(!is_taken(second));
    CHECK(!is_taken(first, 1, true));
    CHECK(!is_taken(first, 2));
  }
}

TEST_CASE("a key seals so many records, then the next one does") {
  std::vector<uint64_t> asked;
  const RecordSeal::Secrets secrets = [&](uint64_t generation) {
    asked.push_back(generation);
    return secrets_of(1)(generation);
  };
  RecordSeal seal(openssl_gcm(Gcm::SealOrOpen::seal), secrets, 2),
      opens(openssl_gcm(Gcm::SealOrOpen::open), secrets_of(1), 2);
  const Bytes plain = random_bytes(100, 3);
  std::vector<Bytes> seen;
  for (int i = 0; i < 5; ++i) {
    Record record = sealed(seal, plain);
    CHECK(std::find(seen.begin(), seen.end(), record.bytes) == seen.end());
    seen.push_back(record.bytes);
    CHECK(open(opens, record, 100));
    CHECK(record.bytes == plain);
  }
  CHECK(asked == std::vector<uint64_t>{0, 1, 2});
}

}  // namespace
}  // namespace estrain::net
