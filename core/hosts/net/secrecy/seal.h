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

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/hosts/net/secrecy/gcm.h"

namespace estrain::net {

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
