#pragma once
// An exported PyTorch program (torch.export, the "training IR": ATen's operators before autograd) as plain data: the
// content of a .pt2 file except Python's pickles, with every name and index checked. Independent of torch.
//
// A program is a list of calls. Each call takes constants and values, and produces values; values are numbered, and
// each value is produced once, before its use. Inner graphs (`with torch.no_grad()`, `with torch.autocast(...)`) are
// flattened into the list; each call of an inner graph carries the graph's settings.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace estrain::program {

// Numbers of torch._export.serde.schema.ScalarType.
enum class ScalarType : uint8_t {
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  c32 = 9,
  c64 = 10,
  c128 = 11,
  boolean = 12,
  bf16 = 13,
};
size_t type_size(ScalarType type);
std::string_view type_name(ScalarType type);  // torch's: "float32", "bool", …

// A size of a tensor: a number, or a symbol whose value comes from the mini-batch.
struct SymInt {
  int64_t number = 0;
  std::string symbol{};  // empty: `number` is the size
  bool operator==(const SymInt&) const = default;
};
// "[s0, 3, 32, 32]"
std::string sizes_text(const std::vector<SymInt>& sizes);

// The sizes from `low` to `high`; nothing: without an upper bound.
struct Range {
  int64_t low = 0;
  std::optional<int64_t> high;
};

// A tensor stored in the file. `bytes` are in the file's memory: elements of `type` without gaps, in the order of the
// strides. A module in channels_last, or with a transposed weight, has different strides than a contiguous module.
struct StoredTensor {
  std::string name;  // the tensor's name in the state_dict, or the constant's name
  ScalarType type = ScalarType::f32;
  std::vector<int64_t> sizes{};
  std::vector<int64_t> strides{};  // in elements
  bool requires_grad = false;
  std::span<const std::byte> bytes{};
  int value = -1;          // the value's number
  std::string alias_of{};  // the earlier name of the same tensor (tied weights)
  bool persistent = true;  // for a buffer: whether the buffer is in the state_dict
};
// Returns whether the elements are in C order. A dimension with one entry allows several kinds of strides for C order:
// (8, 1, 3, 3) has (9, 9, 3, 1) or, in channels_last, (9, 1, 3, 1), and LibTorch's kernels differ with the strides.
bool is_in_c_order(const StoredTensor& tensor);

struct UserInput {
  std::string name;
  ScalarType type = ScalarType::f32;
  std::vector<SymInt> sizes;
  int value = -1;
};

struct None {};
struct ValueRef {
  int number;
};
struct Layout {
  int64_t number;  // of the schema
};
struct MemoryFormat {
  int64_t number;  // of the schema
};
struct DeviceArgument {
  std::string type;
};
// A member of a list of values, numbers and gaps.
using Item = std::variant<None, ValueRef, int64_t>;

using Argument =
    std::variant<None, ValueRef, bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<bool>, std::vector<Item>, ScalarType, Layout, MemoryFormat, DeviceArgument>;

// Settings of all `with` blocks around a call; unset: as around the program. Where a program is exported,
// torch.autocast for another kind of device has no effect; on a machine without this kind, torch.autocast is off
// whatever its arguments are.
struct Modes {
  std::optional<bool> grad;
  struct Autocast {
    bool enabled;
    ScalarType type;
    bool cache;
    int64_t outermost;  // number of the outermost block around the call
  };
  std::optional<Autocast> autocast;  // for Program::device
  bool other_autocast_off = false;   // innermost: torch.autocast(..., enabled=False) for another kind of device
};

struct Call {
  bool is_arithmetic = false;  // arithmetic on sizes: then `name` is Python's: "add", "floordiv"
  std::string name;            // "aten::conv2d"
  std::string overload;        // "" for the default overload
  std::vector<std::pair<std::string, Argument>> arguments;
  struct Result {
    bool is_list = false;
    std::vector<int> values;  // a single value unless is_list; empty: unused
  };
  std::vector<Result> results;
  size_t modes = 0;  // index into Program::modes
  // Of an operator whose result depends on them (as_strided): strides and position of the first operand, at the export.
  std::optional<std::vector<SymInt>> strides{};
  SymInt offset{};
  std::string module;  // the user's module: "encoder.layer.0"; empty: the outermost
  std::string line;    // the user's source line: "net.py:12"; empty: unknown

  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
  // "encoder.layer.0 (net.py:12)"
  std::string place() const;
};

struct Program {
  std::string path;                 // for messages
  std::string device = "cpu";       // "cpu" or "cuda": the kind of device of the inputs at the export
  std::string torch_version;        // "2.11.0+cu130"
  bool is_marked_training = false;  // set by `estrain export`
  // The only precision in which the program computes as its module does, if the export says so: "fp32" or "bf16".
  std::string precision;
  std::vector<std::string> notes;  // the export's notes on the program, for `estrain check`
  // Of a LightningModule's step: the names of the outputs behind the first, as the step logs them.
  std::optional<std::vector<std::string>> logged{};
  std::vector<std::string> modules;  // every module's name, in the order of named_modules()
  std::vector<StoredTensor> parameters, buffers, constants;
  std::vector<UserInput> inputs;                       // tensors; the user's further arguments are fixed in the calls
  std::vector<int> outputs;                            // values of the returned tensors
  std::optional<std::vector<SymInt>> first_output;     // sizes, if the file tells; a size other than a number: "?"
  std::vector<std::pair<std::string, int>> mutations;  // buffer, and its value after the calls
  std::vector<Modes> modes;
  std::vector<Call> calls;
  std::map<std::string, Range> ranges;  // of symbols
  std::vector<std::string> synced;      // modules of the class SyncBatchNorm
  int values = 0;
};

// Reads `file`, which must outlive the program. Throws Fault::corrupt for an invalid program; Fault::mismatch, naming
// the part, for an unknown schema or content.
Program read_program(std::span<const std::byte> file, const std::string& path);

}  // namespace estrain::program
