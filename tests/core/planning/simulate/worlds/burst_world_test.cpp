#include <doctest/doctest.h>

#include "core/planning/simulate/worlds/worlds.h"
#include "tests/core/planning/simulate/small_worlds.h"
#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

// On four devices the first layer takes a quarter of its 4 s, the second its 1 s on any number: it leaves three devices
// idle. Moving the input to one device takes next to nothing.
const std::string kBurstTable =
    "model,set,order,layer,params,batch_per_gpu,input_dims,total_ms\n"
    "m,s,0,relu,{},4,8,4000\nm,s,1,relu,{},4,8,1000\nm,s,0,relu,{},1,8,1000\nm,s,1,relu,{},1,8,1000\n";
const std::string kBurstColumns = "job,submit_s,kind,model,batch,iterations,limit,slowed\n";
const std::string kForeground = "f,0,foreground,m,4,100,1.5,0\n";

std::map<std::string, double> burst_jcts(const std::string& rows, const std::string& policy,
                                         const Charge& charge = {}) {
  const ScratchFolder folder;
  folder.write("layer_profiles.csv", kBurstTable);
  const auto world = open_world({folder.path(), folder.write("t.csv", kBurstColumns + rows), "1x4"});
  return jcts(run_once(*world, "1", policy, charge));
}

doctest::Approx nearly(double seconds) { return doctest::Approx(seconds).epsilon(1e-3); }

TEST_CASE("background jobs progress in the gaps that a burst-parallel plan leaves, and the foreground does not wait") {
  // Alone, a background iteration takes 2 s; each of three devices is idle for half of the foreground's 2 s.
  const std::string background = "a,0,background,m,1,10,1,0\nb,0,background,m,1,20,1,0\n";
  const auto shared = burst_jcts(kForeground + background, "deeppool");
  CHECK(shared.at("f") == nearly(200));
  CHECK(shared.at("a") == nearly(40));
  CHECK(shared.at("b") == nearly(80));
  const auto one_by_one = burst_jcts(kForeground + background, "fifo");  // in rounds of a minute
  CHECK(one_by_one.at("f") == nearly(60 + 200));
  CHECK(one_by_one.at("a") == nearly(300 + 20));
  CHECK(one_by_one.at("b") == nearly(300 + 40));
}

TEST_CASE("a device without a gap lends nothing, and neither does a data parallel plan") {
  std::string four;
  for (const char* name : {"a", "b", "c", "d"}) four += std::string(name) + ",0,background,m,1,50,1,0\n";
  const auto shared = burst_jcts(kForeground + four, "deeppool");
  CHECK(shared.at("c") == nearly(200));
  CHECK(shared.at("d") == nearly(200 + 100));  // on the first device, which all layers use
  const auto parallel = burst_jcts("f,0,foreground,m,4,100,0,0\na,0,background,m,1,10,1,0\n", "deeppool");
  CHECK(parallel.at("a") == nearly(200 + 20));
}

TEST_CASE("a foreground job is slower while it shares, and only then") {
  const std::string slowed = "f,0,foreground,m,4,100,1.5,0.5\n", background = "a,0,background,m,1,15,1,0\n";
  CHECK(burst_jcts(slowed, "deeppool").at("f") == nearly(200));
  // The background job takes 60 s, in which the foreground does 20 iterations of 3 s.
  CHECK(burst_jcts(slowed + background, "deeppool").at("f") == nearly(60 + 160));
}

TEST_CASE("devices outside the foreground are taken first; foreground jobs and background jobs wait in order") {
  const ScratchFolder folder;
  folder.write("layer_profiles.csv", kBurstTable);
  const std::string columns = "job,submit_s,kind,model,batch,iterations,limit,slowed,devices\n";
  const std::string rows =
      "f,0,foreground,m,4,100,1.5,0,2\ng,0,foreground,m,4,100,1.5,0,4\na,0,background,m,1,10,1,0,1\n";
  const auto world = open_world({folder.path(), folder.write("t.csv", columns + rows), "1x4"});
  const auto shared = jcts(run_once(*world, "1", "deeppool"));
  CHECK(shared.at("a") == nearly(20));
  CHECK(shared.at("f") == nearly(300));  // 2 s and 1 s on two devices
  CHECK(shared.at("g") == nearly(300 + 200));
}

TEST_CASE("a change of devices costs the charge; a trace and a cluster that cannot be are refused") {
  CHECK(burst_jcts(kForeground, "deeppool", {Charge::Kind::seconds, 7}).at("f") == nearly(207));
  CHECK(error_of([&] { burst_jcts("f,0,middle,m,4,100,1,0\n", "deeppool"); }).message().find("\"middle\" is neither") !=
        std::string::npos);
  CHECK(error_of([&] { burst_jcts("", "deeppool"); }).fault() == Fault::spec);
  CHECK(error_of([&] { burst_jcts("f,0,foreground,n,4,100,1,0\n", "deeppool"); }).fault() == Fault::usage);
  const ScratchFolder folder;
  folder.write("layer_profiles.csv", kBurstTable);
  CHECK(error_of([&] {
          open_world({folder.path(), folder.write("t.csv", kBurstColumns + kForeground), ""});
        }).fault() == Fault::usage);
}

}  // namespace
}  // namespace estrain::simulate
