#include "core/hosts/net/secrecy/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <utility>

#include "core/base/error.h"

namespace estrain::net {
namespace {

void require_done(int result) {
  if (result != 1) throw Error(Fault::io, "OpenSSL lacks AES-128-GCM, or memory for it");
}

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

class OpenSslGcm final : public Gcm {
 public:
  explicit OpenSslGcm(SealOrOpen work) : encrypts_(work == SealOrOpen::seal ? 1 : 0), cipher_(::EVP_CIPHER_CTX_new()) {
    require_done(cipher_ ? 1 : 0);
  }

  void set_key(const Key& key) override {
    require_done(::EVP_CipherInit_ex(cipher_.get(), ::EVP_aes_128_gcm(), nullptr, key.data(), nullptr, encrypts_));
  }
  void begin(const Nonce& nonce) override {
    require_done(::EVP_CipherInit_ex(cipher_.get(), nullptr, nullptr, nullptr, nonce.data(), encrypts_));
  }
  void pass(std::span<const std::byte> from, std::byte* to) override {
    int bytes = 0;
    require_done(::EVP_CipherUpdate(cipher_.get(), raw(to), &bytes, raw(from.data()), static_cast<int>(from.size())));
  }
  Tag tag() override {
    Tag tag{};
    int bytes = 0;
    require_done(::EVP_CipherFinal_ex(cipher_.get(), raw(tag.data()), &bytes));
    require_done(::EVP_CIPHER_CTX_ctrl(cipher_.get(), EVP_CTRL_GCM_GET_TAG, tag_bytes, tag.data()));
    return tag;
  }
  bool is_genuine(const Tag& tag) override {
    Tag expected = tag, nothing{};
    int bytes = 0;
    require_done(::EVP_CIPHER_CTX_ctrl(cipher_.get(), EVP_CTRL_GCM_SET_TAG, tag_bytes, expected.data()));
    return ::EVP_CipherFinal_ex(cipher_.get(), raw(nothing.data()), &bytes) == 1;
  }

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* cipher) const { ::EVP_CIPHER_CTX_free(cipher); }
  };
  const int encrypts_;
  const std::unique_ptr<EVP_CIPHER_CTX, Free> cipher_;
};

}  // namespace

std::unique_ptr<Gcm> openssl_gcm(Gcm::SealOrOpen work) { return std::make_unique<OpenSslGcm>(work); }

std::unique_ptr<Gcm> fastest_gcm(Gcm::SealOrOpen work) {
  auto gcm = multi_buffer_gcm(work);
  return gcm ? std::move(gcm) : openssl_gcm(work);
}

RecordSeal::RecordSeal(std::unique_ptr<Gcm> gcm, Secrets secrets, uint64_t records)
    : gcm_(std::move(gcm)), secrets_(std::move(secrets)), records_by_key_(records) {}

void RecordSeal::begin() {
  const uint64_t number = records_ % records_by_key_;
  if (number == 0) {
    Secret secret = secrets_(records_ / records_by_key_);
    gcm_->set_key(secret.key);
    iv_ = secret.iv;
    ::OPENSSL_cleanse(&secret, sizeof secret);
  }
  ++records_;
  Gcm::Nonce nonce = iv_;
  for (size_t i = 0; i < sizeof number; ++i)
    nonce[nonce.size() - 1 - i] ^= static_cast<unsigned char>(number >> (8 * i));
  gcm_->begin(nonce);
}

}  // namespace estrain::net
