#pragma once
// Writes refused connections into events.jsonl: the first at once, then a count once a minute. Anybody can connect, so
// a line for each connection would let a stranger fill the disk.

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/hosts/net/loop.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::hosts {

class StrangerLog {
 public:
  // `host`: the name of this host.
  StrangerLog(net::Loop& loop, const std::string& run, std::string host, Nanoseconds between = 60s);
  ~StrangerLog();
  StrangerLog(const StrangerLog&) = delete;

  void note(const std::string& from, const Error& why);

 private:
  void write();

  net::Loop& loop_;
  const run_directory::RunDirectory directory_;
  const std::string host_;
  const Nanoseconds between_;
  int64_t connections_ = 0;  // not in any line yet
  std::string from_, why_;   // of the newest
  std::shared_ptr<net::Loop::Timer> pause_;
};

}  // namespace estrain::hosts
