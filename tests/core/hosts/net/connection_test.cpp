// Two ends in one loop, over 127.0.0.1; strangers as plain sockets in a thread of their own.
#include "core/hosts/net/connection.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/hosts/net/listener.h"
#include "core/hosts/net/tls.h"
#include "core/hosts/net/tls_stream.h"

namespace estrain::net {
namespace {

SharedKey key_of(char fill) {
  std::array<std::byte, key_bytes> bytes;
  bytes.fill(static_cast<std::byte>(fill));
  return SharedKey(bytes);
}

Greeting greeting(const std::string& host) {
  Greeting own;
  own.version = "1.2.3";
  own.build = 77;
  own.host = host;
  own.purpose = "test";
  return own;
}

// Takes frames of up to 1 MiB and keeps their payloads.
class Inbox : public FrameSink {
 public:
  std::optional<std::span<std::byte>> room_for(const FrameHead& head) override {
    place.resize(head.bytes);
    return std::span(place);
  }
  void received(const FrameHead& head) override {
    heads.push_back(head);
    bytes.append(reinterpret_cast<const char*>(place.data()), place.size());
    if (on_frame) on_frame();
  }

  std::vector<std::byte> place;
  std::vector<FrameHead> heads;
  std::string bytes;
  std::function<void()> on_frame;
};

// A listener with the key 'k' on a free port of 127.0.0.1, and what became of those who came.
struct Server {
  explicit Server(Loop& on, Nanoseconds patience = handshake_limit, const std::string& run = "") : loop(on) {
    Listener::Options options;
    options.at = {"127.0.0.1", 0};
    options.own = greeting("server");
    options.own.run = run;
    options.patience = patience;
    options.accepted = [this](ConnectionPtr connection) {
      accepted.push_back(connection);
      connection->start(inbox, [this](const Error& why) {
        lost.push_back(why.message());
        changed();
      });
      changed();
    };
    options.refused = [this](const std::string&, const Error& why) {
      refused.push_back(why.message());
      faults.push_back(why.fault());
      changed();
    };
    listener.emplace(loop, key_of('k'), std::move(options));
  }

  // Runs the loop until `done` holds, for a minute at most.
  bool run_until(std::function<bool()> holds) {
    done = std::move(holds);
    if (done()) return true;
    bool late = false;
    const auto timer = loop.once(60s, [&] {
      late = true;
      loop.stop();
    });
    loop.run();
    loop.restart();
    return !late;
  }
  void changed() {
    if (done && done()) loop.stop();
  }

  Loop& loop;
  std::optional<Listener> listener;
  Inbox inbox;
  std::vector<ConnectionPtr> accepted;
  std::vector<std::string> refused, lost;
  std::vector<Fault> faults;  // of `refused`
  std::function<bool()> done;
};

struct Client {
  Client(Server& to, const SharedKey& key, const Greeting& own, const std::string& host = "server") {
    connect(to.loop, key, {.to = to.listener->address(), .host = host, .own = own},
            [this, &to](ConnectionPtr made, const Error* error) {
              connection = std::move(made);
              if (error != nullptr) why = error->message();
              if (error != nullptr) fault = error->fault();
              to.changed();
            });
  }
  bool settled() const { return connection || why; }

