# variant_<isa>.cpp compile the same loops once per instruction set; variants.h says what keeps their code apart.
set(KERNELS_FOLDER ${CMAKE_CURRENT_LIST_DIR})
set_source_files_properties(${KERNELS_FOLDER}/variant_baseline.cpp PROPERTIES COMPILE_OPTIONS "-O3")
set_source_files_properties(${KERNELS_FOLDER}/variant_avx2.cpp PROPERTIES COMPILE_OPTIONS "-O3;-mavx2;-mfma")
# GCC 12's own AVX-512 headers begin with a register that is undefined on purpose, and warn about it.
set_source_files_properties(${KERNELS_FOLDER}/variant_avx512.cpp PROPERTIES COMPILE_OPTIONS
  "-O3;-mavx2;-mfma;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-Wno-maybe-uninitialized;-Wno-uninitialized")
