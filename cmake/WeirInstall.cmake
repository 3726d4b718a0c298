# What `cmake --install` gives: the library (headers, libweir.a, CMake package, pkg-config file) and,
# where they are built, the program with its man page and completions.
#
# libweir.a is assembled from the folders that a library user gets, base to guard; the packages that
# their .cc files need (LINK of weir_folder) become private link requirements, so that a user's own
# link line names weir::weir, or `pkg-config --static weir`, and nothing else.

include(CMakePackageConfigHelpers)

set(WEIR_LIBRARY_FOLDERS base limit policy store breaker ladder ledger registry render guard)

set(objects)
set(links)
foreach(folder IN LISTS WEIR_LIBRARY_FOLDERS)
  if(NOT TARGET weir_${folder})
    continue()
  endif()
  get_target_property(type weir_${folder} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    list(APPEND objects $<TARGET_OBJECTS:weir_${folder}>)
  endif()
  get_property(folder_links GLOBAL PROPERTY WEIR_LINK_${folder})
  list(APPEND links ${folder_links})
endforeach()
list(REMOVE_DUPLICATES links)

# Names on the link line, not targets: the user's project need not find our packages' CMake files.
set(libraries)
foreach(link IN LISTS links)
  if(link MATCHES "^OpenSSL::(.+)$")
    string(TOLOWER ${CMAKE_MATCH_1} link)
  elseif(link MATCHES "^SQLite::")
    set(link sqlite3)
  elseif(link MATCHES "^Boost::(headers|boost)$|^Threads::|^weir_")
    continue()
  elseif(link MATCHES "::")
    message(FATAL_ERROR "cmake/WeirInstall.cmake does not know what library ${link} is")
  endif()
  list(APPEND libraries ${link})
endforeach()
list(REMOVE_DUPLICATES libraries)

if(NOT objects)
  return()
endif()
add_library(weir_library STATIC ${objects})
add_library(weir::weir ALIAS weir_library)
set_target_properties(weir_library PROPERTIES OUTPUT_NAME weir EXPORT_NAME weir LINKER_LANGUAGE CXX)
target_include_directories(weir_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(weir_library INTERFACE cxx_std_20)
target_link_libraries(weir_library PRIVATE ${libraries} PUBLIC Threads::Threads)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(TARGETS weir_library EXPORT weir ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(EXPORT weir NAMESPACE weir:: FILE weir-targets.cmake DESTINATION ${package_dir} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT library FILES_MATCHING PATTERN "*.h")

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/weir-config.cmake @ONLY CONTENT [[
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include("${CMAKE_CURRENT_LIST_DIR}/weir-targets.cmake")
]])
# Before 1.0 a minor version may break what users wrote.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weir-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weir-config.cmake ${PROJECT_BINARY_DIR}/weir-config-version.cmake
  DESTINATION ${package_dir} COMPONENT library)

# The prefix is worked out from where the .pc file lies, so that an installed tree can be moved.
cmake_path(SET pc_dir NORMALIZE /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH pc_dir BASE_DIRECTORY /prefix OUTPUT_VARIABLE below)
string(REGEX REPLACE "[^/]+" ".." pc_up ${below})
string(REGEX REPLACE "/$" "" pc_up ${pc_up})
list(TRANSFORM libraries PREPEND -l OUTPUT_VARIABLE pc_libraries)
list(JOIN pc_libraries " " pc_libraries)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/weir.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@pc_up@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@

Name: weir
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -I${includedir}
Libs: -L${libdir} -lweir @pc_libraries@ -pthread
]])
install(FILES ${PROJECT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)

if(TARGET weir)
  install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/examples/quickstart.yaml
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/weir.service
    DESTINATION lib/systemd/system COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/weir.rules.yml
    DESTINATION ${CMAKE_INSTALL_DATADIR}/weir COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/weir.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT program)
  # The program writes its own completions.
  if(NOT CMAKE_CROSSCOMPILING)
    set(completions)
    foreach(shell bash zsh fish)
      set(out ${PROJECT_BINARY_DIR}/completions/${shell})
      add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/completions
        COMMAND sh -c "\"$1\" completion ${shell} >\"$2\"" -- $<TARGET_FILE:weir> ${out}
        DEPENDS weir VERBATIM)
      list(APPEND completions ${out})
    endforeach()
    add_custom_target(weir_completions ALL DEPENDS ${completions})
    install(FILES ${PROJECT_BINARY_DIR}/completions/bash RENAME weir
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
    install(FILES ${PROJECT_BINARY_DIR}/completions/zsh RENAME _weir
      DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
    install(FILES ${PROJECT_BINARY_DIR}/completions/fish RENAME weir.fish
      DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
  endif()
endif()
