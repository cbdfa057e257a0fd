# The one binary on processors without AVX (Nehalem) and without AVX-512 (Haswell), emulated.
foreach(test IN ITEMS backends_cpu_kernels_test)
  if(TARGET ${test})
    difflet_qemu_test(${test} COMMAND ${test} --gtest_brief=1)
  endif()
endforeach()
if(TARGET difflet_app AND EXISTS "${PROJECT_SOURCE_DIR}/demo/model_index.json")
  difflet_qemu_test(generate COMMAND difflet_app generate --model demo --prompt "a red apple" --steps 1
                    --max-sequence-length 16 --output "${CMAKE_BINARY_DIR}/qemu-@cpu@.png")
endif()
