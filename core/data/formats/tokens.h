#pragma once
// Reads a language model's data: a text, with the bytes as tokens, 0 to 255, or files of token numbers
// (token_array.h). The tokens are cut into samples.
//
// A path of tokens may be a pattern (files/file_pattern.h), "fineweb_train_*.bin": the tokens of all these files, in
// the order of sorted names, are one array. A sample may begin in one file and end in the next.
//
// With T tokens of context, sample i reads tokens [i*T, i*T + T) and must predict [i*T + 1, i*T + T + 1). Samples do
// not overlap, and n tokens give (n - 1) / T samples, rounded down.
//
// The test set is data.test_path if the section has the key. Otherwise the test set is the last part of the tokens,
// floor(data.holdout * tokens), which training then leaves out.

#include "core/data/formats/format.h"

namespace estrain::data {

const Format& text_format();
const Format& tokens_format();

}  // namespace estrain::data