  ConnectionPtr connection;
  std::optional<std::string> why;
  std::optional<Fault> fault;
};

UniqueFd plain_socket(uint16_t port, const char* from = "127.0.0.1") {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  REQUIRE(::inet_pton(AF_INET, from, &own.sin_addr) == 1);
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  return fd;
}

// Says `bytes` to the listener and hangs up.
void say(Server& server, const std::string& bytes) {
  const UniqueFd fd = plain_socket(server.listener->address().port);
  CHECK(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

// Stands between a client and the server, keeps what both said, and changes byte number `changes` of the client's.
class Eavesdropper {
 public:
  explicit Eavesdropper(uint16_t server, size_t changes = SIZE_MAX)
      : changes_(changes), ears_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(::bind(ears_.get(), reinterpret_cast<const sockaddr*>(&at), size) == 0);
    REQUIRE(::listen(ears_.get(), 1) == 0);
    REQUIRE(::getsockname(ears_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this, server] { pass(server); });
  }
  ~Eavesdropper() { thread_.join(); }

  uint16_t port() const { return port_; }
  const std::string& heard() {
    thread_.join();
    thread_ = std::thread([] {});
    return heard_;
  }
  const std::string& heard_back() {
    heard();
    return heard_back_;
  }

 private:
  void pass(uint16_t server) {
    const UniqueFd client(::accept(ears_.get(), nullptr, nullptr));
    const UniqueFd onwards = plain_socket(server);
    std::thread back([&] {
      std::array<char, 4096> buffer;
      for (ssize_t n; (n = ::recv(onwards.get(), buffer.data(), buffer.size(), 0)) > 0;) {
        heard_back_.append(buffer.data(), static_cast<size_t>(n));
        (void)::send(client.get(), buffer.data(), static_cast<size_t>(n), MSG_NOSIGNAL);
      }
      ::shutdown(client.get(), SHUT_WR);
    });
    std::array<char, 4096> buffer;
    for (ssize_t n; (n = ::recv(client.get(), buffer.data(), buffer.size(), 0)) > 0;) {
      if (changes_ - heard_.size() < static_cast<size_t>(n)) buffer[changes_ - heard_.size()] ^= 1;
      heard_.append(buffer.data(), static_cast<size_t>(n));
      (void)::send(onwards.get(), buffer.data(), static_cast<size_t>(n), MSG_NOSIGNAL);
    }
    ::shutdown(onwards.get(), SHUT_WR);
    back.join();
  }

  const size_t changes_;
  UniqueFd ears_;
  uint16_t port_ = 0;
  std::thread thread_;
  std::string heard_, heard_back_;
};

TEST_CASE("a connection ends by a silence with data on the way; the system tries no idle connection") {
  Loop loop;
  Server server(loop);
  const Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && !server.accepted.empty(); }));
  int connections = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    unsigned silence = 0;
    socklen_t size = sizeof silence;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, &size) != 0 || silence == 0) continue;
    int is_tried = 1;
    size = sizeof is_tried;
    CHECK(::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &is_tried, &size) == 0);
    CHECK(is_tried == 0);  // one lost try would end the connection
    CHECK(silence == 1500);
    ++connections;
  }
  CHECK(connections == 2);
}

TEST_CASE("frames arrive whole and in order, both ways") {
  Loop loop;
  Server server(loop);
  Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && !server.accepted.empty(); }));
  REQUIRE(client.connection);
  CHECK(server.accepted[0]->peer().host == "client");
  CHECK(client.connection->peer().host == "server");

  std::vector<std::byte> large(most_frame_bytes);
  std::mt19937 random(1);
  for (std::byte& byte : large) byte = static_cast<std::byte>(random());
  client.connection->send({5, 3, 1, 0}, "abc");
  for (uint64_t i = 0; i < 3; ++i) client.connection->send_from({6, most_frame_bytes, 2, i}, large);
  client.connection->send({7, 0, 3, 0}, "");
  server.inbox.on_frame = [&] { server.changed(); };
  REQUIRE(server.run_until([&] { return server.inbox.heads.size() == 5; }));
  const std::string once(reinterpret_cast<const char*>(large.data()), large.size());
  CHECK(server.inbox.bytes == "abc" + once + once + once);
  CHECK(server.inbox.heads[3] == FrameHead{6, most_frame_bytes, 2, 2, Way::sealed});
  CHECK(server.inbox.heads[4].kind == 7);

  Inbox inbox;
  inbox.on_frame = [&] { server.changed(); };
  client.connection->start(inbox, [](const Error&) {});
  server.accepted[0]->send({9, 2, 0, 0}, "hi");
  REQUIRE(server.run_until([&] { return !inbox.heads.empty(); }));
  CHECK(inbox.bytes == "hi");

  client.connection->close();
  REQUIRE(server.run_until([&] { return !server.lost.empty(); }));
  CHECK(server.accepted[0]->ended_by_peer());
}

