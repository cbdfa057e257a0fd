// Entries of the artifact store by what a user calls them.
#pragma once

#include <string>
#include <vector>

#include "difflet/artifact/store.h"

namespace difflet::cli {

// Whole keys for keys or their beginnings. Throws NotFound when there is none like it, InvalidArgument
// when there are several or it is not hexadecimal.
std::vector<std::string> keys_of(const artifact::Store& store,
                                 const std::vector<std::string>& given);
// Of the newest good generation of an artifact. Throws NotFound, DataLoss when none is good.
artifact::Manifest manifest_of(const artifact::Store& store, const std::string& key);

}  // namespace difflet::cli
