// Addresses: resolving redirects, and who may see the token.
#pragma once

#include <string>

namespace difflet::io::hub {

// `location` as a redirect of `base`, absolute, http or https. Throws DataLoss for what is no such URL,
// or leads from https to http.
std::string redirect_target(const std::string& base, const std::string& location);
// Throws InvalidArgument, naming HF_ENDPOINT.
void check_endpoint(const std::string& url);
// "scheme://host:port" in lower case. Equal origins may see the same secrets. Empty for no URL.
std::string origin_of(const std::string& url);
bool is_https(const std::string& url);

}  // namespace difflet::io::hub
