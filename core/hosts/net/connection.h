#pragma once
// Connections between the hosts of a job: TCP, with TLS 1.3 by the run's key (OpenSSL, pre-shared key with an ephemeral
// exchange, AES-128-GCM; no certificates). The handshake also proves whose connection it is and to whom (tls.h).
// Payloads of 4 KiB and more go beside TLS, by keys from its handshake (secrecy/seal.h). No byte of a peer without the
// key is looked at. A recorded handshake is of no use: it proves nothing to a server that draws its own half anew, and
// early data is off. Large payloads may be sent in clear, if the side that connects says so in its greeting: the other
// side must still prove that it has the key, and the heads of frames are encrypted. Large payloads of floats are packed
// without loss (packing/packed_floats.h) if the network is slower than that.
//
// All of this runs in the thread of the loop.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

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
// "nodeA:7000", too: the host may be a name. Throws Fault::usage.
Address split_address(const std::string& text);
bool is_number(const Address& address);

// Until TLS stands and both have greeted; for a connection that is made, from the first packet on.
inline constexpr int handshake_milliseconds = 5000;

class Connection {
 public:
  virtual ~Connection() = default;

  virtual const Greeting& peer() const = 0;
  virtual const std::string& peer_address() const = 0;

  // Frames go to the sink from now on. `closed` is called once, with the reason, unless close() was called first: the
  // peer went away, fell silent for 1.5 s with data on the way to it, or broke the protocol.
  virtual void start(FrameSink& sink, std::function<void(const Error& why)> closed) = 0;
  // The sink has room for the frame that waits.
  virtual void retry() = 0;
  // Sent in order. The first keeps the payload, the second reads it where it lies, until it is sent; that one may go in
  // clear.
  virtual void send(const FrameHead& head, std::string payload) = 0;
  virtual void send_from(const FrameHead& head, std::span<const std::byte> payload) = 0;
  virtual size_t bytes_waiting() const = 0;  // to be sent
  // After it was lost: the peer's system closed it, so its process has ended or wanted that. False: nothing was heard.
  virtual bool ended_by_peer() const = 0;
  virtual void close() = 0;
};

using ConnectionPtr = std::shared_ptr<Connection>;

class Listener {
 public:
  struct Options {
    Address at;  // port 0: any free one
    Greeting own;
    int patience_ms = handshake_milliseconds;
    std::function<void(ConnectionPtr)> accepted;
    // A peer that got nowhere: no key, another version, no handshake at all, no place (peers/places.h). Without an
    // address: this process has no descriptor for those who come. Strangers cost the job nothing else.
    std::function<void(const std::string& address, const Error& why)> refused;
  };
  // Throws Fault::io where it cannot listen there.
  Listener(Loop& loop, const Key& key, Options options);
  ~Listener();  // NOLINT(bugprone-exception-escape): memory that runs out ends the process
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Address& address() const;
  // From now on, who connects must mean this run.
  void serve_run(const std::string& name);

 private:
  struct Ears;
  std::shared_ptr<Ears> ears_;
};

struct Call {
  Address to;
  std::string host = {};  // the name of the one that must answer there; empty: the launcher's host
  std::string from = {};  // the address of this host that it goes out by; empty: what the system chooses
  Greeting own = {};
};
// Calls back once: with a connection, or with the reason why there is none. Throws Fault::usage where an address is
// none, Fault::io where `from` is no address of this host.
void connect(Loop& loop, const Key& key, const Call& call, std::function<void(ConnectionPtr, const Error* why)> done);

}  // namespace estrain::net