TEST_CASE("keys change between frames, also while payloads go both ways") {
  struct FewBytes {
    FewBytes() { TlsStream::most_bytes_by_key = 256; }
    ~FewBytes() { TlsStream::most_bytes_by_key = usual; }
    const size_t usual = TlsStream::most_bytes_by_key;
  } few;
  Loop loop;
  Server server(loop);
  Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && !server.accepted.empty(); }));
  REQUIRE(client.connection);
  Inbox inbox;
  inbox.on_frame = server.inbox.on_frame = [&] { server.changed(); };
  client.connection->start(inbox, [](const Error&) {});
  std::vector<std::byte> large(most_frame_bytes);
  std::mt19937 random(1);
  for (std::byte& byte : large) byte = static_cast<std::byte>(random());
  constexpr uint64_t kFrames = 40;
  for (const ConnectionPtr& end : {client.connection, server.accepted[0]}) {
    for (uint64_t i = 0; i < kFrames; ++i) {
      end->send({5, 5, 1, i}, "small");
      end->send_from({6, most_frame_bytes, 2, i}, large);
    }
  }
  CHECK(
      server.run_until([&] { return inbox.heads.size() == 2 * kFrames && server.inbox.heads.size() == 2 * kFrames; }));
  CHECK(server.lost.empty());
  CHECK(inbox.bytes == server.inbox.bytes);
  CHECK(inbox.bytes.ends_with(std::string(reinterpret_cast<const char*>(large.data()), large.size())));
}

TEST_CASE("without the key nobody gets in") {
  Loop loop;
  Server server(loop);
  Client client(server, key_of('x'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && !server.refused.empty(); }));
  CHECK(!client.connection);
  CHECK(server.accepted.empty());
  CHECK(server.refused[0].starts_with("no TLS by the run's key"));
  CHECK(client.why->find("no TLS by the run's key") != std::string::npos);
  CHECK(client.fault == Fault::mismatch);  // another attempt meets the same
}

TEST_CASE("connections of one loop go out with the keys that they are given") {
  Loop loop;
  Server server(loop);
  for (const char key : {'k', 'k', 'x', 'k'}) {
    const size_t accepted = server.accepted.size();
    Client client(server, key_of(key), greeting("client"));
    REQUIRE(server.run_until([&] { return client.settled() && (key == 'x' || server.accepted.size() > accepted); }));
    CHECK((client.connection != nullptr) == (key == 'k'));
  }
}

// Somebody on the way may lead a connection elsewhere, without the key.
TEST_CASE("a connection that comes back to its own host is refused at both ends") {
  Loop loop;
  Server server(loop);
  Client client(server, key_of('k'), greeting("server"), "h2");
  REQUIRE(server.run_until([&] { return client.settled() && !server.refused.empty(); }));
  CHECK(server.accepted.empty());
  CHECK(server.refused[0].starts_with("a connection of host server has come back to it"));
  REQUIRE(client.why);
  CHECK(client.why->find("a connection of host server has come back to it") != std::string::npos);
  CHECK(client.fault == Fault::peer);  // another attempt may meet the right one
}

TEST_CASE("a connection that was meant for another host is refused at both ends") {
  Loop loop;
  Server server(loop);
  std::string meant, named;
  SUBCASE("a third host") {
    meant = "h3";
    named = "host h3";
  }
  SUBCASE("the launcher") { named = "the launcher's host"; }
  Client client(server, key_of('k'), greeting("client"), meant);
  REQUIRE(server.run_until([&] { return client.settled() && !server.refused.empty(); }));
  CHECK(server.accepted.empty());
  CHECK(server.refused[0] == "a connection from host client to " + named + " has come to host server");
  REQUIRE(client.why);
  CHECK(client.why->find("host server answers, not " + named) != std::string::npos);
}

TEST_CASE("a connection of another run is refused at both ends, where both know their run") {
  Loop loop;
  Server server(loop, handshake_limit, "a");
  Greeting own = greeting("client");
  SUBCASE("another") {
    own.run = "b";
    Client client(server, key_of('k'), own);
    REQUIRE(server.run_until([&] { return client.settled() && !server.refused.empty(); }));
    CHECK(server.accepted.empty());
    CHECK(server.refused[0] == "host client belongs to the run b, this host to the run a");
    REQUIRE(client.why);
    CHECK(client.why->find("host server belongs to the run a, this host to the run b") != std::string::npos);
  }
  SUBCASE("one that the listener hears of later") {
    server.listener->serve_run("b");
    own.run = "a";
    Client client(server, key_of('k'), own);
    REQUIRE(server.run_until([&] { return client.settled() && !server.refused.empty(); }));
  }
  SUBCASE("not known to the client") {
    Client client(server, key_of('k'), own);
    REQUIRE(server.run_until([&] { return client.settled() && server.accepted.size() == 1; }));
    CHECK(client.connection->peer().run == "a");
  }
}

