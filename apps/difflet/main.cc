#include "difflet/cli/app.h"

int main(int argc, char** argv) { return difflet::cli::run(argc, argv); }
