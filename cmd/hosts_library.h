#pragma once
// The library with all code for other hosts, which uses OpenSSL. Only processes that talk to hosts load the library.

namespace estrain::cmd {

// Returns the library's function `name`. Throws Fault::io if the library cannot be loaded.
void* hosts_library_function(const char* name);

// Lets commands reach launchers on other hosts.
void reach_other_hosts();

}  // namespace estrain::cmd
