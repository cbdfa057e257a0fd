# The warnings that our code is clean of.
set(DIFFLET_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
    -Wold-style-cast -Wno-missing-field-initializers)
if(DIFFLET_WERROR)
  list(APPEND DIFFLET_WARNINGS -Werror)
endif()
