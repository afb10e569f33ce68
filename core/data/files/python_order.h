#pragma once
// The order in which Python sorts the names of files: by code points, where a byte that is part of no UTF-8 stands as
// one from U+DC80 to U+DCFF (surrogateescape).

#include <string_view>

namespace estrain::data {

bool python_sorts_before(std::string_view a, std::string_view b);

}  // namespace estrain::data
