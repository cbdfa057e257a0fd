# Every build option, in one place.
set(DIFFLET_SANITIZE "" CACHE STRING "Sanitizers for our code: empty, address (with undefined) or thread")
option(DIFFLET_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(DIFFLET_WERROR "Treat warnings in our code as errors" ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Target all_verify_interface_header_sets: every header compiles on its own. Not part of `all`.
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

# Paths below the source tree are hashed relative, so that build folders and checkouts share objects.
# Precompiled headers are left out on purpose: docs/adr/0002-build-time.md.
find_program(DIFFLET_CCACHE ccache)
if(DIFFLET_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=time_macros "${DIFFLET_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()
