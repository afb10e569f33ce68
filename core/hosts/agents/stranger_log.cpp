#include "core/hosts/agents/stranger_log.h"

#include <utility>

namespace estrain::hosts {

StrangerLog::StrangerLog(net::Loop& loop, const std::string& run, std::string host, Nanoseconds between)
    : loop_(loop), directory_(run), host_(std::move(host)), between_(between) {}

StrangerLog::~StrangerLog() {
  try {
    write();
  } catch (...) {  // the last line of a log is given up
  }
}

void StrangerLog::note(const std::string& from, const Error& why) {
  ++connections_;
  from_ = from;
  why_ = why.message();
  if (!pause_) write();
}

void StrangerLog::write() {
  if (connections_ == 0) return pause_.reset();
  const Json line = {{"host", host_}, {"from", from_}, {"why", why_}, {"connections", std::exchange(connections_, 0)}};
  directory_.log_event("refused_connection", line);
  pause_ = loop_.once(between_, [this] { write(); });
}

}  // namespace estrain::hosts
