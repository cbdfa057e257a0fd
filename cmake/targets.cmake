# How libraries, tests and their run under an emulated older processor are declared.
include(GoogleTest)
find_program(DIFFLET_QEMU qemu-x86_64)


function(difflet_options target)
  target_compile_options(${target} PRIVATE ${DIFFLET_WARNINGS})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
endfunction()

# difflet_test(<name> SOURCES ... DEPENDS ... [LABELS ...]): a GoogleTest binary whose tests run in
# the source folder. A sanitized build runs it as one test, and builds it only if a label asks for it:
# the other tests compare whole models and take too long there.
function(difflet_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  difflet_options(${name})
  set(sanitized ${ARG_LABELS})
  list(FILTER sanitized INCLUDE REGEX "^(unit|conformance|cli)$")
  if(DIFFLET_FUZZ OR (DIFFLET_SANITIZE AND NOT sanitized))
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  elseif(DIFFLET_SANITIZE)
    add_test(NAME "${DIFFLET_TEST_PREFIX}${name}" COMMAND ${name}
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties("${DIFFLET_TEST_PREFIX}${name}" PROPERTIES TIMEOUT 1200
                         LABELS "${ARG_LABELS}")
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                         WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
                         PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}")
  endif()
endfunction()

# difflet_qemu_test(<name> COMMAND <target or file> [argument ...]): the command once on each older
# processor, emulated; @cpu@ in an argument is its name. Where qemu-user is missing the tests say so
# and count as skipped.
function(difflet_qemu_test name)
  cmake_parse_arguments(ARG "" "" "COMMAND" ${ARGN})
  if(DIFFLET_SANITIZE OR DIFFLET_FUZZ)
    return()
  endif()
  list(POP_FRONT ARG_COMMAND program)
  if(TARGET ${program})
    set(program "$<TARGET_FILE:${program}>")
  endif()
  foreach(cpu IN ITEMS Nehalem Haswell)
    if(DIFFLET_QEMU)
      string(REPLACE "@cpu@" "${cpu}" arguments "${ARG_COMMAND}")
      add_test(NAME "qemu.${cpu}.${name}" WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
               COMMAND "${DIFFLET_QEMU}" -cpu ${cpu} "${program}" ${arguments})
    else()
      add_test(NAME "qemu.${cpu}.${name}"
               COMMAND sh -c "echo 'skipped: qemu-x86_64 (package qemu-user) is missing'; exit 77")
    endif()
    set_tests_properties("qemu.${cpu}.${name}" PROPERTIES LABELS qemu TIMEOUT 900
                         SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

# difflet_nocompile_test(<name> SOURCE <file> ERROR <regex>): the file must not compile, with that
# message; with -DALLOWED it must, so that the test cannot pass for another reason.
function(difflet_nocompile_test name)
  cmake_parse_arguments(ARG "" "SOURCE;ERROR" "" ${ARGN})
  if(DIFFLET_SANITIZE OR DIFFLET_FUZZ)
    return()
  endif()
  set(command "${CMAKE_COMMAND}" -E env LC_ALL=C "${CMAKE_CXX_COMPILER}" -std=c++20 -fsyntax-only -I "${PROJECT_SOURCE_DIR}"
      "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SOURCE}")
  add_test(NAME "nocompile.${name}.refused" COMMAND ${command})
  set_tests_properties("nocompile.${name}.refused" PROPERTIES LABELS nocompile
                       PASS_REGULAR_EXPRESSION "${ARG_ERROR}")
  add_test(NAME "nocompile.${name}.allowed" COMMAND ${command} -DALLOWED)
  set_tests_properties("nocompile.${name}.allowed" PROPERTIES LABELS nocompile)
endfunction()

# difflet_library(<folder> DEPENDS ...): the folder's *.cc as difflet::<folder with _>, and its
# *_test.cc as <folder with _>_test. Does nothing for a folder that has no source yet.
function(difflet_library folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  string(REPLACE "/" "_" name "${folder}")
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/difflet/${folder}/*.cc")
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/difflet/${folder}/*.h")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  if(NOT sources)
    return()
  endif()
  set(depends "")
  foreach(d IN LISTS ARG_DEPENDS)
    if(TARGET ${d})
      list(APPEND depends ${d})
    elseif(NOT d MATCHES "^difflet::")
      message(FATAL_ERROR "difflet/${folder} depends on ${d}, which is not a target")
    endif()
  endforeach()
  add_library(difflet_${name} STATIC ${sources})
  target_sources(difflet_${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}"
                 FILES ${headers})
  target_link_libraries(difflet_${name} PUBLIC ${depends})
  difflet_options(difflet_${name})
  add_library(difflet::${name} ALIAS difflet_${name})
  if(tests)
    difflet_test(${name}_test SOURCES ${tests} DEPENDS difflet::${name} LABELS unit)
  endif()
endfunction()