// It has the key, shakes hands as "client" that wants "server", and then greets by another name.
TEST_CASE("a greeting with other names than those of its handshake is refused") {
  Loop loop;
  Server server(loop);
  Greeting said = greeting("client");
  said.to = "server";
  size_t let_in = 0;
  SUBCASE("the same") { let_in = 1; }
  SUBCASE("another name") { said.host = "h9"; }
  SUBCASE("another run") { said.run = "b"; }
  std::thread liar([&, port = server.listener->address().port] {
    asio::io_context context;
    asio::ip::tcp::socket socket(context);
    socket.connect({asio::ip::address_v4::loopback(), port});
    TlsStream stream(std::move(socket), std::make_shared<asio::ssl::context>(tls_context(key_of('k'), Side::client)));
    stream.identity() = identity_of(stream.context(), {"", "client", "server"});
    while (stream.shake_hands(asio::ssl::stream_base::client) == asio::error::would_block)
      stream.socket().wait(asio::ip::tcp::socket::wait_read);
    const std::string text = said.to_json();
    const EncodedHead head = encode({1, static_cast<uint32_t>(text.size()), 0, 0});
    size_t bytes = 0;
    stream.write(head, Way::tls, bytes);
    stream.write(std::as_bytes(std::span(text)), Way::tls, bytes);
    stream.flush();
    std::array<std::byte, 4096> answer;  // until the server hangs up, or the test does
    for (;;) {
      const asio::error_code error = stream.read(answer, Way::tls, bytes);
      if (error && error != asio::error::would_block) break;
      if (error) stream.socket().wait(asio::ip::tcp::socket::wait_read);
    }
  });
  CHECK(server.run_until([&] { return server.refused.size() + server.accepted.size() == 1; }));
  CHECK(server.accepted.size() == let_in);
  CHECK(server.refused ==
        std::vector<std::string>(1 - let_in, "a greeting with other names than those of its handshake"));
  for (const ConnectionPtr& each : server.accepted) each->close();
  liar.join();
}

// A payload that goes both ways, and over another connection, at the same place among the records: where two of them
// had one key and one nonce, their encrypted bytes would be the same, and with AES-GCM the key that authenticates could
// be had from the two.
TEST_CASE("each direction of each connection seals by a key of its own") {
  Loop loop;
  Server server(loop);
  const std::vector<std::byte> large(most_frame_bytes);
  std::vector<std::string> heard;
  for (size_t i = 0; i < 2; ++i) {
    Eavesdropper between(server.listener->address().port);
    ConnectionPtr made;
    connect(loop, key_of('k'), {.to = {"127.0.0.1", between.port()}, .host = "server", .own = greeting("client")},
            [&](ConnectionPtr connection, const Error*) {
              made = std::move(connection);
              server.changed();
            });
    REQUIRE(server.run_until([&] { return made && server.accepted.size() == i + 1; }));
    Inbox inbox;
    inbox.on_frame = server.inbox.on_frame = [&] { server.changed(); };
    made->start(inbox, [](const Error&) {});
    made->send({6, most_frame_bytes, 0, 0}, std::string(most_frame_bytes, '\0'));
    server.accepted[i]->send({6, most_frame_bytes, 0, 0}, std::string(most_frame_bytes, '\0'));
    REQUIRE(server.run_until([&] { return server.inbox.heads.size() == i + 1 && inbox.heads.size() == 1; }));
    made->close();
    REQUIRE(server.run_until([&] { return server.lost.size() == i + 1; }));
    heard.push_back(between.heard());
    heard.push_back(between.heard_back());
  }
  for (const std::string& one : heard) {
    REQUIRE(one.size() > most_frame_bytes);
    const std::string piece = one.substr(one.size() / 2, 64);
    CHECK(piece != std::string(64, '\0'));
    CHECK(std::ranges::count_if(heard, [&](const std::string& other) { return other.find(piece) != other.npos; }) == 1);
  }
}

TEST_CASE("hosts of a job run the same version and build") {
  Loop loop;
  Server server(loop);
  Greeting other = greeting("client");
  SUBCASE("version") { other.version = "1.2.4"; }
  SUBCASE("build") { other.build = 78; }
  Client client(server, key_of('k'), other);
  REQUIRE(server.run_until([&] { return client.settled() && !server.refused.empty(); }));
  CHECK(server.accepted.empty());
  CHECK(server.refused[0].starts_with("host client runs "));
  REQUIRE(client.why);
}

