# What the program knows from text files and from this build. It is generated below include/estrain.
configure_file(scripts/cmake/version.h.in include/estrain/version.h @ONLY)

# estrain_embed(NAME FILE...): <estrain/NAME.inc> is the text of the files, one after another, as string literals.
# estrain_embed(NAME LIST FILE...): it is {"stem of FILE", text}, for each file.
# A change of a file configures the build again.
function(estrain_embed NAME)
  cmake_parse_arguments(PARSE_ARGV 1 E LIST "" "")
  set(code "")
  foreach(file ${E_UNPARSED_ARGUMENTS})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    set(literal "R\"embedded(${text})embedded\"")
    if(E_LIST)
      get_filename_component(stem ${file} NAME_WE)
      set(literal "{\"${stem}\", ${literal}},")
    endif()
    string(APPEND code "${literal}\n")
  endforeach()
  file(CONFIGURE OUTPUT include/estrain/${NAME}.inc CONTENT "@code@" @ONLY)
endfunction()

estrain_embed(built_in_faults core/run/faults/faults.toml)
estrain_embed(python_host core/engine/python/begin.py core/engine/python/host.py)
estrain_embed(python_export core/engine/python/begin.py core/engine/python/export.py)
estrain_embed(python_convert core/engine/python/request.py core/engine/python/convert.py)
estrain_embed(python_columns core/engine/python/request.py core/engine/python/columns.py)
estrain_embed(python_metrics core/engine/python/request.py core/engine/python/metrics.py)
estrain_embed(python_data_host core/data/python/data_host.py)
# `estrain init` knows them as examples.
file(GLOB examples CONFIGURE_DEPENDS configs/*.toml)
estrain_embed(example_specs LIST ${examples})
