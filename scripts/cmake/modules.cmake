# estrain_optimized(LEVEL OUT): the option for that level, but in Debug none: there nothing is optimized.
function(estrain_optimized LEVEL OUT)
  set(${OUT} "$<$<AND:$<NOT:$<CONFIG:Debug>>,$<COMPILE_LANGUAGE:CXX>>:-O${LEVEL}>" PARENT_SCOPE)
endfunction()
estrain_optimized(2 ESTRAIN_HOT_FLAG)
estrain_optimized(3 ESTRAIN_KERNEL_FLAG)

# The instruction sets of kernels/isa.h, and how GCC is told to use them.
set(ESTRAIN_ISAS baseline fma128 avx2 avx512)
set(ESTRAIN_FLAGS_baseline ${ESTRAIN_KERNEL_FLAG})
set(ESTRAIN_FLAGS_fma128 ${ESTRAIN_KERNEL_FLAG} -mfma)
set(ESTRAIN_FLAGS_avx2 ${ESTRAIN_KERNEL_FLAG} -mavx2 -mfma)
# GCC 12's own AVX-512 headers begin with a register that is undefined on purpose, and warn about it.
set(ESTRAIN_FLAGS_avx512 ${ESTRAIN_KERNEL_FLAG} -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -mprefer-vector-width=512 -Wno-maybe-uninitialized -Wno-uninitialized)

# estrain_module(FOLDER [TORCH] [CUDA] [HOT] [PER_ISA subfolder] [ISAS isa...] [ROOMS subfolder...] [DEPENDS folder...] [LIBRARIES target...])
# One folder = one static library of all .cpp files in it and its ROOMS, which links (and may include) only its DEPENDS.
# ROOMS are in the order of their includes, which scripts/layers checks; `.` is the folder itself.
# The target is named after the folder: core/base -> core_base. Folders without a source file become interface targets.
# CUDA: its .cu files are compiled too, where there is a CUDA toolkit (scripts/cmake/cuda.cmake).
# HOT: compiled at -O2, as kernels are: much time is spent in its loops. With sanitizers only kernels are.
# PER_ISA: every source of that subfolder is compiled once for each of ISAS (default: ESTRAIN_ISAS), with ESTRAIN_ISA the name
# of the instruction set: kernels/per_isa.h.
define_property(GLOBAL PROPERTY ESTRAIN_MODULES BRIEF_DOCS "folders registered with estrain_module" FULL_DOCS "")
define_property(GLOBAL PROPERTY ESTRAIN_TORCH_PCH BRIEF_DOCS "target that owns the LibTorch header" FULL_DOCS "")