TEST_CASE("random bytes, half a handshake and silence are refused, and the next one is served") {
  Loop loop;
  Server server(loop, 300ms);
  std::string noise(4096, '\0');
  std::mt19937 random(2);
  for (char& byte : noise) byte = static_cast<char>(random());
  SUBCASE("random bytes") { say(server, noise); }
  SUBCASE("another protocol") { say(server, "GET / HTTP/1.1\r\n\r\n"); }
  SUBCASE("hangs up") { say(server, ""); }
  std::optional<UniqueFd> silent;
  SUBCASE("silence") { silent = plain_socket(server.listener->address().port); }
  REQUIRE(server.run_until([&] { return server.refused.size() == 1; }));
  CHECK(server.accepted.empty());
  if (silent) CHECK(server.refused[0] == "no greeting in time");
  if (silent) CHECK(server.faults[0] == Fault::peer);
  Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && server.accepted.size() == 1; }));
}

TEST_CASE("a recorded handshake opens nothing, nor does a part of it") {
  Loop loop;
  Server server(loop, 300ms);
  std::string recorded;
  {
    Eavesdropper between(server.listener->address().port);
    std::optional<ConnectionPtr> made;
    connect(loop, key_of('k'), {.to = {"127.0.0.1", between.port()}, .host = "server", .own = greeting("client")},
            [&](ConnectionPtr connection, const Error*) {
              made = connection;
              server.changed();
            });
    REQUIRE(server.run_until([&] { return made && server.accepted.size() == 1; }));
    REQUIRE(*made);
    (*made)->send({5, 3, 0, 0}, "abc");
    server.inbox.on_frame = [&] { server.changed(); };
    REQUIRE(server.run_until([&] { return server.inbox.bytes == "abc"; }));
    (*made)->close();
    REQUIRE(server.run_until([&] { return server.lost.size() == 1; }));
    recorded = between.heard();
  }
  REQUIRE(recorded.size() > 200);
  size_t refused = 0;
  for (size_t bytes = 1; bytes < recorded.size(); bytes += recorded.size() / 7) {
    say(server, recorded.substr(0, bytes));
    ++refused;
    REQUIRE(server.run_until([&] { return server.refused.size() == refused; }));
  }
  say(server, recorded);
  REQUIRE(server.run_until([&] { return server.refused.size() == refused + 1; }));
  CHECK(server.accepted.size() == 1);
  CHECK(server.inbox.bytes == "abc");
}

TEST_CASE("payloads that lie somewhere go in clear if the side that connects says so; nothing else does") {
  Loop loop;
  Server server(loop);
  Greeting own = greeting("client");
  SUBCASE("encrypted") { own.clear = false; }
  SUBCASE("clear") { own.clear = true; }
  Eavesdropper between(server.listener->address().port);
  ConnectionPtr made;
  connect(loop, key_of('k'), {.to = {"127.0.0.1", between.port()}, .host = "server", .own = own},
          [&](ConnectionPtr connection, const Error*) {
            made = std::move(connection);
            server.changed();
          });
  REQUIRE(server.run_until([&] { return made && server.accepted.size() == 1; }));
  std::vector<std::byte> large(most_frame_bytes);
  std::mt19937 random(3);
  for (std::byte& byte : large) byte = static_cast<std::byte>(random());
  const std::string bytes(reinterpret_cast<const char*>(large.data()), large.size());
  server.inbox.on_frame = [&] { server.changed(); };
  for (uint64_t i = 0; i < 3; ++i) {
    made->send({5, 20, i, 0}, "words that stay here");
    made->send_from({6, most_frame_bytes, i, 0}, large);
  }
  REQUIRE(server.run_until([&] { return server.inbox.heads.size() == 6; }));
  std::string expected;
  for (int i = 0; i < 3; ++i) expected += "words that stay here" + bytes;
  CHECK(server.inbox.bytes == expected);

  Inbox inbox;  // the other way, the same
  inbox.on_frame = [&] { server.changed(); };
  made->start(inbox, [](const Error&) {});
  server.accepted[0]->send_from({6, most_frame_bytes, 0, 0}, large);
  REQUIRE(server.run_until([&] { return !inbox.heads.empty(); }));
  CHECK(inbox.bytes == bytes);
  CHECK((inbox.heads[0].way == Way::clear) == own.clear);
  made->close();
  REQUIRE(server.run_until([&] { return !server.lost.empty(); }));
  const std::string& heard = between.heard();
  CHECK((heard.find(bytes) != std::string::npos) == own.clear);
  for (size_t at = 0; at < bytes.size(); at += 64 << 10)
    CHECK((heard.find(bytes.substr(at, 32)) != std::string::npos) == own.clear);
  CHECK(heard.find("words that stay here") == std::string::npos);
  CHECK(heard.find("client") == std::string::npos);
}

