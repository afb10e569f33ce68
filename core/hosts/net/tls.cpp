#include "core/hosts/net/tls.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace estrain::net {
namespace {

using Digest = std::array<unsigned char, key_bytes>;  // HMAC-SHA-256
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

int key_index() {
  static const int index = ::SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* key, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<SharedKey*>(key); });
  return index;
}

// Derives a digest for each purpose and each text, unknown to a process without the run's key. Returns nothing if
// OpenSSL lacks HMAC-SHA-256, or memory. (OpenSSL itself calls this function: no exception may leave it.)
std::optional<Digest> derived(SSL_CTX* context, std::string_view purpose, std::string_view text) {
  const auto* key = static_cast<const SharedKey*>(::SSL_CTX_get_ex_data(context, key_index()));
  const std::string all = fmt::format("estrain {}: {}", purpose, text);
  Digest digest{};
  unsigned bytes = 0;
  if (key == nullptr ||
      ::HMAC(::EVP_sha256(), key->bytes().data(), static_cast<int>(key->bytes().size()),
             reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data(), &bytes) == nullptr ||
      bytes != digest.size())
    return std::nullopt;
  return digest;
}

std::string& identity_in(SSL* ssl) { return *static_cast<std::string*>(SSL_get_app_data(ssl)); }

// A session as if agreed on before. Its secret comes from the run's key and the identity.
SSL_SESSION* session_of(SSL* ssl) {
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl, kAes128GcmSha256);
  SSL_SESSION* session = ::SSL_SESSION_new();
  if (cipher == nullptr || session == nullptr) return session;
  std::optional<Digest> secret = derived(::SSL_get_SSL_CTX(ssl), "secret", identity_in(ssl));
  const bool is_done = secret && ::SSL_SESSION_set1_master_key(session, secret->data(), secret->size()) == 1 &&
                       ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
                       ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (secret) ::OPENSSL_cleanse(secret->data(), secret->size());
  if (is_done) return session;
  ::SSL_SESSION_free(session);
  return nullptr;
}

int use_session(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_length, SSL_SESSION** session) {
  const std::string& identity = identity_in(ssl);
  *session = session_of(ssl);
  *id = reinterpret_cast<const unsigned char*>(identity.data());
  *id_length = identity.size();
  return *session == nullptr ? 0 : 1;
}

int find_session(SSL* ssl, const unsigned char* id, size_t id_length, SSL_SESSION** session) {
  *session = nullptr;
  if (id_length != key_bytes) return 1;
  identity_in(ssl).assign(reinterpret_cast<const char*>(id), id_length);
  *session = session_of(ssl);
  return 1;
}

}  // namespace

// Lengths stand before the names: no two connections have the same text.
std::string identity_of(asio::ssl::context& context, const Ends& ends) {
  const std::string text =
      fmt::format("{} {} {} {}{}{}", ends.run.size(), ends.from.size(), ends.to.size(), ends.run, ends.from, ends.to);
  const std::optional<Digest> digest = derived(context.native_handle(), "identity", text);
  if (!digest) throw Error(Fault::io, "OpenSSL lacks HMAC-SHA-256, or memory for it");
  return {digest->begin(), digest->end()};
}

asio::ssl::context tls_context(const SharedKey& key, Side side) {
  asio::ssl::context context(side == Side::client ? asio::ssl::context::tlsv13_client
                                                  : asio::ssl::context::tlsv13_server);
  SSL_CTX* raw = context.native_handle();
  auto own = std::make_unique<SharedKey>(key);
  if (::SSL_CTX_set_ex_data(raw, key_index(), own.get()) != 1 ||
      ::SSL_CTX_set_ciphersuites(raw, "TLS_AES_128_GCM_SHA256") != 1)
    throw Error(Fault::io, "OpenSSL lacks TLS_AES_128_GCM_SHA256");
  own.release();
  ::SSL_CTX_set_num_tickets(raw, 0);
  ::SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_max_early_data(raw, 0);
  if (side == Side::client) {
    ::SSL_CTX_set_psk_use_session_callback(raw, use_session);
    ::SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);  // no certificate is good
  } else {
    ::SSL_CTX_set_psk_find_session_callback(raw, find_session);
  }
  return context;
}

}  // namespace estrain::net
