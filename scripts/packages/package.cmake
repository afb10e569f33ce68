# cpack -G DEB: one package with the program, its libraries and LibTorch's CPU part.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME estrain)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The estrain authors <estrain@example.org>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "elastic, bit-exact training of neural networks")
# CPack puts the summary before it.
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Trains neural networks on whatever devices are free, and changes the devices
while the job runs. The result does not depend on which devices they were: it
is the same bit for bit, and the command verify proves it.

LibTorch's CPU part comes along, below /usr/lib/estrain/libtorch.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${LibTorch_LIBRARIES_DIR} ${LibTorch_FOLDER}/nvidia/cu13/lib ${CMAKE_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "dataset-fashion-mnist")
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/scripts/packages/debian_files.cmake)
include(CPack)
