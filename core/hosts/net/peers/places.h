#pragma once
// The places of a listener for connections that have not greeted yet. Whoever reaches the port can ask for one, with or
// without the key, so they are few. One address has a part of them, unless somebody came from there who had the key.
// What is beyond its part waits until one of its places is free. Where all places are taken, the oldest of the address
// that has the most gives way; addresses that have proved the key give way last.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace estrain::net {

class Places {
 public:
  static constexpr size_t most = 64;               // that have a place
  static constexpr size_t most_of_a_stranger = 8;  // of one address
  static constexpr size_t most_waiting = 128, most_waiting_of_an_address = 64;
  static constexpr size_t most_known = 1024;  // addresses

  struct Answer {
    enum class Is { enters, waits, is_refused } is = Is::enters;
    std::optional<uint64_t> gives_way;  // this one has no place any more
  };
  Answer ask(uint64_t number, const std::string& address);
  // It has greeted, or gone. Returns those that waited and have a place now.
  std::vector<uint64_t> leave(uint64_t number);
  // It has the key, so its address is known from now on. Before leave().
  void know(uint64_t number);

 private:
  struct One {
    uint64_t number;
    std::string address;
    bool waits;
  };
  size_t count(bool waiting) const;
  size_t count(const std::string& address, bool waiting) const;
  size_t part_of(const std::string& address) const;
  std::optional<uint64_t> make_room();

  std::vector<One> all_;  // in the order in which they came
  std::set<std::string> known_;
};

}  // namespace estrain::net
