// estrain: elastic, bit-exact training. One verb per file; see commands.h.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cmd/commands.h"
#include "core/base/error.h"

namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 failed; 2 bad usage or bad spec; 3 runs differ (verify); 75 stopped early but resumable.";

int report(const estrain::Error& error) {
  std::fprintf(stderr, "estrain: %s\n", error.message().c_str());
  if (!error.advice().empty()) std::fprintf(stderr, "%s\n", error.advice().c_str());
  return error.exit_code();
}

int run(int argc, char** argv) {
  CLI::App app{"Trains on whatever devices are free; the result does not depend on which they were."};
  app.set_version_flag("--version", "estrain " ESTRAIN_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  estrain::cmd::Action chosen;
  for (auto add :
       {estrain::cmd::add_train, estrain::cmd::add_resize, estrain::cmd::add_offer, estrain::cmd::add_reclaim,
        estrain::cmd::add_verify, estrain::cmd::add_status, estrain::cmd::add_stop, estrain::cmd::add_check,
        estrain::cmd::add_plan, estrain::cmd::add_probe, estrain::cmd::add_worker, estrain::cmd::add_scribe}) {
    add(app, chosen);
  }
  for (CLI::App* verb : app.get_subcommands(nullptr)) verb->footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : estrain::exit_code(estrain::Fault::usage);
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const estrain::Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    return report(estrain::Error(estrain::Fault::bug, error.what()));
  }
}
