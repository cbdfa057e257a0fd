// First stage of a tokenizer: text to text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/text/charsmap.h"
#include "difflet/text/pattern.h"

namespace difflet::text {

// Throws ResourceExhausted when a normalizer of a file has blown a text up beyond 1 GiB.
void check_growth(const std::string& text);

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string apply(std::string_view text) const = 0;
};

using NormalizerPtr = std::unique_ptr<const Normalizer>;

class NfcNormalizer final : public Normalizer {
 public:
  std::string apply(std::string_view text) const override;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  std::string apply(std::string_view text) const override;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string apply(std::string_view text) const override;

 private:
  Pattern pattern_;
  std::string content_;
};

// Takes white space off the ends.
class StripNormalizer final : public Normalizer {
 public:
  struct Sides {
    bool left = true;
    bool right = true;
  };
  explicit StripNormalizer(Sides sides) : sides_(sides) {}
  std::string apply(std::string_view text) const override;

 private:
  Sides sides_;
};

class CharsmapNormalizer final : public Normalizer {
 public:
  explicit CharsmapNormalizer(Charsmap map) : map_(std::move(map)) {}
  std::string apply(std::string_view text) const override;

 private:
  Charsmap map_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}
  std::string apply(std::string_view text) const override;

 private:
  std::vector<NormalizerPtr> parts_;
};

}  // namespace difflet::text
