#include "core/pool/pool_request.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace estrain::pool {
namespace {

TEST_CASE("a request to a pool is read as it was written, with what was left out") {
  const auto sent = [](const PoolRequest& request) { return decode_pool_request(encode_pool_request(request)); };
  const auto submit =
      std::get<SubmitRequest>(sent(SubmitRequest{.spec = "x", .user = "ann", .least = 2, .most = 8, .deadline = {}}));
  CHECK(submit.spec == "x");
  CHECK(submit.user == "ann");
  CHECK(submit.least == 2);
  CHECK(submit.most == 8);
  CHECK_FALSE(submit.deadline);
  CHECK(std::get<CancelRequest>(sent(CancelRequest{7})).job == 7);
  CHECK(std::get<ReleaseRequest>(sent(ReleaseRequest{7})).job == 7);
  CHECK(std::get<PolicyRequest>(sent(PolicyRequest{"srtf"})).policy == "srtf");
  CHECK(std::get<AddRequest>(sent(AddRequest{"cpu*2"})).devices == "cpu*2");
  CHECK(std::get<LendRequest>(sent(LendRequest{"cpu"})).devices == "cpu");
  CHECK_FALSE(std::get<RemoveRequest>(sent(RemoveRequest{"cpu", std::nullopt})).within);
  CHECK(std::get<TakeRequest>(sent(TakeRequest{"cpu", 0.5})).within == 0.5);
  CHECK(encode_pool_request(CancelRequest{7}).dump() == R"({"do":"cancel","job":7})");
}

TEST_CASE("a request that a pool does not know, or with a wrong field, is refused by name") {
  CHECK(error_of([] { decode_pool_request({{"do", "dance"}}); }).message() == "a pool cannot \"dance\"");
  CHECK(error_of([] { decode_pool_request({{"job", 7}}); }).message() == "a pool cannot \"\"");
  const Error wrong = error_of([] { decode_pool_request({{"do", "cancel"}, {"job", "seven"}}); });
  CHECK(wrong.fault() == Fault::usage);
  CHECK(wrong.message().starts_with("request \"cancel\""));
}

TEST_CASE("a reply says that all is well, and then what there is to tell") {
  CHECK(encode_reply(DoneReply()).dump() == R"({"ok":true})");
  CHECK(encode_reply(SubmitReply{7, "p/jobs/7/run"}).dump() == R"({"ok":true,"job":7,"run":"p/jobs/7/run"})");
  CHECK(encode_reply(FreeReply{{"cpu"}, 0.5}).dump() == R"({"ok":true,"devices":["cpu"],"seconds":0.5})");
}

}  // namespace
}  // namespace estrain::pool
