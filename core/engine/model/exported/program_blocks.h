#pragma once
// Cuts an exported program into blocks. Pure: a call is the values that the call reads, changes and gives.
//
// A cut lies between two calls, where exactly one activation crosses: is given before the cut and read behind the cut.
// An activation is a value that depends on a parameter, on a buffer that the program writes, or on a random draw. Other
// values do not count, since both sides of a cut can have them: parameters, constants, the mini-batch, and what is
// computed from the mini-batch and constants alone (sizes, masks). A written buffer crosses if a call behind the cut
// reads what a call before the cut has written. The program's outputs are read at the end.
//
// The crossing activation depends on the mini-batch, and no call behind the cut writes to the activation's memory: so
// the activation may become a leaf of another graph.
//
// Calls without parameters, such as ReLU and pooling, belong to the block before; at the program's begin to the block
// behind. So a block holds a residual branch together with the branch's shortcut.

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace estrain::model {

// Values have numbers.
struct UsedCall {
  std::vector<int> reads = {};
  std::vector<int> changes = {};  // written operands, and all values that may share memory with a written operand
  std::vector<int> gives = {};
  bool gives_numbers = false;  // in place of tensors
  bool measures = false;       // gives sizes of the operands, independent of the operands' elements
  bool draws = false;          // random numbers
  std::string module = {};     // the user's module; empty: the outermost
};

struct ProgramUses {
  int values = 0;  // the numbers are 0 .. values - 1
  std::map<int, std::string> parameters = {};
  std::set<int> written_buffers = {};
  std::vector<int> inputs = {}, outputs = {};
  std::vector<UsedCall> calls = {};
};

struct ProgramBlock {
  std::string name;     // the module of the calls with parameters, or "token+position"; a second one: "head (2)"
  size_t begin = 0;     // the first call
  int activation = -1;  // crosses into the block; -1: the first block
};

// Returns at least one block.
std::vector<ProgramBlock> blocks_of(const ProgramUses& program);

}  // namespace estrain::model
