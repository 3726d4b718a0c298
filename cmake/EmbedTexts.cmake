# Turns files into one C++ source that holds their text.
#
#   weir_embed_texts(OUT file.cc HEADER folder/header.h NAMESPACE weir::x TYPE Type FUNCTION all FILES a.yaml ...)
#
# HEADER declares Type{name, text} and `std::span<const Type> FUNCTION()`; a name is a file's without its ending.
function(weir_embed_texts)
  cmake_parse_arguments(ARG "" "OUT;HEADER;NAMESPACE;TYPE;FUNCTION" "FILES" ${ARGN})
  set(rows "")
  foreach(path IN LISTS ARG_FILES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} text)
    cmake_path(GET path STEM LAST_ONLY name)
    string(APPEND rows "    {\"${name}\", R\"text(${text})text\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${ARG_OUT} CONTENT
    "#include \"${ARG_HEADER}\"\n\nnamespace ${ARG_NAMESPACE} {\n\nstd::span<const ${ARG_TYPE}> ${ARG_FUNCTION}() {\n  static constexpr ${ARG_TYPE} kAll[] = {\n${rows}  };\n  return kAll;\n}\n\n}  // namespace ${ARG_NAMESPACE}\n"
    @ONLY)
endfunction()
