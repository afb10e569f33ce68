# Before a package is packed: what Debian wants of it beside what `cmake --install` puts there.
set(doc "${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/estrain")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
file(WRITE "${doc}/changelog" "estrain (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * See CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND gzip -9nf "${doc}/changelog" COMMAND_ERROR_IS_FATAL ANY)
set(overrides "${CPACK_TEMPORARY_DIRECTORY}/usr/share/lintian/overrides")
file(MAKE_DIRECTORY "${overrides}")
file(COPY_FILE "${CMAKE_CURRENT_LIST_DIR}/lintian-overrides" "${overrides}/estrain")
file(GLOB libraries "${CPACK_TEMPORARY_DIRECTORY}/usr/lib/estrain/libtorch/torch/lib/*")
execute_process(COMMAND strip --strip-unneeded ${libraries} COMMAND_ERROR_IS_FATAL ANY)
