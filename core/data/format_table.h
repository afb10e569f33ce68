#pragma once
// The table of the data formats that are read: one row for each format. What a spec says of a format has its own row in
// core/job/spec/data_formats.h.

#include <span>
#include <vector>

#include "core/data/formats/format.h"

namespace estrain::data {

struct FormatRow {
  spec::DataFormat name;
  const Format& (*format)();
};

// The rows, in the order in which recognise() (recognise.h) tries the formats.
std::span<const FormatRow> format_table();

// The data sets that recognise() knows, in words, for a message.
extern const char* const recognised_data;

// The format of a section. Throws Fault::bug if the format has no row.
const Format& format_of(const spec::DataSection& section);

// The files that a section names, in an order that the format fixes, training before test; empty for synthetic data.
// Throws Fault::spec where a needed key is empty, Fault::io where an idx folder lacks a standard name.
std::vector<FileName> file_names(const spec::DataSection& section);

}  // namespace estrain::data
