// What this folder leans on in OpenSSL: whom a handshake proves, and keys for payloads beside TLS. Two sessions say
// what they have to say to each other in memory.
#include "core/hosts/net/tls.h"

#include <doctest/doctest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace estrain::net {
namespace {

SharedKey key_for_tls(char fill) {
  std::array<std::byte, key_bytes> bytes;
  bytes.fill(static_cast<std::byte>(fill));
  return SharedKey(bytes);
}

struct Session {
  Session(const SharedKey& key, Side side) : context(tls_context(key, side)), ssl(::SSL_new(context.native_handle())) {
    ::SSL_set_bio(ssl.get(), ::BIO_new(::BIO_s_mem()), ::BIO_new(::BIO_s_mem()));
    SSL_set_app_data(ssl.get(), &identity);
    side == Side::client ? ::SSL_set_connect_state(ssl.get()) : ::SSL_set_accept_state(ssl.get());
  }
  bool stands() const { return ::SSL_is_init_finished(ssl.get()) == 1 && ::SSL_session_reused(ssl.get()) == 1; }
  // All that it has to say.
  std::string said() const {
    char* bytes = nullptr;
    const long count = BIO_get_mem_data(::SSL_get_wbio(ssl.get()), &bytes);
    std::string said(bytes, static_cast<size_t>(count));
    (void)BIO_reset(::SSL_get_wbio(ssl.get()));
    return said;
  }
  void hears(const std::string& said) const {
    ::BIO_write(::SSL_get_rbio(ssl.get()), said.data(), static_cast<int>(said.size()));
  }
  std::string exported(std::string_view context_of_key) const {
    std::string bytes(28, '\0');
    CHECK(::SSL_export_keying_material(
              ssl.get(), reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), "EXPERIMENTAL test", 17,
              reinterpret_cast<const unsigned char*>(context_of_key.data()), context_of_key.size(), 1) == 1);
    return bytes;
  }

  asio::ssl::context context;
  std::string identity;
  struct Free {
    void operator()(SSL* session) const { ::SSL_free(session); }
  };
  std::unique_ptr<SSL, Free> ssl;
};

struct Pair {
  explicit Pair(const Ends& ends = {"run", "h1", "h2"}) { client.identity = identity_of(client.context, ends); }
  // `changes`: what becomes of the client's first words.
  bool shake_hands(const std::function<void(std::string&)>& changes = {}) {
    for (int turn = 0; turn < 4; ++turn) {
      ::SSL_do_handshake(client.ssl.get());
      std::string said = client.said();
      if (turn == 0 && changes) changes(said);
      server.hears(said);
      ::SSL_do_handshake(server.ssl.get());
      client.hears(server.said());
    }
    return client.stands() && server.stands();
  }
  // A few bytes, so that what the sessions have to say beside them is heard.
  bool passes(const Session& from, const Session& to) {
    char byte = 0;
    if (::SSL_write(from.ssl.get(), "x", 1) != 1) return false;
    to.hears(from.said());
    return ::SSL_read(to.ssl.get(), &byte, 1) == 1 && byte == 'x';
  }

  Session client{key_for_tls('k'), Side::client}, server{key_for_tls('k'), Side::server};
};

TEST_CASE("the server of a handshake has the names that the client claims, under the run's key") {
  Pair pair;
  REQUIRE(pair.shake_hands());
  CHECK(pair.server.identity == identity_of(pair.server.context, {"run", "h1", "h2"}));
  const Session stranger(key_for_tls('x'), Side::client);
  std::set<std::string> identities;
  for (const Ends& ends : {Ends{"run", "h1", "h2"}, Ends{"run", "h2", "h1"}, Ends{"ru", "nh1", "h2"},
                           Ends{"run", "h1h", "2"}, Ends{"run", "", "h1h2"}, Ends{"", "h1", "h2"}})
    identities.insert(identity_of(pair.client.context, ends));
  CHECK(identities.size() == 6);
  Session other(key_for_tls('x'), Side::client);
  CHECK(identity_of(other.context, {"run", "h1", "h2"}) != pair.server.identity);
}

TEST_CASE("a handshake whose names are changed on its way comes to nothing") {
  Pair pair;
  const std::string names = pair.client.identity;
  CHECK_FALSE(pair.shake_hands([&](std::string& said) {
    const size_t at = said.find(names);
    REQUIRE(at != std::string::npos);
    SUBCASE("a byte") { said[at + 5] ^= 1; }
    SUBCASE("those of another connection") {
      const std::string others = identity_of(pair.client.context, {"run", "h1", "h3"});
      said.replace(at, names.size(), others);
    }
  }));
}

