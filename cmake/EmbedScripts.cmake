# Turns Lua files into one C++ source that holds their text and its SHA-1, by which Redis knows a script.
#
#   weir_embed_scripts(OUT file.cc NAMESPACE weir::store::redis DIRECTORY dir SCRIPT name part.lua part.lua ...
#                      [SCRIPT name part.lua ...])
#
# A script is its parts in order. Whole-line comments and indentation stay in the repository: they would only cost
# the servers memory.
function(weir_embed_scripts)
  cmake_parse_arguments(ARG "" "OUT;NAMESPACE;DIRECTORY;HEADER" "SCRIPTS" ${ARGN})
  set(body "")
  foreach(script IN LISTS ARG_SCRIPTS)
    string(REPLACE "=" ";" pair "${script}")
    list(GET pair 0 name)
    list(GET pair 1 parts)
    string(REPLACE "+" ";" parts "${parts}")
    set(text "")
    foreach(part IN LISTS parts)
      set(path ${ARG_DIRECTORY}/${part}.lua)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
      file(READ ${path} piece)
      string(APPEND text "${piece}")
    endforeach()
    string(REGEX REPLACE "(^|\n)[ ]+" "\\1" text "${text}")
    string(REGEX REPLACE "(^|\n)--[^\n]*" "\\1" text "${text}")
    string(REGEX REPLACE "\n\n+" "\n" text "${text}")
    string(SHA1 sha "${text}")
    string(APPEND body
      "const Script k${name}Script{\"${sha}\", R\"lua(${text})lua\"};\n")
  endforeach()
  file(CONFIGURE OUTPUT ${ARG_OUT} CONTENT
    "#include \"${ARG_HEADER}\"\n\nnamespace ${ARG_NAMESPACE} {\n\n${body}\n}  // namespace ${ARG_NAMESPACE}\n"
    @ONLY)
endfunction()