# The .cpp files of a folder below BASE and of its rooms: of the program's sources or of their tests.
function(estrain_glob_rooms BASE FOLDER OUT)
  get_property(rooms GLOBAL PROPERTY ESTRAIN_ROOMS_OF_${FOLDER})
  set(all)
  foreach(room . ${rooms})
    cmake_path(SET pattern NORMALIZE ${BASE}/${FOLDER}/${room}/*.cpp)
    file(GLOB sources CONFIGURE_DEPENDS ${pattern})
    list(APPEND all ${sources})
  endforeach()
  set(${OUT} ${all} PARENT_SCOPE)
endfunction()

function(estrain_target_name FOLDER OUT)
  string(REPLACE "/" "_" name ${FOLDER})
  set(${OUT} ${name} PARENT_SCOPE)
endfunction()

# One precompiled LibTorch header serves every torch folder.
function(estrain_use_torch TARGET)
  target_link_libraries(${TARGET} PUBLIC LibTorch::cpu)
  get_property(owner GLOBAL PROPERTY ESTRAIN_TORCH_PCH)
  if(NOT owner)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/torch_pch.cpp CONTENT "")  # written once: not newer at each configuration
    add_library(torch_pch OBJECT ${CMAKE_BINARY_DIR}/torch_pch.cpp)
    target_link_libraries(torch_pch PUBLIC estrain_options LibTorch::cpu)
    # What nearly all include, no more: each unit instantiates every template that the header leaves pending. With
    # <torch/torch.h> that took 5 s a unit, with these 2.
    target_precompile_headers(torch_pch PRIVATE <ATen/ATen.h> <torch/types.h> <fmt/format.h>)
    set_property(GLOBAL PROPERTY ESTRAIN_TORCH_PCH torch_pch)
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM torch_pch)
  # The header is compiled with -fPIC, and a program must match it (CMake would give it -fPIE).
  get_target_property(type ${TARGET} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${TARGET} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${TARGET} PRIVATE -fPIC)
  endif()
endfunction()

function(estrain_module FOLDER)
  cmake_parse_arguments(M "TORCH;CUDA;HOT" "PER_ISA" "ISAS;ROOMS;DEPENDS;LIBRARIES" ${ARGN})
  if(M_TORCH AND NOT ESTRAIN_TORCH)
    return()
  endif()
  estrain_target_name(${FOLDER} name)
  list(REMOVE_ITEM M_ROOMS . ${M_PER_ISA})
  if(NOT M_ISAS)
    set(M_ISAS ${ESTRAIN_ISAS})
  endif()
  set_property(GLOBAL PROPERTY ESTRAIN_ROOMS_OF_${FOLDER} ${M_ROOMS})
  estrain_glob_rooms(${PROJECT_SOURCE_DIR} ${FOLDER} sources)
  set(links ${M_LIBRARIES})
  foreach(dependency ${M_DEPENDS})
    estrain_target_name(${dependency} dependency_name)
    list(APPEND links ${dependency_name})
  endforeach()
  if(M_PER_ISA)
    file(GLOB isa_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${FOLDER}/${M_PER_ISA}/*.cpp)
    foreach(isa ${M_ISAS})
      add_library(${name}_on_${isa} OBJECT ${isa_sources})
      target_link_libraries(${name}_on_${isa} PUBLIC estrain_options)
      target_compile_options(${name}_on_${isa} PRIVATE ${ESTRAIN_FLAGS_${isa}})
      target_compile_definitions(${name}_on_${isa} PRIVATE ESTRAIN_ISA=${isa} ESTRAIN_VECTORS="kernels/vector_${isa}.h")
      list(APPEND sources $<TARGET_OBJECTS:${name}_on_${isa}>)
    endforeach()
  endif()
  if(M_CUDA AND HAS_CUDA)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${FOLDER}/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC estrain_options ${links})
    if((M_HOT AND NOT ESTRAIN_HAS_SANITIZERS) OR FOLDER MATCHES "^kernels")
      target_compile_options(${name} PRIVATE ${ESTRAIN_HOT_FLAG})
    endif()
    if(M_CUDA AND HAS_CUDA)
      target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${ESTRAIN_CUDA_FLAGS}>")
      # nvcc also warns of the toolkit's own headers. As C++, for the tests, the same files must be without a warning.
      set_target_properties(${name} PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
    endif()
    if(NOT FOLDER MATCHES "^kernels")
      set_target_properties(${name} PROPERTIES UNITY_BUILD ${ESTRAIN_UNITY} UNITY_BUILD_BATCH_SIZE 16)
    endif()
    if(M_TORCH)
      estrain_use_torch(${name})
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE estrain_options ${links})
    if(M_TORCH)
      target_link_libraries(${name} INTERFACE LibTorch::cpu)
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY ESTRAIN_MODULES ${FOLDER})
  if(M_TORCH)
    set_property(GLOBAL APPEND PROPERTY ESTRAIN_TORCH_MODULES ${FOLDER})
  endif()
endfunction()

# The torch folders joined into one shared library, loaded by workers with dlopen.
function(estrain_shared_library NAME ROOT)
  estrain_target_name(${ROOT} root)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${NAME}.cpp CONTENT "" @ONLY)  # untouched where it is there
  add_library(${NAME} SHARED ${CMAKE_BINARY_DIR}/${NAME}.cpp)
  get_target_property(type ${root} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    target_link_libraries(${NAME} PRIVATE ${root})
  else()
    target_link_libraries(${NAME} PRIVATE -Wl,--whole-archive ${root} -Wl,--no-whole-archive)
  endif()
endfunction()
