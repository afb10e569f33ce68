#pragma once
// Tells the dispatcher the news of other hosts: joining, leaving and lost agents. News of jobs there go to JobNews.

#include <string>
#include <vector>

#include "core/pool/daemon/job_news.h"

namespace estrain::pool {

class HostNews {
 public:
  HostNews(PoolDispatcher& dispatcher, PoolHosts& hosts, JobNews& news)
      : dispatcher_(dispatcher), hosts_(hosts), news_(news) {}

  // Takes the devices of agents gone at the daemon's start out of the pool.
  void take_up();
  // Looks at the agents. Returns lines for the history.
  std::vector<dispatch::Note> tend();

 private:
  void admit(const std::string& host, const AdmitHost& action);
  void release(const std::string& host);
  void give_up(const std::string& host, const std::string& reason);
  void carry_out(const AgentNews& news);

  PoolDispatcher& dispatcher_;
  PoolHosts& hosts_;
  JobNews& news_;
  std::vector<dispatch::Note> notes_;  // since the last look
};

}  // namespace estrain::pool
