#include "core/hosts/net/secrecy/seal.h"

#ifdef ESTRAIN_MULTI_BUFFER
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#endif

namespace estrain::net {

#ifdef ESTRAIN_MULTI_BUFFER

namespace {

struct Free {
  void operator()(IMB_MGR* library) const { ::free_mb_mgr(library); }
};

// The library's functions for this processor; they keep no state between calls. Without VAES, OpenSSL is as fast.
IMB_MGR* functions() {
  static const std::unique_ptr<IMB_MGR, Free> library = [] {
    std::unique_ptr<IMB_MGR, Free> made(::alloc_mb_mgr(0));
    if (made) ::init_mb_mgr_auto(made.get(), nullptr);
    constexpr uint64_t kWanted = IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ | IMB_FEATURE_AVX512_SKX;
    if (made && (made->features & kWanted) != kWanted) made.reset();
    return made;
  }();
  return library.get();
}

class MultiBufferGcm final : public Gcm {
 public:
  explicit MultiBufferGcm(SealOrOpen work) : seals_(work == SealOrOpen::seal) {}
  ~MultiBufferGcm() override {
    ::OPENSSL_cleanse(&key_, sizeof key_);
    ::OPENSSL_cleanse(&message_, sizeof message_);
  }

  void set_key(const Key& key) override { IMB_AES128_GCM_PRE(functions(), key.data(), &key_); }
  void begin(const Nonce& nonce) override {
    IMB_AES128_GCM_INIT(functions(), &key_, &message_, nonce.data(), nullptr, 0);
  }
  void pass(std::span<const std::byte> from, std::byte* to) override {
    auto* out = reinterpret_cast<uint8_t*>(to);
    const auto* in = reinterpret_cast<const uint8_t*>(from.data());
    if (seals_) {
      IMB_AES128_GCM_ENC_UPDATE(functions(), &key_, &message_, out, in, from.size());
    } else {
      IMB_AES128_GCM_DEC_UPDATE(functions(), &key_, &message_, out, in, from.size());
    }
  }
  Tag tag() override {
    Tag tag{};
    auto* out = reinterpret_cast<uint8_t*>(tag.data());
    if (seals_) {
      IMB_AES128_GCM_ENC_FINALIZE(functions(), &key_, &message_, out, tag_bytes);
    } else {
      IMB_AES128_GCM_DEC_FINALIZE(functions(), &key_, &message_, out, tag_bytes);
    }
    return tag;
  }
  bool is_genuine(const Tag& tag) override {
    const Tag expected = this->tag();
    return ::CRYPTO_memcmp(tag.data(), expected.data(), tag_bytes) == 0;
  }

 private:
  const bool seals_;
  alignas(64) gcm_key_data key_{};  // the library's header leaves out this alignment
  alignas(64) gcm_context_data message_{};
};

}  // namespace

std::unique_ptr<Gcm> multi_buffer_gcm(Gcm::SealOrOpen work) {
  return functions() == nullptr ? nullptr : std::make_unique<MultiBufferGcm>(work);
}

#else

std::unique_ptr<Gcm> multi_buffer_gcm(Gcm::SealOrOpen) { return nullptr; }

#endif

}  // namespace estrain::net
