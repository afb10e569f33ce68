#include "core/hosts/net/secrecy/seal.h"

#include <openssl/crypto.h>

#include <utility>

namespace estrain::net {

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
