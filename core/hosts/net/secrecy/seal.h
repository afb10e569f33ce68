#pragma once
// Large payloads beside TLS: AES-128-GCM over records of 128 KiB, where TLS has 16 KiB. OpenSSL copies each byte of
// a record twice on each side. A RecordSeal's records are encrypted straight from the payload, and decrypted straight
// into the payload's place. For core/hosts/net alone.
//
// This is as good as TLS's own records, for these reasons:
// - Keys come from the handshake (RFC 8446, section 7.5), another key for each direction and generation of keys.
//   Only the two ends of the handshake have these keys, and no other connection has the same keys.
// - The nonce is the key's IV, combined with the number of the record as in RFC 8446, section 5.3. No nonce
//   repeats.
// - A record is authenticated as a whole, before any reader hears of the record. The record's length and place
//   among all records are in the head of its frame, which goes by TLS. So a record that is changed, left out, moved
//   or repeated ends the connection. The same holds for a head.
// - The number of blocks by one key is 2^32, with TLS up to 2^34.5 (section 5.5).
// As long as the connection stands, the session can yield the key of a later generation; a later key of TLS itself
// cannot be had from an earlier key.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace estrain::net {

// AES-128-GCM over a message that comes in parts. Two libraries provide the same bytes: OpenSSL and, if the processor
// has VAES and the build found the library, Intel's Multi-Buffer Crypto, which is three times as fast as OpenSSL 3.0.

inline constexpr size_t tag_bytes = 16;

class Gcm {
 public:
  using Key = std::array<unsigned char, 16>;
  using Nonce = std::array<unsigned char, 12>;
  using Tag = std::array<std::byte, tag_bytes>;
  enum class SealOrOpen { seal, open };

  virtual ~Gcm() = default;
  virtual void set_key(const Key& key) = 0;
  virtual void begin(const Nonce& nonce) = 0;  // the next message
  // Processes the next bytes of the message; `to` has as many bytes as `from`, and may be `from`.
  virtual void pass(std::span<const std::byte> from, std::byte* to) = 0;
  virtual Tag tag() = 0;                        // ends a message that is sealed
  virtual bool is_genuine(const Tag& tag) = 0;  // ends a message that is opened
};

// Both throw Fault::io if the library lacks AES-128-GCM.
std::unique_ptr<Gcm> openssl_gcm(Gcm::SealOrOpen work);
std::unique_ptr<Gcm> multi_buffer_gcm(Gcm::SealOrOpen work);  // nothing: not for this processor, or not in this build
std::unique_ptr<Gcm> fastest_gcm(Gcm::SealOrOpen work);

inline constexpr size_t record_bytes = 128 << 10;
inline constexpr uint64_t records_by_key = uint64_t{1} << 19;  // 64 GiB

// The records of a direction, in order.
class RecordSeal {
 public:
  struct Secret {
    Gcm::Key key{};
    Gcm::Nonce iv{};
  };
  // The secret of each generation, from 0 on.
  using Secrets = std::function<Secret(uint64_t generation)>;

  RecordSeal(std::unique_ptr<Gcm> gcm, Secrets secrets, uint64_t records = records_by_key);

  void begin();  // the next record
  Gcm& record() { return *gcm_; }

 private:
  const std::unique_ptr<Gcm> gcm_;
  const Secrets secrets_;
  const uint64_t records_by_key_;
  Gcm::Nonce iv_{};
  uint64_t records_ = 0;  // begun
};

}  // namespace estrain::net
