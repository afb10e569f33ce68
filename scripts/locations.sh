# Sourced by the scripts: where things lie outside the tree. Every checkout of one user shares the cache.
cache=${ESTRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/estrain}
# The wheels of scripts/libtorch.txt, unpacked; scripts/cmake/FindLibTorch.cmake knows this folder, too.
libtorch=$cache/libtorch-$(sed -nE 's/^torch==([^ ]+).*/\1/p' scripts/libtorch.txt)
kubernetes=$cache/kubernetes     # Python environment that checks examples/kubernetes
peers=$cache/peers              # Python environment with the same LibTorch, for comparisons with PyTorch

say() { printf '%s: %s\n' "$(basename "$0")" "$*"; }
fail() {
  printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}
