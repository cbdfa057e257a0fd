// Which of a set of known pictures a picture looks most like: whether a small model draws what it is
// asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/io/image.h"

namespace difflet::pipelines {

class Judge {
 public:
  struct Question {
    std::size_t picture = 0;  // that `prompt` asks for
    std::string prompt;       // UTF-8
    std::uint64_t seed = 0;
  };

  // A PNG that tools/demo/make_judge wrote: a sheet of square thumbnails and, as its text "judge", their
  // names and the questions. Throws InvalidArgument for a PNG without that text, DataLoss, naming the
  // field, for a damaged one.
  static Judge open(const std::filesystem::path& file);
  static Judge parse(const io::Image& sheet, std::string_view text, const std::string& origin);

  const std::vector<Question>& questions() const noexcept { return questions_; }
  std::int64_t steps() const noexcept { return steps_; }  // that the questions are meant for
  const std::string& name(std::size_t picture) const { return names_.at(picture); }

  // The known picture at the smallest RGB distance, all at the thumbnails' size; of equals the first.
  std::size_t nearest(const io::Image& picture) const;

 private:
  std::int64_t side_ = 0, steps_ = 0;
  std::vector<std::string> names_;
  std::vector<std::vector<std::uint8_t>> thumbnails_;  // [side, side, 3] each
  std::vector<Question> questions_;
};

// Each pixel is the mean of those whose centres it covers, columns first and rounded between, halves
// up: Pillow's resize with Resampling.BOX. Throws InvalidArgument for a size that is not positive.
io::Image box_resized(const io::Image& image, std::int64_t width, std::int64_t height);

}  // namespace difflet::pipelines
