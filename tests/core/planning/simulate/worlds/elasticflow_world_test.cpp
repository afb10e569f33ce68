#include <doctest/doctest.h>

#include "core/planning/simulate/worlds/worlds.h"
#include "tests/core/planning/simulate/small_worlds.h"
#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

const std::string kDeadlinesHeader = "job,submit_s,iterations,model,deadline_s,batch_size,num_gpu\n";

void write_speeds(const ScratchFolder& folder, const std::string& more = "") {
  folder.write("elasticflow_throughputs.csv",
               "gpu,model,global_batch_size,num_gpu,iters_per_s\nA100,bert,64,1,1\nA100,bert,64,2,1.5\n" + more);
}

TEST_CASE("speeds are those of the table, and deadlines are counted") {
  const ScratchFolder folder;
  write_speeds(folder);
  const std::string trace = folder.write("t.csv", kDeadlinesHeader + "a,0,600,bert,500,64,1\nb,0,600,bert,700,64,1\n");
  const auto world = open_world({folder.path(), trace, "1x2"});
  const SimulationResult gangs = run_once(*world, "1", "fifo");  // from 60 s on, 600 s each
  CHECK(jcts(gangs)["a"] == 660);
  CHECK(figures_of(gangs).deadlines_met == 1);
  const SimulationResult both = run_once(*world, "1", "elasticflow");  // a has two until it is done
  CHECK(jcts(both)["a"] == 60 + 400);
  CHECK(figures_of(both).deadlines == 2);
}

TEST_CASE("the authors' own names of columns are known, too") {
  const ScratchFolder folder;
  write_speeds(folder);
  const std::string trace =
      folder.write("t.csv",
                   "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,duration\n"
                   "a,0,600,bert,500,64,1,1\n");
  const SimulationResult result = run_once(*open_world({folder.path(), trace, "1x2"}), "1", "fifo");
  CHECK(jcts(result)["a"] == 660);
  CHECK(figures_of(result).deadlines == 1);
}

TEST_CASE("ours begins when a job comes") {
  const ScratchFolder folder;
  write_speeds(folder);
  const std::string trace = folder.write("t.csv", kDeadlinesHeader + "a,0,60,bert,70,64,1\nb,100,60,bert,145,64,1\n");
  const auto world = open_world({folder.path(), trace, "1x2"});
  CHECK(figures_of(run_once(*world, "1", "elasticflow")).deadlines_met == 0);
  CHECK(figures_of(run_once(*world, "1", "estrain:deadlines=first")).deadlines_met == 2);
}

TEST_CASE("what was not measured, and tables out of order, are refused by place") {
  const ScratchFolder folder;
  write_speeds(folder);
  const auto refused = [&](const std::string& row) {
    return error_of([&] { open_world({folder.path(), folder.write("t.csv", kDeadlinesHeader + row), "1x2"}); });
  };
  CHECK(refused("a,0,60,gpt2,70,64,1\n").message().find("t.csv:2") != std::string::npos);
  CHECK(refused("a,0,60,bert,70,64,4\n").fault() == Fault::infeasible);
  CHECK(refused("").fault() == Fault::spec);
  write_speeds(folder, "A100,bert,64,8,9\n");
  CHECK(refused("a,0,60,bert,70,64,1\n").fault() == Fault::spec);
}

}  // namespace
}  // namespace estrain::simulate
