#pragma once
// Large payloads beside TLS: AES-128-GCM over records of 128 KiB, where TLS has 16 KiB. OpenSSL copies each byte of a
// record twice on each side. These are encrypted from where the bytes lie, and decrypted where they belong. For
// core/hosts/net alone.
//
// This is as good as TLS's own records, for these reasons:
// - Keys come from the handshake (RFC 8446, section 7.5), another one for each direction and generation of keys.
//   Only the two ends of the handshake have them, and no other connection has the same ones.
// - The nonce is the key's IV, combined with the number of the record as in RFC 8446, section 5.3. None comes
//   twice.
// - A record is authenticated as a whole, before anybody hears that it is there. Its length and its place among all
//   others are in the head of its frame, which goes by TLS. So a record that is changed, left out, moved or
//   repeated ends the connection. The same holds for a head.
// - The number of blocks by one key is 2^32, with TLS up to 2^34.5 (section 5.5).
// A key of a later generation can be had from the session as long as the connection stands; one of TLS's own cannot be
// had from an earlier one.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/hosts/net/secrecy/gcm.h"

namespace estrain::net {

inline constexpr size_t record_bytes = 128 << 10;
inline constexpr uint64_t records_by_key = uint64_t{1} << 19;  // 64 GiB

// Records of one direction, one behind the other.
class Seal {
 public:
  struct Secret {
    Gcm::Key key{};
    Gcm::Nonce iv{};
  };
  // The secret of each generation, from 0 on.
  using Secrets = std::function<Secret(uint64_t generation)>;

  Seal(std::unique_ptr<Gcm> gcm, Secrets secrets, uint64_t records = records_by_key);

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
