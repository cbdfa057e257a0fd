// Convolution by the Winograd kernel of the level.
#include "difflet/backends/cpu/conv.h"

namespace difflet::cpu {
namespace {

class WinogradConv final : public ConvKernel {
 public:
  WinogradConv(const ConvDesc& desc, const WinogradKernel& kernel) : desc_(desc), kernel_(&kernel) {
    args_.desc = {
        .in_channels = desc.in_channels, .out_channels = desc.out_channels, .before = desc.before};
    args_.height = desc.height;
    args_.width = desc.width;
    args_.out_height = desc.out_height;
    args_.out_width = desc.out_width;
    args_.pad_top = desc.pad_top;
    args_.pad_left = desc.pad_left;
  }

  std::string_view name() const noexcept override {
    return desc_.before == Before::Doubling ? kernel_->doubled_name : kernel_->name;
  }
  std::string_view layout() const noexcept override { return name(); }
  std::size_t packed_bytes() const noexcept override { return kernel_->packed_bytes(args_.desc); }
  std::size_t scratch_bytes() const noexcept override { return kernel_->scratch_bytes(args_.desc); }
  bool pack(const HostTensor& weight, std::byte* packed) const override {
    const HostTensor wide = weight.to(DType::BF16).to(DType::F32);
    return kernel_->pack(args_.desc, wide.as<float>().data(), packed);
  }
  void generate() override {}
  std::int64_t tasks() const noexcept override { return desc_.batch * kernel_->tasks(args_); }
  void run(const ConvData& data, std::int64_t task, std::byte* scratch) const override {
    const std::int64_t count = kernel_->tasks(args_);
    const std::int64_t b = task / count;
    const std::int64_t from = b * desc_.height * desc_.width * desc_.in_channels;
    const std::int64_t to = b * desc_.out_height * desc_.out_width * desc_.out_channels;
    WinogradArgs args = args_;
    args.x = static_cast<const std::uint16_t*>(data.x) + from;
    args.packed = data.packed;
    args.bias = data.bias;
    args.residual =
        data.residual == nullptr ? nullptr : static_cast<const std::uint16_t*>(data.residual) + to;
    args.y = static_cast<std::uint16_t*>(data.y) + to;
    kernel_->run(args, task % count, scratch);
  }

 private:
  ConvDesc desc_;
  WinogradArgs args_;
  const WinogradKernel* kernel_;
};

}  // namespace

std::shared_ptr<ConvKernel> make_winograd(const ConvDesc& desc, Level level) {
  const bool fits = conv_refusal(desc, level, ConvAlgorithm::WinogradBf16).empty();
  return fits ? std::make_shared<WinogradConv>(desc, *winograd_kernel(level)) : nullptr;
}

}  // namespace difflet::cpu
