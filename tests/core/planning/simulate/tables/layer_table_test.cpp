#include "core/planning/simulate/tables/layer_table.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::simulate {
namespace {

const std::string kLayersHeader = "model,set,order,layer,params,batch_per_gpu,input_dims,total_ms";

TEST_CASE("times between batches, activations and parameters") {
  const ScratchFolder folder;
  const std::string path = folder.write(
      "l.csv",
      kLayersHeader +
          "\nm,s,0,conv2d,\"{\"\"in_channels\"\":3;\"\"out_channels\"\":2;\"\"kernel_size\"\":5}\",2,3x4x4,10\n"
          "m,s,1,linear,\"{\"\"in_features\"\":32;\"\"out_features\"\":10}\",2,32,1\n"
          "m,s,0,conv2d,\"{\"\"in_channels\"\":3;\"\"out_channels\"\":2;\"\"kernel_size\"\":5}\",4,3x4x4,14\n"
          "m,s,1,linear,\"{\"\"in_features\"\":32;\"\"out_features\"\":10}\",4,32,1\nother,s,0,flatten,{},1,8,1\n");
  LayerTableOptions options{"m", "", 12, 100};
  const std::vector<plan::BurstPart> parts = read_layer_table(path, options);
  REQUIRE(parts.size() == 2);
  const plan::BurstLayer& conv = parts[0].branches[0][0];
  CHECK(conv.name == "0 conv2d");
  CHECK(conv.input_bytes == 4.0 * 48 * 12);
  CHECK(conv.parameter_bytes == 4.0 * 3 * 2 * 25);
  REQUIRE(conv.compute.size() == 4);  // 1, 2, 4, 8 of 12 samples
  CHECK(conv.compute[0] == doctest::Approx(0.014 * 3));
  CHECK(conv.compute[1] == doctest::Approx(0.014 * 1.5));
  CHECK(conv.compute[2] == doctest::Approx(0.012));  // 3 samples
  CHECK(conv.compute[3] == doctest::Approx(0.010));  // 1.5
  CHECK(parts[1].branches[0][0].parameter_bytes == 4.0 * 33 * 10);
  CHECK(read_layer_table(path, {"other", "s", 1, 8}).size() == 1);
}

TEST_CASE("blocks and branches") {
  const ScratchFolder folder;
  std::string text = kLayersHeader + ",block,branch\n";
  int order = 0;
  for (const char* where : {"0,0", "1,0", "1,0", "1,1", "2,0", "2,1", "0,0", "0,0"}) {
    text += fmt::format("m,s,{},relu,{{}},1,8,1,{}\n", order++, where);
  }
  const std::vector<plan::BurstPart> parts = read_layer_table(folder.write("l.csv", text), {"", "", 1, 1});
  REQUIRE(parts.size() == 5);
  CHECK(parts[1].branches.size() == 2);
  CHECK(parts[1].branches[0].size() == 2);
  CHECK(parts[2].branches.size() == 2);
}

TEST_CASE("tables that are wrong") {
  const ScratchFolder folder;
  const auto message = [&](const std::string& rows, const LayerTableOptions& options, Fault fault) {
    const Error error =
        error_of([&] { read_layer_table(folder.write("l.csv", kLayersHeader + "\n" + rows), options); });
    CHECK(error.fault() == fault);
    return error.message();
  };
  CHECK(message("m,s,0,relu,{},1,8,1\n", {"n", "", 1, 1}, Fault::usage).find("has no model \"n\"") !=
        std::string::npos);
  CHECK(message("m,s,0,relu,{},1,8,1\n", {"m", "t", 1, 1}, Fault::usage).find("has no set \"t\"") != std::string::npos);
  CHECK(message("m,s,0,linear,{},1,8,1\n", {"m", "", 1, 1}, Fault::spec).find("size of a linear") != std::string::npos);
  CHECK(message("m,s,0,relu,{},1,8y,1\n", {"m", "", 1, 1}, Fault::spec).find("CxHxW") != std::string::npos);
  CHECK(message("m,s,0,relu,{},1,8,-1\n", {"m", "", 1, 1}, Fault::spec).find("-1 is below 0") != std::string::npos);
  CHECK(message("m,s,0,relu,{},1,8,1\nm,s,1,relu,{},1,8,1\nm,s,0,relu,{},2,8,1\n", {"m", "", 1, 1}, Fault::spec)
            .find("2 layers at one batch and 1 at batch 2") != std::string::npos);
}

}  // namespace
}  // namespace estrain::simulate
