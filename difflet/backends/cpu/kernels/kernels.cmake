# Kernels: one translation unit a level, each with its own instruction-set flags, always optimized.
set(DIFFLET_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(DIFFLET_FLAGS_avx512 ${DIFFLET_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(DIFFLET_FLAGS_avx512vnni ${DIFFLET_FLAGS_avx512} -mavx512vnni)
set(DIFFLET_FLAGS_avx512bf16 ${DIFFLET_FLAGS_avx512vnni} -mavx512bf16)
set(DIFFLET_FLAGS_amx ${DIFFLET_FLAGS_avx512bf16} -mamx-tile -mamx-bf16 -mamx-int8)

file(GLOB DIFFLET_KERNEL_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cc")
set(DIFFLET_KERNEL_TESTS ${DIFFLET_KERNEL_SOURCES})
list(FILTER DIFFLET_KERNEL_TESTS INCLUDE REGEX "_test\\.cc$")
# Kernels over emulated instructions: linked into the tests only.
set(DIFFLET_KERNEL_EMULATED ${DIFFLET_KERNEL_SOURCES})
list(FILTER DIFFLET_KERNEL_EMULATED INCLUDE REGEX "_emulated\\.cc$")
list(FILTER DIFFLET_KERNEL_SOURCES EXCLUDE REGEX "_(test|emulated)\\.cc$")
add_library(difflet_cpu_kernels STATIC ${DIFFLET_KERNEL_SOURCES})
target_include_directories(difflet_cpu_kernels PUBLIC "${PROJECT_SOURCE_DIR}")
# No precompiled std headers here: a level's unit must not carry inline std functions.
target_compile_options(difflet_cpu_kernels PRIVATE ${DIFFLET_WARNINGS} -O3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 takes the undefined sources of its own AVX-512 intrinsics for uninitialised variables.
  set(DIFFLET_FLAGS_gnu -Wno-maybe-uninitialized -Wno-uninitialized)
  # Its stack frames for finding uses after a return are aligned to 32 bytes only, and registers of 64 that
  # are spilled there fault (gcc.gnu.org/PR110027). Everything else that AddressSanitizer finds it still does.
  if(DIFFLET_SANITIZE STREQUAL "address")
    list(APPEND DIFFLET_FLAGS_gnu "--param=asan-use-after-return=0")
  endif()
  target_compile_options(difflet_cpu_kernels PRIVATE ${DIFFLET_FLAGS_gnu})
endif()
foreach(source IN LISTS DIFFLET_KERNEL_SOURCES)
  foreach(level IN ITEMS avx2 avx512 avx512vnni avx512bf16 amx)
    if(source MATCHES "_${level}\\.cc$")
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${DIFFLET_FLAGS_${level}}")
    endif()
  endforeach()
endforeach()

set_source_files_properties(${DIFFLET_KERNEL_EMULATED} PROPERTIES
                            COMPILE_OPTIONS "-O3;${DIFFLET_FLAGS_avx512bf16};${DIFFLET_FLAGS_gnu}")

if(DIFFLET_KERNEL_TESTS)
  difflet_test(backends_cpu_kernels_test
               SOURCES ${DIFFLET_KERNEL_TESTS} ${DIFFLET_KERNEL_EMULATED} DEPENDS difflet_cpu_kernels
               LABELS unit)
endif()
if(NOT DIFFLET_SANITIZE AND NOT DIFFLET_FUZZ)
  add_test(NAME backends_cpu_kernels.symbols
           COMMAND "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DARCHIVE=$<TARGET_FILE:difflet_cpu_kernels>"
                   -P "${CMAKE_CURRENT_LIST_DIR}/check_symbols.cmake")
  set_tests_properties(backends_cpu_kernels.symbols PROPERTIES LABELS unit)
endif()