TEST_CASE("a byte of a large payload that is changed on its way ends the connection before anybody hears of it") {
  Loop loop;
  Server server(loop);
  Eavesdropper between(server.listener->address().port, 500'000);
  ConnectionPtr made;
  connect(loop, key_of('k'), {.to = {"127.0.0.1", between.port()}, .host = "server", .own = greeting("client")},
          [&](ConnectionPtr connection, const Error*) {
            made = std::move(connection);
            server.changed();
          });
  REQUIRE(server.run_until([&] { return made && server.accepted.size() == 1; }));
  const std::vector<std::byte> large(most_frame_bytes, std::byte{7});
  SUBCASE("that lies somewhere") { made->send_from({6, most_frame_bytes, 0, 0}, large); }
  SUBCASE("that is kept") { made->send({6, most_frame_bytes, 0, 0}, std::string(most_frame_bytes, 'a')); }
  server.inbox.on_frame = [&] { server.changed(); };
  REQUIRE(server.run_until([&] { return !server.lost.empty() || !server.inbox.heads.empty(); }));
  CHECK(server.inbox.heads.empty());
  CHECK(server.lost == std::vector<std::string>{"a payload that was changed on its way"});
  made->close();
  server.accepted[0]->close();
}

TEST_CASE("zeros do not cross the network, however fast it is") {
  Loop loop;
  Server server(loop);
  Eavesdropper between(server.listener->address().port);
  ConnectionPtr made;
  connect(loop, key_of('k'), {.to = {"127.0.0.1", between.port()}, .host = "server", .own = greeting("client")},
          [&](ConnectionPtr connection, const Error*) {
            made = std::move(connection);
            server.changed();
          });
  REQUIRE(server.run_until([&] { return made && server.accepted.size() == 1; }));
  std::vector<std::byte> rows(most_frame_bytes);
  std::fill_n(rows.begin() + 4096, 256, std::byte{7});
  server.inbox.on_frame = [&] { server.changed(); };
  made->send_from({6, most_frame_bytes, 0, 0}, rows);
  REQUIRE(server.run_until([&] { return !server.inbox.heads.empty(); }));
  CHECK(server.inbox.bytes == std::string(reinterpret_cast<const char*>(rows.data()), rows.size()));
  made->close();
  REQUIRE(server.run_until([&] { return !server.lost.empty(); }));
  CHECK(between.heard().size() < 10'000);
}

TEST_CASE("a payload in clear that was not agreed on ends the connection before it is read") {
  Loop loop;
  Server server(loop);
  Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && !server.accepted.empty(); }));
  client.connection->send({.kind = 5, .bytes = 3, .way = Way::clear}, "abc");
  REQUIRE(server.run_until([&] { return !server.lost.empty(); }));
  CHECK(server.inbox.heads.empty());
  CHECK(server.lost[0].starts_with("a payload in clear"));
}

TEST_CASE("a connection goes out by the address that is named") {
  Loop loop;
  Server server(loop);
  std::optional<std::string> from;
  ConnectionPtr made;
  connect(loop, key_of('k'),
          {.to = server.listener->address(), .host = "server", .from = "127.0.0.9", .own = greeting("client")},
          [&](ConnectionPtr connection, const Error*) {
            made = std::move(connection);
            server.changed();
          });
  REQUIRE(server.run_until([&] { return made && server.accepted.size() == 1; }));
  CHECK(server.accepted[0]->peer_address().starts_with("127.0.0.9:"));
  CHECK_THROWS_AS(connect(loop, key_of('k'), {.to = server.listener->address(), .from = "192.0.2.1"}, nullptr), Error);
}

