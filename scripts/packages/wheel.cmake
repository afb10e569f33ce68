# cmake --install BUILD --component wheel: what scripts/wheel packs, beside the component `documents` of install.cmake.
#
#   estrain/                        the console command, the program and the libraries that it loads
#   estrain-VERSION.dist-info/      what pip knows of the wheel
set(package estrain)
set(information estrain-${PROJECT_VERSION}.dist-info)

install(TARGETS estrain RUNTIME DESTINATION ${package} COMPONENT wheel EXCLUDE_FROM_ALL)
install(TARGETS ${loaded_libraries} LIBRARY DESTINATION ${package} COMPONENT wheel EXCLUDE_FROM_ALL)
# PyPI's torch brings the libraries of CUDA. The library for GPUs comes along where it has been built.
if(TARGET estrain_cuda)
  set(nvidia "$ORIGIN/../nvidia")
  set_target_properties(estrain_cuda PROPERTIES INSTALL_RPATH
    "$ORIGIN/../torch/lib;${nvidia}/cudnn/lib;${nvidia}/nccl/lib;${nvidia}/cu13/lib")
  install(TARGETS estrain_cuda LIBRARY DESTINATION ${package} COMPONENT wheel EXCLUDE_FROM_ALL OPTIONAL)
endif()
install(FILES scripts/packages/wheel/__init__.py scripts/packages/wheel/__main__.py DESTINATION ${package}
        COMPONENT wheel EXCLUDE_FROM_ALL)

string(REGEX REPLACE "[+].*" "" LibTorch_RELEASE "${LibTorch_VERSION}")
configure_file(scripts/packages/wheel/METADATA.in wheel/METADATA @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/wheel/METADATA scripts/packages/wheel/WHEEL scripts/packages/wheel/entry_points.txt LICENSE
        DESTINATION ${information} COMPONENT wheel EXCLUDE_FROM_ALL)
