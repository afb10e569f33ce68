# LibTorch of the wheels that scripts/libtorch.txt names. It is looked for in ESTRAIN_LIBTORCH, else where scripts/setup
# unpacks them.
#
#   LibTorch::cpu           its CPU part
#   LibTorch::cuda          its CUDA part, in addition, where the wheel has it; scripts/cmake/cuda.cmake adds the toolkit
#   LibTorch_FOLDER         the unpacked wheels: torch/, nvidia/
#   LibTorch_LIBRARIES_DIR  the folder of libtorch_cpu.so
#   LibTorch_VERSION        what torch.__version__ is
#   LibTorch_BUILD          the build ID of libtorch_cpu.so
#   LibTorch_CUDA_BUILD     the build ID of libtorch_cuda.so, where the wheel has it
set(ESTRAIN_LIBTORCH "" CACHE PATH "Folder of the unpacked LibTorch wheel; empty: the one that scripts/setup makes")

# The folder that scripts/locations.sh calls $libtorch.
function(estrain_setup_libtorch OUT)
  if(NOT "$ENV{ESTRAIN_CACHE}" STREQUAL "")
    set(cache "$ENV{ESTRAIN_CACHE}")
  elseif(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(cache "$ENV{XDG_CACHE_HOME}/estrain")
  else()
    set(cache "$ENV{HOME}/.cache/estrain")
  endif()
  set(requirements ${PROJECT_SOURCE_DIR}/scripts/libtorch.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${requirements})
  file(STRINGS ${requirements} version REGEX "^torch==")
  string(REGEX REPLACE "^torch==([^ ]+).*" "\\1" version "${version}")
  set(${OUT} ${cache}/libtorch-${version} PARENT_SCOPE)
endfunction()

set(LibTorch_FOLDER ${ESTRAIN_LIBTORCH})
if(NOT LibTorch_FOLDER)
  estrain_setup_libtorch(LibTorch_FOLDER)
endif()
set(LibTorch_LIBRARIES_DIR ${LibTorch_FOLDER}/torch/lib)
set(LibTorch_HEADER)
set(LibTorch_LIBRARY)
if(EXISTS ${LibTorch_FOLDER}/torch/include/ATen/ATen.h)
  set(LibTorch_HEADER ${LibTorch_FOLDER}/torch/include/ATen/ATen.h)
endif()
if(EXISTS ${LibTorch_LIBRARIES_DIR}/libtorch_cpu.so)
  set(LibTorch_LIBRARY ${LibTorch_LIBRARIES_DIR}/libtorch_cpu.so)
  file(STRINGS ${LibTorch_FOLDER}/torch/version.py LibTorch_VERSION REGEX "^__version__")
  string(REGEX REPLACE "^[^']*'([^']*)'.*" "\\1" LibTorch_VERSION "${LibTorch_VERSION}")
  foreach(part cpu;cuda)
    execute_process(COMMAND readelf -n ${LibTorch_LIBRARIES_DIR}/libtorch_${part}.so OUTPUT_VARIABLE notes ERROR_QUIET)
    string(REGEX MATCH "Build ID: ([0-9a-f]+)" notes "${notes}")
    set(LibTorch_BUILD_${part} ${CMAKE_MATCH_1})
  endforeach()
  set(LibTorch_BUILD ${LibTorch_BUILD_cpu})
  set(LibTorch_CUDA_BUILD ${LibTorch_BUILD_cuda})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_LIBRARY LibTorch_HEADER VERSION_VAR LibTorch_VERSION)

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  # Linking libtorch_cpu and libc10 alone keeps the CUDA libraries out of a CPU worker.
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu INTERFACE
    ${LibTorch_FOLDER}/torch/include ${LibTorch_FOLDER}/torch/include/torch/csrc/api/include)
  target_link_libraries(LibTorch::cpu INTERFACE
    ${LibTorch_LIBRARY} ${LibTorch_LIBRARIES_DIR}/libc10.so ${LibTorch_LIBRARIES_DIR}/libgomp.so.1)
  # CMake puts the folder of these libraries into what it builds, and another one into what it installs.
  target_link_options(LibTorch::cpu INTERFACE
    -Wl,--disable-new-dtags -Wl,-rpath-link,${LibTorch_FOLDER}/nvidia/cu13/lib)
endif()

if(LibTorch_FOUND AND NOT TARGET LibTorch::cuda AND EXISTS ${LibTorch_LIBRARIES_DIR}/libtorch_cuda.so)
  # Only libestrain_cuda.so links it. Libraries of CUDA that it needs and that are not here (cuSPARSELt, NVSHMEM, cuFile)
  # are not needed to link.
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  target_link_options(LibTorch::cuda INTERFACE -Wl,--no-undefined -Wl,--allow-shlib-undefined)
  # LibTorch's own runtime, so that the process has one; its kernels register themselves, so nothing may refer to them.
  target_link_libraries(LibTorch::cuda INTERFACE -Wl,--push-state,--no-as-needed
    ${LibTorch_LIBRARIES_DIR}/libtorch_cuda.so ${LibTorch_LIBRARIES_DIR}/libc10_cuda.so
    ${LibTorch_FOLDER}/nvidia/cu13/lib/libcudart.so.13 -Wl,--pop-state)
  # Where a whole wheel has been unpacked, the libraries beside it are LibTorch's own.
  target_link_options(LibTorch::cuda INTERFACE
    -Wl,-rpath,${LibTorch_FOLDER}/nvidia/cudnn/lib -Wl,-rpath,${LibTorch_FOLDER}/nvidia/nccl/lib
    -Wl,-rpath,${LibTorch_FOLDER}/nvidia/cu13/lib)
endif()
