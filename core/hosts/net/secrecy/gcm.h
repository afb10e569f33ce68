#pragma once
// AES-128-GCM over a message that comes in parts. Two libraries provide the same bytes: OpenSSL and, if the processor
// has VAES and the build found the library, Intel's Multi-Buffer Crypto, which is three times as fast as OpenSSL 3.0.
// For core/hosts/net alone.

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace estrain::net {

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

}  // namespace estrain::net
