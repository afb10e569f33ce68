# variant_<isa>.cpp compile the same loops once per instruction set; variants.h explains how their code is kept apart.
foreach(isa ${ESTRAIN_ISAS})
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/variant_${isa}.cpp PROPERTIES COMPILE_OPTIONS "${ESTRAIN_FLAGS_${isa}}")
endforeach()
