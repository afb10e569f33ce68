#pragma once
// Names of hosts. A name server may be silent for half a minute: each look-up runs in a thread of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

// Returns the addresses of a name. Waits for `patience` at most. Throws Fault::peer if no address is found by then.
std::vector<net::Address> look_up_within(const net::Address& named, Nanoseconds patience);

// A look-up beside a loop. `done` is called once, with the addresses or with the reason for the failure, unless the
// look-up is dropped first.
class LookUp {
 public:
  using Done = std::function<void(const std::vector<net::Address>& found, const Error* why)>;
  LookUp(net::Loop& loop, const net::Address& named, Done done);
  ~LookUp();
  LookUp(const LookUp&) = delete;

 private:
  struct Errand;
  friend std::vector<net::Address> look_up_within(const net::Address&, Nanoseconds);

  std::shared_ptr<Errand> errand_;
  std::shared_ptr<net::Loop::Watch> watch_;
  Done done_;
};

}  // namespace estrain::hosts
