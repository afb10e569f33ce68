#pragma once
// Connections between the hosts of a job: TCP, with TLS 1.3 by the run's key (OpenSSL, pre-shared key with an ephemeral
// exchange, AES-128-GCM; no certificates). The handshake also proves the run and both ends of the connection (tls.h).
// Payloads of 4 KiB and more go beside TLS, by keys from its handshake (secrecy/seal.h). No byte from a peer without
// the key is read. A recorded handshake is useless: it proves nothing to a server with a fresh half of the exchange,
// and early data is off. Large payloads may be sent in clear, if the connecting side says so in its greeting: the peer
// must still prove the key, and the heads of frames are encrypted. Large payloads of floats are packed without loss
// (packing/packed_floats.h): blocks of zeros are always left out, exponents are coded if the network is slower than the
// coding.
//
// A connection runs entirely in the thread of the loop.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/hosts/net/frame.h"
#include "core/hosts/net/greeting.h"
#include "core/hosts/net/loop.h"
#include "core/hosts/net/secrecy/key.h"

namespace estrain::net {

struct Address {
  std::string host;  // an IPv4 or IPv6 address
  uint16_t port = 0;

  std::string text() const;  // "10.0.0.1:7000", "[::1]:7000"
};

// Throws Fault::usage for all but a number with a port. No name is looked up: the text may come from another host, or
// from a file, and a name server may be silent.
Address parse_address(const std::string& text);
// Also takes "nodeA:7000": the host may be a name. Throws Fault::usage.
Address split_address(const std::string& text);
bool is_number(const Address& address);

// Until TLS stands and both ends have greeted; for an outgoing connection, from the first packet on.
inline constexpr Nanoseconds handshake_limit = 5s;

class Connection {
 public:
  virtual ~Connection() = default;

  virtual const Greeting& peer() const = 0;
  virtual const std::string& peer_address() const = 0;

  // From now on, frames go to the sink. `closed` is called once, with the reason, unless close() was called first: the
  // peer went away, was silent for 1.5 s with data on the way to the peer, or broke the protocol. A peer that goes away
  // without a word is noticed once data is sent to the peer.
  virtual void start(FrameSink& sink, std::function<void(const Error& why)> closed) = 0;
  // The sink has room for the waiting frame.
  virtual void retry() = 0;
  // Both send frames in order. send() keeps the payload. send_from() reads the payload in place, until it is sent; this
  // payload may go in clear.
  virtual void send(const FrameHead& head, std::string payload) = 0;
  virtual void send_from(const FrameHead& head, std::span<const std::byte> payload) = 0;
  virtual size_t bytes_waiting() const = 0;  // to be sent
  // After a loss: true if the peer's system closed the connection, since the peer's process has ended or wanted this.
  virtual bool ended_by_peer() const = 0;
  virtual void close() = 0;
};

using ConnectionPtr = std::shared_ptr<Connection>;

class Listener {
 public:
  struct Options {
    Address at;  // port 0: any free port
    Greeting own;
    Nanoseconds patience = handshake_limit;
    std::function<void(ConnectionPtr)> accepted;
    // A refused peer: no key, another version, no handshake at all, no place (listener.h). An empty address: this
    // process has no descriptor for new connections. Strangers cost the job nothing else.
    std::function<void(const std::string& address, const Error& why)> refused;
  };
  // Throws Fault::io if the listener cannot listen at the address.
  Listener(Loop& loop, const SharedKey& key, Options options);
  ~Listener();  // NOLINT(bugprone-exception-escape): memory that runs out ends the process
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Address& address() const;
  // From now on, a connecting peer must mean this run.
  void serve_run(const std::string& name);

 private:
  struct Ears;
  std::shared_ptr<Ears> ears_;
};

struct OutgoingCall {
  Address to;
  std::string host = {};  // the name of the host that must answer; empty: the launcher's host
  std::string from = {};  // the own address of the connection; empty: the system's choice
  Greeting own = {};
};
// Calls back once: with a connection, or with the reason for the failure. Throws Fault::usage if an address is not an
// address, Fault::io if `from` is no address of this host, or if this process has no descriptor left.
void connect(Loop& loop, const SharedKey& key, const OutgoingCall& call,
             std::function<void(ConnectionPtr, const Error* why)> done);

}  // namespace estrain::net
