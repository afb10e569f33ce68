# cmake --install: everything below one prefix, which may be moved.
#
#   bin/estrain                     a link into lib/estrain, so that the program finds what lies beside it
#   lib/estrain/                    the program; the libraries of its workers and of several hosts; libtorch/: what workers
#                                   load of LibTorch
#   share/man, share/bash-completion, share/doc/estrain
#
# LibTorch comes along (ESTRAIN_INSTALL_LIBTORCH) rather than being fetched later: an installed program needs no network,
# its workers load the bytes that they were tested with, and a package manager knows, checks and removes all of it.
option(ESTRAIN_INSTALL_LIBTORCH "Install LibTorch's CPU part beside the program" ON)
set(PRIVATE lib/estrain)

set_target_properties(estrain PROPERTIES INSTALL_RPATH "")
install(TARGETS estrain RUNTIME DESTINATION ${PRIVATE})
# The libraries that the program loads when it needs them: all that its build waits for.
get_target_property(loaded_libraries estrain MANUALLY_ADDED_DEPENDENCIES)
install(TARGETS ${loaded_libraries} LIBRARY DESTINATION ${PRIVATE})
# In a wheel (wheel.cmake), LibTorch is that of PyPI's torch, in a folder beside the program's.
if(TARGET estrain_worker)
  set_target_properties(estrain_worker PROPERTIES INSTALL_RPATH "$ORIGIN/libtorch/torch/lib;$ORIGIN/../torch/lib")
endif()
install(CODE [[
  set(bin "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin")
  file(MAKE_DIRECTORY "${bin}")
  file(CREATE_LINK ../lib/estrain/estrain "${bin}/estrain" SYMBOLIC)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_PREFIX}/bin/estrain")
]])

# libtorch_cpu.so loads CUDA libraries also where there is no GPU. It finds them by their place.
if(ESTRAIN_INSTALL_LIBTORCH AND TARGET estrain_worker)
  install(FILES ${LibTorch_LIBRARIES_DIR}/libtorch_cpu.so ${LibTorch_LIBRARIES_DIR}/libc10.so
          ${LibTorch_LIBRARIES_DIR}/libgomp.so.1
          DESTINATION ${PRIVATE}/libtorch/torch/lib)
  install(FILES ${LibTorch_FOLDER}/nvidia/cu13/lib/libcupti.so.13 ${LibTorch_FOLDER}/nvidia/cu13/lib/libcudart.so.13
          DESTINATION ${PRIVATE}/libtorch/nvidia/cu13/lib)
  file(GLOB torch_licence ${LibTorch_FOLDER}/torch-*.dist-info/licenses/LICENSE)
  file(GLOB cuda_licence ${LibTorch_FOLDER}/nvidia_cuda_cupti-*.dist-info/licenses/License.txt)
  install(FILES ${torch_licence} DESTINATION share/doc/estrain RENAME LICENSE.libtorch)
  install(FILES ${cuda_licence} DESTINATION share/doc/estrain RENAME LICENSE.cuda)
endif()

# Words are the program's own. A wheel has this component, too.
install(CODE "set(program \"$<TARGET_FILE:estrain>\")" COMPONENT documents)
install(CODE [[
  set(share "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
  function(say_into file)
    execute_process(COMMAND "${program}" ${ARGN} OUTPUT_FILE "${file}" COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  foreach(folder bash-completion/completions doc/estrain man/new)
    file(MAKE_DIRECTORY "${share}/${folder}")
  endforeach()
  say_into("${share}/bash-completion/completions/estrain" help --completion)
  execute_process(COMMAND "${program}" help --man "${share}/man/new" COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages "${share}/man/new/*")
  foreach(page ${pages})
    execute_process(COMMAND gzip -9nf "${page}" COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "[0-9]$" section "${page}")
    get_filename_component(name "${page}" NAME)
    file(MAKE_DIRECTORY "${share}/man/man${section}")
    file(RENAME "${page}.gz" "${share}/man/man${section}/${name}.gz")
  endforeach()
  file(REMOVE_RECURSE "${share}/man/new")
]] COMPONENT documents)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/estrain COMPONENT documents)
install(FILES core/GUIDE.md DESTINATION share/doc/estrain/core COMPONENT documents)
install(DIRECTORY configs/ DESTINATION share/doc/estrain/configs COMPONENT documents)
install(DIRECTORY examples/ DESTINATION share/doc/estrain/examples COMPONENT documents
        PATTERN __pycache__ EXCLUDE PATTERN "*.png" EXCLUDE)
install(FILES scripts/packages/copyright DESTINATION share/doc/estrain)
