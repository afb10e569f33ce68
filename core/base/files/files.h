#pragma once
// Whole files: read at once, replaced atomically. Messages show paths as given.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/files/unique_fd.h"

namespace estrain {

// A regular file of at most kMostText bytes (input_file.h). Throws Fault::io with the path.
std::string read_file(const std::string& path);
std::optional<std::string> read_file_if_present(const std::string& path);

// For files of /proc and /sys: empty if unreadable.
std::string text_if_readable(const std::string& path);

// Replaces a file: writes under a temporary name, fsyncs, renames, fsyncs the folder. Even after a crash, readers see
// the old content or the new, never a mixture. Throws Fault::io.
void write_file_atomically(const std::string& path, std::string_view content);

// Appends the line and a line feed, or nothing on failure (a full disk). First drops an unfinished last line from a
// crash. For files with a single writer, or with a writer that holds their lock; not synced. own_file.h says which
// existing files are refused.
void append_line(const std::string& path, std::string line);
// Does the same where other processes append, too: each process holds the file's lock (flock) meanwhile. A process
// stopped with the lock delays the others by half a second, not for ever.
void append_line_among_others(const std::string& path, std::string line);

// open(2) with O_CLOEXEC; throws Fault::io with the path.
UniqueFd open_file(const std::string& path, int flags, unsigned mode = 0644);

void make_folders(const std::string& path);
void sync_folder(const std::string& path);

}  // namespace estrain
