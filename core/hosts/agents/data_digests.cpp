#include "core/hosts/agents/data_digests.h"

#include "core/data/files/identity.h"
#include "core/data/job_data.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::hosts {

Json data_digests_or_error(const std::string& spec) {
  try {
    const auto files = data::open_files(data::job_file_names(spec::parse_text(spec, "the job's spec")));
    Json all = Json::array();
    for (const data::FileIdentity& file : data::identify(files).files)
      all.push_back({{"what", file.what}, {"size", file.size}, {"digest", file.sampled}});
    return {{"data", all}};
  } catch (const Error& error) {
    return {{"error", error.message()}, {"advice", error.advice()}};
  }
}

}  // namespace estrain::hosts