TEST_CASE("a frame that is too large, or of no kind, ends the connection before it is read") {
  Loop loop;
  Server server(loop);
  Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && !server.accepted.empty(); }));
  FrameHead head = {5, most_frame_bytes + 1, 0, 0};
  SUBCASE("too large") {}
  SUBCASE("no kind") { head = {most_kinds + 1, 0, 0, 0}; }
  client.connection->send(head, "");
  REQUIRE(server.run_until([&] { return !server.lost.empty(); }));
  CHECK(server.inbox.heads.empty());
  CHECK(server.lost[0].starts_with("a frame of "));
}

TEST_CASE("one address that holds as many connections as it gets keeps nobody else out") {
  Loop loop;
  Server server(loop, 4s);
  std::vector<UniqueFd> crowd;
  for (size_t i = 0; i < 200; ++i) crowd.push_back(plain_socket(server.listener->address().port, "127.0.0.2"));
  REQUIRE(server.run_until([&] { return !server.refused.empty(); }));
  Client client(server, key_of('k'), greeting("client"));  // from 127.0.0.1
  REQUIRE(server.run_until([&] { return client.settled(); }));
  CHECK(client.connection);
  CHECK(server.refused.size() == crowd.size() - Places::most_of_a_stranger - Places::most_waiting_of_an_address);
}

TEST_CASE("hosts that connect many times at once all get in") {
  Loop loop;
  Server server(loop);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 60; ++i) clients.push_back(std::make_unique<Client>(server, key_of('k'), greeting("client")));
  const auto all_settled = [&] { return std::ranges::all_of(clients, [](const auto& one) { return one->settled(); }); };
  CHECK(server.run_until([&] { return server.accepted.size() == clients.size() && all_settled(); }));
}

TEST_CASE("without a descriptor left, a listener waits, and takes who comes once there is one") {
  Loop loop;
  Server server(loop);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const UniqueFd stranger = plain_socket(server.listener->address().port);
  const UniqueFd least(::dup(0));
  const rlimit none = {static_cast<rlim_t>(least.get()), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  bool late = false;
  const auto end = loop.once(1s, [&] {
    late = true;
    loop.stop();
  });
  rusage begin{}, now{};
  ::getrusage(RUSAGE_THREAD, &begin);
  loop.run();
  loop.restart();
  ::getrusage(RUSAGE_THREAD, &now);
  const auto used_ms = [](const rusage& usage) {
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
  };
  CHECK(used_ms(now) - used_ms(begin) < 500);  // a second of spinning would be nearly all of it
  CHECK(late);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(server.refused.empty());
  CHECK(server.refused.front().find("cannot take a connection") != std::string::npos);
  Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled(); }));
  CHECK(client.connection);
}

TEST_CASE("no process that is started inherits a connection") {
  Loop loop;
  Server server(loop);
  Client client(server, key_of('k'), greeting("client"));
  REQUIRE(server.run_until([&] { return client.settled() && !server.accepted.empty(); }));
  int sockets = 0;
  for (int fd = 3; fd < 256; ++fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    ++sockets;
    CAPTURE(fd);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(sockets >= 3);
}

TEST_CASE("an address may have a name for its host, and always has a port") {
  CHECK(split_address("nodeA:7000").host == "nodeA");
  CHECK(split_address("nodeA:7000").port == 7000);
  CHECK(split_address("[fd00::2]:1").host == "fd00::2");
  CHECK_FALSE(is_number(split_address("nodeA:7000")));
  CHECK(is_number(split_address("[fd00::2]:1")));
  for (const char* text : {"", "nodeA", "nodeA:", ":7000", "nodeA:x", "nodeA:70000", "fd00::2:1", "[]:1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(split_address(text), Error);
  }
}

TEST_CASE("addresses") {
  CHECK(parse_address("127.0.0.1:80").text() == "127.0.0.1:80");
  CHECK(parse_address("[::1]:80").text() == "[::1]:80");
  CHECK_THROWS_AS(parse_address("127.0.0.1"), Error);
  CHECK_THROWS_AS(parse_address("127.0.0.1:70000"), Error);
  CHECK_THROWS_AS(parse_address(":80"), Error);
  for (const char* text : {"", ":", "localhost:7000", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:7a", "fd00::2:1",
                           "[fd00::2]", "10.0.0:7000", "[10.0.0.2]:80"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_address(text), Error);
  }
}

}  // namespace
}  // namespace estrain::net
