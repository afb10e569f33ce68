# CUDA's compiler, where there is one: ESTRAIN_CUDA_KERNELS says whether. Everything else configures and builds without.
set(ESTRAIN_CUDA AUTO CACHE STRING "Build what needs CUDA: ON, OFF or AUTO (where a toolkit is found)")
set(ESTRAIN_CUDA_KERNELS OFF)
set(ESTRAIN_CUDA_ARCHITECTURES "80;90" CACHE STRING
    "GPUs to compile for, or `all`. Others get theirs from PTX of the oldest, compiled by the driver when first loaded")
if(ESTRAIN_CUDA AND NOT ESTRAIN_SANITIZE AND NOT ESTRAIN_FUZZ)
  include(CheckLanguage)
  find_program(ESTRAIN_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(ESTRAIN_NVCC AND NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${ESTRAIN_NVCC})
  endif()
  # What is compiled for is said by options of ours: real ones, and PTX of the oldest.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER AND ESTRAIN_CUDA)
  set(ESTRAIN_CUDA_KERNELS ON)
  enable_language(CUDA)
  # CMake 3.25 does not know what nvcc 13 calls the language that the rest is written in.
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()

# IEEE arithmetic, and nothing fused but where the source says so. Without -use_fast_math these are nvcc's defaults but
# for -fmad; they decide bits, so they are said.
set(ESTRAIN_CUDA_FLAGS -fmad=false -ftz=false -prec-div=true -prec-sqrt=true --expt-relaxed-constexpr
    -diag-suppress 1675 -Xcompiler=-ffp-contract=off,-fno-math-errno -gencode=arch=compute_75,code=compute_75)
if(ESTRAIN_CUDA_ARCHITECTURES STREQUAL all)
  set(real 75 80 86 89 90 100 120)
else()
  set(real ${ESTRAIN_CUDA_ARCHITECTURES})
endif()
foreach(arch ${real})
  list(APPEND ESTRAIN_CUDA_FLAGS -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
