#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

namespace {

// What stands behind "--source-file=*" in the command: a file runs alone. Empty: all files run.
std::string chosen_file() {
  constexpr std::string_view option = "--source-file=*";
  std::ifstream command("/proc/self/cmdline");
  for (std::string word; std::getline(command, word, '\0');)
    if (word.starts_with(option)) return word.substr(option.size());
  return "";
}

// A SkipTeller prints a line "skipped: ..." for each test case of the chosen files that its skip decorator keeps from
// running. doctest itself counts such a case like one that a filter leaves out. scripts/test collects the lines.
struct SkipTeller : doctest::IReporter {
  explicit SkipTeller(const doctest::ContextOptions& options) : options_(options) {}

  void test_case_skipped(const doctest::TestCaseData& test) override {
    const bool is_chosen = std::string_view(test.m_file.c_str()).ends_with(chosen_);
    if (test.m_skip && is_chosen && !options_.no_skip) std::cout << "skipped: " << test.m_name << std::endl;
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}

  const doctest::ContextOptions& options_;
  const std::string chosen_ = chosen_file();
};

}  // namespace

DOCTEST_REGISTER_LISTENER("skips", 1, SkipTeller);
