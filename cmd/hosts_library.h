#pragma once
// The library that holds all that talks to other hosts, loaded by the processes that do: it brings OpenSSL.

namespace estrain::cmd {

// Its function `name`. Throws Fault::io where it cannot be loaded.
void* hosts_library_function(const char* name);

// Lets commands reach launchers on other hosts.
void reach_other_hosts();

}  // namespace estrain::cmd
