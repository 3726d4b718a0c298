# One CMake target a folder.
#
#   weir_folder(NAME DEPS weir_base ... [LINK pkg ...] [TEST_DEPS ...] [FAST_TESTS])
#
# makes the static library weir_NAME from this folder's .cc files (with [RECURSE]: and those below it).
# Files are sorted by their ending:
#   *_test.cc   -> the test program weir_NAME_tests (label unit; a file named *_LABEL_test.cc with LABEL one of
#                  conformance, fault, sim, golden, e2e goes into weir_NAME_LABEL_tests with that label)
#   *_bench.cc  -> the benchmark program weir_NAME_bench
#   *_fuzz.cc   -> one fuzz target each; without a fuzzer, a test (label fuzz) that replays its corpus
# LINK is private: types of third-party packages stay inside the .cc files of the folder that needs them.

find_package(Threads REQUIRED)
if(WEIR_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
# Every benchmark, by one name: `./dev lint` compiles them in the tree of the tests, whose own build leaves them out.
if(WEIR_BENCH)
  find_package(benchmark REQUIRED)
elseif(WEIR_TESTS)
  find_package(benchmark QUIET)
endif()
add_custom_target(weir_benches)

add_library(weir_flags INTERFACE)
target_compile_options(weir_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
  -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 sees overlaps inside std::string at -O2 that are not there (gcc bug 105651).
  target_compile_options(weir_flags INTERFACE $<$<CONFIG:Release>:-Wno-restrict>)
endif()
if(WEIR_WERROR)
  target_compile_options(weir_flags INTERFACE -Werror)
endif()
target_link_libraries(weir_flags INTERFACE Threads::Threads)

# The headers that most files include, compiled once: much of the time of a whole build. Off unless asked
# for, as ./dev does: whoever changes files one by one learns of an include that is missing, and gets more out
# of a compiler cache, without. What ships is the same either way.
if(WEIR_PCH)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch.cc CONTENT "")
  # Seen through a precompiled header, gcc 12 takes the standard library's strings for ours and warns of
  # them falsely; builds without one keep these warnings.
  target_compile_options(weir_flags INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
    -Wno-stringop-overread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(weir_flags INTERFACE -fpch-preprocess)  # so that a compiler cache can see behind it
    # Half a gigabyte before it looks for what it could free, and then seldom: a twelfth of its time, and at most 0.8 GB.
    target_compile_options(weir_flags INTERFACE --param=ggc-min-heapsize=524288 --param=ggc-min-expand=300)
  endif()
  set(standard <algorithm> <array> <atomic> <chrono> <cstdint> <functional> <map> <memory> <mutex> <optional>
    <span> <string> <string_view> <thread> <utility> <variant> <vector>)
  add_library(weir_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cc)
  set_target_properties(weir_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(weir_pch PRIVATE weir_flags)
  target_precompile_headers(weir_pch PRIVATE ${standard})
  if(WEIR_TESTS)
    foreach(kind test fast_test)
      add_library(weir_${kind}_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cc)
      target_link_libraries(weir_${kind}_pch PRIVATE weir_flags GTest::gtest GTest::gmock)
      target_include_directories(weir_${kind}_pch PRIVATE ${PROJECT_SOURCE_DIR}/include)
      target_precompile_headers(weir_${kind}_pch PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${standard}
        <sstream> <weir/weir.h>)
    endforeach()
    target_compile_options(weir_test_pch PRIVATE ${WEIR_TEST_OPTIONS})
  endif()
endif()

# Files of one test program compiled together: what they share is read, and instantiated, once. Off unless asked for, as
# ./dev does where it builds whole trees. Names in a file's own namespace must then differ within a program; a file
# that cannot have that stays out by WEIR_ALONE in its folder.
function(_weir_together target)
  if(WEIR_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${WEIR_UNITY})
    # What this says of one file, builds without this say; here it sees several.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    foreach(file IN LISTS WEIR_ALONE)
      set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
  endif()
endfunction()

set(WEIR_TEST_LABELS conformance fault sim golden e2e)

# CTest's unit of work is a quarter of a core (`ctest -j8` on two cores; ./dev counts by itself). A test against servers and
# faults waits nine tenths of its time and weighs one; a test that computes weighs a core. What a sanitizer or a
# count of lines makes slower waits less.
set(WEIR_COMPUTES 4)
set(WEIR_WAITS 1)
set(WEIR_HALF 2)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize|--coverage")
  set(WEIR_WAITS 2)
endif()

# Code that tests alone use, compiled as tests are: by WEIR_TEST_OPTIONS, unless FAST, which is for what computes
# for seconds.
function(weir_compile_as_test target)
  target_link_libraries(${target} PRIVATE weir_flags GTest::gtest)
  if("FAST" IN_LIST ARGN)
    set(pch weir_fast_test_pch)
  else()
    set(pch weir_test_pch)
    target_compile_options(${target} PRIVATE ${WEIR_TEST_OPTIONS})
  endif()
  if(WEIR_PCH)
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
  _weir_together(${target})
endfunction()

# A program of tests: weir_test_program(NAME LABEL [FAST] SOURCES file ... LINK library ...). Simulations are FAST.
function(weir_test_program program label)
  cmake_parse_arguments(ARG "FAST" "" "SOURCES;LINK" ${ARGN})
  add_executable(${program} ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  if(ARG_FAST OR label STREQUAL "sim")
    weir_compile_as_test(${program} FAST)
  else()
    weir_compile_as_test(${program})
  endif()
  # Where CTest has no times of an earlier run, what takes longest begins first.
  set(properties TIMEOUT 120 PROCESSORS ${WEIR_COMPUTES})
  if(label STREQUAL "sim")
    set(properties TIMEOUT 600 PROCESSORS ${WEIR_COMPUTES} COST 20)
  elseif(label MATCHES "e2e|fault")
    set(properties TIMEOUT 600 PROCESSORS ${WEIR_WAITS} COST 10)
  endif()
  # A row of a table of tests has a name; its bytes, which CMake would put beside it, hold addresses.
  gtest_discover_tests(${program} NO_PRETTY_VALUES PROPERTIES LABELS ${label} ${properties} DISCOVERY_TIMEOUT 60)
endfunction()

function(weir_folder name)
  cmake_parse_arguments(ARG "RECURSE;FAST_TESTS" "" "DEPS;LINK;TEST_DEPS;EXCLUDE" ${ARGN})
  if(ARG_RECURSE)
    file(GLOB_RECURSE all CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  else()
    file(GLOB all CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  endif()
  foreach(pattern IN LISTS ARG_EXCLUDE)
    list(FILTER all EXCLUDE REGEX "${pattern}")
  endforeach()
  set_property(GLOBAL PROPERTY WEIR_LINK_${name} ${ARG_LINK})
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  set(fuzzers ${all})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER all EXCLUDE REGEX "(_test|_bench|_fuzz)\\.cc$")

  if(all)
    add_library(weir_${name} STATIC ${all})
    target_include_directories(weir_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(weir_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_LINK} weir_flags)
    set_target_properties(weir_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(WEIR_PCH)
      target_precompile_headers(weir_${name} REUSE_FROM weir_pch)
    endif()
  else()
    add_library(weir_${name} INTERFACE)
    target_include_directories(weir_${name} INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(weir_${name} INTERFACE ${ARG_DEPS})
  endif()

  if(WEIR_TESTS AND tests)
    foreach(label IN LISTS WEIR_TEST_LABELS)
      set(labelled ${tests})
      list(FILTER labelled INCLUDE REGEX "_${label}_test\\.cc$")
      list(FILTER tests EXCLUDE REGEX "_${label}_test\\.cc$")
      if(labelled)
        weir_test_program(weir_${name}_${label}_tests ${label} SOURCES ${labelled} LINK weir_${name} ${ARG_TEST_DEPS})
      endif()
    endforeach()
    if(tests)
      set(fast)
      if(ARG_FAST_TESTS)
        set(fast FAST)
      endif()
      weir_test_program(weir_${name}_tests unit ${fast} SOURCES ${tests} LINK weir_${name} ${ARG_TEST_DEPS})
    endif()
  endif()
  if(benches AND benchmark_FOUND)
    add_executable(weir_${name}_bench ${benches})
    add_dependencies(weir_benches weir_${name}_bench)
    if(NOT WEIR_BENCH)
      set_target_properties(weir_${name}_bench PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    target_link_libraries(weir_${name}_bench PRIVATE weir_${name} ${ARG_TEST_DEPS} weir_flags
      benchmark::benchmark benchmark::benchmark_main)
  endif()
  if(WEIR_TESTS)
    foreach(fuzzer IN LISTS fuzzers)
      get_filename_component(target ${fuzzer} NAME_WE)
      if(NOT TARGET weir_replay)
        add_library(weir_replay OBJECT ${PROJECT_SOURCE_DIR}/fuzz/replay.cc)
        target_link_libraries(weir_replay PRIVATE weir_flags)
      endif()
      add_executable(${target}_replay ${fuzzer} $<TARGET_OBJECTS:weir_replay>)
      target_link_libraries(${target}_replay PRIVATE weir_${name} ${ARG_TEST_DEPS})
      weir_compile_as_test(${target}_replay)
      add_test(NAME Fuzz.${target} COMMAND ${target}_replay ${PROJECT_SOURCE_DIR}/fuzz/corpus/${target})
      set_tests_properties(Fuzz.${target} PROPERTIES LABELS fuzz TIMEOUT 300 PROCESSORS ${WEIR_COMPUTES})
    endforeach()
  endif()
  if(WEIR_FUZZ)
    foreach(fuzzer IN LISTS fuzzers)
      get_filename_component(target ${fuzzer} NAME_WE)
      add_executable(${target} ${fuzzer})
      target_link_libraries(${target} PRIVATE weir_${name} ${ARG_TEST_DEPS} weir_flags)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()
