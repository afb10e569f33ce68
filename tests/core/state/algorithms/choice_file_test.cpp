#include "core/state/algorithms/choice_file.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace estrain::algorithms {
namespace {

const Choice kProduct = {"product k=3 m=1 n=2", "NVIDIA H200, sm_90", "id=21 tile=15", "cuBLASLt 13.1.0"};
const Choice kOnOther = {"product k=3 m=1 n=2", "NVIDIA A100, sm_80", "id=6 tile=18", "cuBLASLt 13.1.0"};
const Choice kConvolution = {"convolution_data groups=1", "NVIDIA H200, sm_90", "", "cuDNN 9.19.0"};

TEST_CASE("a choice is a line of JSON") {
  CHECK(kProduct.to_line() ==
        R"({"key":"product k=3 m=1 n=2","device":"NVIDIA H200, sm_90","algorithm":"id=21 tile=15",)"
        R"("libraries":"cuBLASLt 13.1.0"})");
  CHECK(Choice::from_line(kProduct.to_line()) == kProduct);
  CHECK(Choice::from_line(kConvolution.to_line()) == kConvolution);
  const Choice odd = {"a", "\"quoted\"\n\\", "b", "\t"};
  CHECK(odd.to_line().find('\n') == std::string::npos);
  CHECK(Choice::from_line(odd.to_line()) == odd);
  CHECK(Choice::from_line(R"({"key":"a","device":"b","algorithm":"c","libraries":"d","later":1})").algorithm == "c");
}

TEST_CASE("what is no choice is refused") {
  for (const char* line : {"", "{", "[]", "{}", R"({"key":"a","device":"b","algorithm":"c"})",
                           R"({"key":"a","device":"b","algorithm":1,"libraries":"d"})",
                           R"({"key":"","device":"b","algorithm":"c","libraries":"d"})",
                           R"({"key":"a","device":"","algorithm":"c","libraries":"d"})"}) {
    CAPTURE(line);
    CHECK(error_of([&] { Choice::from_line(line); }).fault() == Fault::corrupt);
  }
}

TEST_CASE("choices are found by operation and type of device, else by operation") {
  Choices choices;
  choices.put(kProduct);
  choices.put(kOnOther);
  choices.put(kConvolution);
  CHECK(choices.size() == 3);
  CHECK(*choices.find(kProduct.key, kProduct.device) == kProduct);
  CHECK(*choices.find(kProduct.key, kOnOther.device) == kOnOther);
  CHECK(choices.find(kConvolution.key, kOnOther.device) == nullptr);
  CHECK(*choices.find_any(kConvolution.key, kOnOther.device) == kConvolution);
  CHECK(*choices.find_any(kProduct.key, kProduct.device) == kProduct);
  CHECK(*choices.find_any(kProduct.key, "NVIDIA L4, sm_89") == kOnOther);  // the first by name
  CHECK(choices.find_any("product", kProduct.device) == nullptr);
  CHECK(choices.find_any("product k=3 m=1 n=20", kProduct.device) == nullptr);
}

TEST_CASE("the same choices are the same text, and come back from it") {
  Choices some, others;
  for (const Choice& choice : {kProduct, kOnOther, kConvolution}) some.put(choice);
  for (const Choice& choice : {kConvolution, kProduct, kOnOther}) others.put(choice);
  CHECK(some.to_text() == others.to_text());
  CHECK(some.to_text() == kConvolution.to_line() + "\n" + kOnOther.to_line() + "\n" + kProduct.to_line() + "\n");
  CHECK(Choices::from_text(some.to_text(), "here") == some);
  CHECK(Choices::from_text("", "here").empty());
}

TEST_CASE("of two lines for the same the later one counts; a line without its end does not; a damaged one is named") {
  Choice later = kProduct;
  later.algorithm = "id=0 tile=1";
  const std::string text = kProduct.to_line() + "\n" + later.to_line() + "\n" + kConvolution.to_line();
  const Choices choices = Choices::from_text(text, "here");
  CHECK(choices.size() == 1);
  CHECK(choices.find(kProduct.key, kProduct.device)->algorithm == later.algorithm);
  const Error error = error_of([] { Choices::from_text(kProduct.to_line() + "\n{\n", "here"); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message().starts_with("here:2: "));
}

TEST_CASE("who asks for what is sound gets it, whatever stands between") {
  const Choices choices =
      Choices::sound_from_text(kProduct.to_line() + "\n{\n{\"key\":5}\n" + std::string(100'000, '[') + "\n" +
                               kConvolution.to_line() + "\n" + kOnOther.to_line());
  CHECK(choices.size() == 2);
  CHECK(choices.find(kConvolution.key, kConvolution.device) != nullptr);
}

}  // namespace
}  // namespace estrain::algorithms
