// What to say of an artifact that is nearly the one that is wanted.
#pragma once

#include <string>

#include "difflet/artifact/identity.h"

namespace difflet::artifact {

// "of M there is <key>, which differs in backend ("cpu", not "reference")": all but the shapes, a few
// fields of them by name.
std::string describe_difference(const std::string& key, const Identity& stored,
                                const Identity& wanted);

}  // namespace difflet::artifact