int told_index() {
  static const int index = ::SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// By the words of tls.h, and not by its code.
int use_own_secret(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_length, SSL_SESSION** session) {
  static constexpr unsigned char kCipher[] = {0x13, 0x01};
  const auto& told = *static_cast<std::pair<std::string, std::string>*>(::SSL_get_ex_data(ssl, told_index()));
  const std::string key(key_bytes, 'k'), text = "estrain secret: " + told.second;
  std::array<unsigned char, 32> secret;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
         text.size(), secret.data(), nullptr);
  *session = ::SSL_SESSION_new();
  ::SSL_SESSION_set1_master_key(*session, secret.data(), secret.size());
  ::SSL_SESSION_set_cipher(*session, ::SSL_CIPHER_find(ssl, kCipher));
  ::SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  *id = reinterpret_cast<const unsigned char*>(told.first.data());
  *id_length = told.first.size();
  return 1;
}

TEST_CASE("each identity has a key of its own, which comes from the run's key") {
  Pair pair;
  std::pair<std::string, std::string> identities = {pair.client.identity, pair.client.identity};
  bool stands = false;
  SUBCASE("its own") { stands = true; }
  SUBCASE("that of another") { identities.second = identity_of(pair.client.context, {"run", "h1", "h3"}); }
  SUBCASE("none") { identities.second = ""; }
  ::SSL_set_ex_data(pair.client.ssl.get(), told_index(), &identities);
  ::SSL_set_psk_use_session_callback(pair.client.ssl.get(), use_own_secret);
  CHECK(pair.shake_hands() == stands);
}

TEST_CASE("the names stand in no handshake") {
  Pair pair({"a-run-of-mine", "a-host-of-mine", "another-host"});
  std::string heard;
  REQUIRE(pair.shake_hands([&](std::string& said) { heard = said; }));
  for (const char* word : {"mine", "another"}) CHECK(heard.find(word) == std::string::npos);
}

// TlsStream::secrets_to() and secrecy/seal.h lean on these.
TEST_CASE("keys for payloads: both ends have them, no two are the same, and they stay when TLS changes its own") {
  Pair pair, other;
  REQUIRE(pair.shake_hands());
  REQUIRE(other.shake_hands());
  const std::string key = pair.client.exported("0");
  CHECK(key == pair.server.exported("0"));
  const std::set<std::string> all = {key, pair.client.exported("1"), pair.client.exported({}),
                                     other.client.exported("0"), std::string(key.size(), '\0')};
  CHECK(all.size() == 5);
  for (int times = 0; times < 3; ++times) {
    REQUIRE(::SSL_key_update(pair.client.ssl.get(), SSL_KEY_UPDATE_REQUESTED) == 1);
    REQUIRE(pair.passes(pair.client, pair.server));
    REQUIRE(pair.passes(pair.server, pair.client));
  }
  CHECK(pair.client.exported("0") == key);
  CHECK(pair.server.exported("0") == key);
}

TEST_CASE("OpenSSL reads no byte behind the record that it needs, and says nothing that nobody asked for") {
  Pair pair;
  REQUIRE(pair.shake_hands());
  CHECK(::SSL_get_read_ahead(pair.server.ssl.get()) == 0);
  CHECK(pair.server.said().empty());  // no tickets: they would stand where a payload is expected
  CHECK(::SSL_write(pair.client.ssl.get(), "abc", 3) == 3);
  const std::string record = pair.client.said(), payload(100, 'p');
  pair.server.hears(record + payload + "rest");
  std::array<char, 16> bytes;
  CHECK(::SSL_read(pair.server.ssl.get(), bytes.data(), 3) == 3);
  std::string behind(payload.size() + 4, '\0');
  CHECK(::BIO_read(::SSL_get_rbio(pair.server.ssl.get()), behind.data(), static_cast<int>(behind.size())) == 104);
  CHECK(behind == payload + "rest");
  CHECK(::SSL_write(pair.client.ssl.get(), "def", 3) == 3);  // and TLS goes on behind it
  pair.server.hears(pair.client.said());
  CHECK(::SSL_read(pair.server.ssl.get(), bytes.data(), 16) == 3);
  CHECK(std::string_view(bytes.data(), 3) == "def");
}

}  // namespace
}  // namespace estrain::net
