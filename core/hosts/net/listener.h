#pragma once
// The places of a Listener (connection.h) for connections that have not greeted yet: decisions only, no sockets. Any
// process with access to the port can take a place, with or without the key, so places are few. An address has a part
// of the places, unless a connection from the address had the key. A connection beyond the part waits for a free place.
// If all places are taken, the oldest connection of the address with the most places gives way; addresses with a proved
// key give way last.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace estrain::net {

class Places {
 public:
  static constexpr size_t most = 64;               // connections with a place
  static constexpr size_t most_of_a_stranger = 8;  // of one address
  static constexpr size_t most_waiting = 128, most_waiting_of_an_address = 64;
  static constexpr size_t most_known = 1024;  // addresses; further addresses stay strangers

  struct Admission {
    enum class Is { enters, waits, is_refused } is = Is::enters;
    std::optional<uint64_t> gives_way;  // this connection has lost its place: the caller closes it
  };
  // Asks for a place for a new connection. `number`: the caller's, a new number for each connection. A connection is
  // refused if too many wait.
  Admission ask(uint64_t number, const std::string& address);
  // The connection has greeted, or gone. Returns the waiting connections that now have a place.
  std::vector<uint64_t> leave(uint64_t number);
  // The connection has the key, so its address is known from now on. Call before leave().
  void know(uint64_t number);

 private:
  struct Newcomer {
    uint64_t number;
    std::string address;
    bool waits;
  };
  size_t count(bool waiting) const;
  size_t count(const std::string& address, bool waiting) const;
  size_t part_of(const std::string& address) const;
  std::optional<uint64_t> make_room();

  std::vector<Newcomer> all_;  // in the order of arrival
  std::set<std::string> known_;
};

}  // namespace estrain::net
