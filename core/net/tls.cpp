#include "core/net/tls.h"

#include <openssl/ssl.h>

#include <cstring>
#include <memory>
#include <string_view>

#include "core/base/error.h"

namespace estrain::net {
namespace {

constexpr std::string_view kIdentity = "estrain";
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

int key_index() {
  static const int index = ::SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* key, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Key*>(key); });
  return index;
}

// A session as if it had been agreed on before: the key is its secret.
SSL_SESSION* session_of(SSL* ssl) {
  const auto* key = static_cast<const Key*>(::SSL_CTX_get_ex_data(::SSL_get_SSL_CTX(ssl), key_index()));
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl, kAes128GcmSha256);
  SSL_SESSION* session = ::SSL_SESSION_new();
  if (key == nullptr || cipher == nullptr || session == nullptr) return session;
  const auto* secret = reinterpret_cast<const unsigned char*>(key->bytes().data());
  if (::SSL_SESSION_set1_master_key(session, secret, key->bytes().size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  ::SSL_SESSION_free(session);
  return nullptr;
}

int use_session(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_length, SSL_SESSION** session) {
  *session = session_of(ssl);
  *id = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *id_length = kIdentity.size();
  return *session == nullptr ? 0 : 1;
}

int find_session(SSL* ssl, const unsigned char* id, size_t id_length, SSL_SESSION** session) {
  const bool known = id_length == kIdentity.size() && std::memcmp(id, kIdentity.data(), id_length) == 0;
  *session = known ? session_of(ssl) : nullptr;
  return 1;
}

}  // namespace

asio::ssl::context tls_context(const Key& key, Side side) {
  asio::ssl::context context(side == Side::client ? asio::ssl::context::tlsv13_client
                                                  : asio::ssl::context::tlsv13_server);
  SSL_CTX* raw = context.native_handle();
  auto own = std::make_unique<Key>(key);
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
