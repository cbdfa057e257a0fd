# Fails if the unit of a level defines a weak function: an inline one that the linker may choose
# for the whole program, and that older chips cannot run.
#   cmake -DNM=nm -DARCHIVE=libdifflet_cpu_kernels.a -P check_symbols.cmake
execute_process(COMMAND "${NM}" -C --defined-only "${ARCHIVE}" OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE ";" "," symbols "${symbols}")
string(REPLACE "[" "(" symbols "${symbols}")
string(REPLACE "]" ")" symbols "${symbols}")
string(REPLACE "\n" ";" symbols "${symbols}")
set(unit "")
set(found "")
foreach(line IN LISTS symbols)
  if(line MATCHES "^([^ ]*)\\.o:$")
    set(unit "${CMAKE_MATCH_1}")
  elseif(unit MATCHES "_(avx|amx)" AND line MATCHES " [Wu] (.*)$")
    string(APPEND found "\n  ${unit}: ${CMAKE_MATCH_1}")
  endif()
endforeach()
if(found)
  message(FATAL_ERROR "weak functions in units with instruction-set flags:${found}")
endif()
