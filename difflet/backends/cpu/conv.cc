#include "difflet/backends/cpu/conv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <dnnl.hpp>
#include <fmt/ranges.h>

#include "difflet/backends/cpu/kernels/rowwise.h"
#include "difflet/base/error.h"

// Of the OpenMP runtime that oneDNN uses; declared here because not every compiler ships omp.h.
extern "C" void omp_set_num_threads(int);

namespace difflet::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// One band of output rows and the input rows under it.
struct Band {
  std::int64_t out_first = 0, out_rows = 0;
  std::int64_t in_first = 0, in_rows = 0;
  std::int64_t pad_top = 0, pad_bottom = 0;
  auto shape() const { return std::tuple(out_rows, in_rows, pad_top, pad_bottom); }
};

// A primitive for one band shape, with the layouts that it wants.
struct BandKernel {
  dnnl::convolution_forward::primitive_desc description;
  dnnl::convolution_forward primitive;  // of generate()
  memory::desc source, weights, result, scratchpad;
  std::optional<dnnl::reorder> reorder_in, reorder_out;  // between f32 nhwc and its own layout
};

constexpr std::size_t kAlign = 64;
std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Rows of a band: never a matter of the number of threads, so that sums are not either. Winograd
// needs 2048 pixels to pay, 4096 with fewer channels, and its scratch grows with them
// (bench/conv_bench).
std::int64_t band_rows(const ConvDesc& d, bool winograd) {
  constexpr std::int64_t kRows = 8;
  const std::int64_t pixels = d.in_channels >= 512 ? 2048 : 4096;
  return winograd ? std::max(kRows, pixels / d.out_width / 4 * 4) : kRows;
}

std::vector<Band> cut_bands(const ConvDesc& d, bool winograd) {
  const std::int64_t rows = std::min(d.out_height, band_rows(d, winograd));
  std::vector<Band> bands;
  for (std::int64_t r = 0; r < d.out_height; r += rows) {
    Band b;
    b.out_first = r;
    b.out_rows = std::min(rows, d.out_height - r);
    const std::int64_t first = r * d.stride - d.pad_top;
    const std::int64_t last =
        (r + b.out_rows - 1) * d.stride - d.pad_top + d.kernel_h;  // past the end
    b.in_first = std::max<std::int64_t>(0, first);
    b.pad_top = b.in_first - first;
    b.in_rows = std::min(d.height, last) - b.in_first;
    b.pad_bottom = std::max<std::int64_t>(0, last - d.height);
    bands.push_back(b);
  }
  return bands;
}

bool winograd_fits(const ConvDesc& d, Level level) {
  return level >= Level::Avx512 && d.kernel_h == 3 && d.kernel_w == 3 && d.stride == 1 &&
         d.groups == 1 && d.in_channels % 16 == 0 && d.out_channels % 16 == 0 &&
         d.in_channels >= 64 && d.out_channels >= 64;
}

memory::dims weight_dims(const ConvDesc& d) {
  if (d.groups == 1) {
    return {d.out_channels, d.in_channels, d.kernel_h, d.kernel_w};
  }
  return {d.groups, d.out_channels / d.groups, d.in_channels / d.groups, d.kernel_h, d.kernel_w};
}

// All that decides where oneDNN puts the elements of a weight, as text.
std::string describe(const memory::desc& weights, const ConvDesc& conv) {
#if DNNL_VERSION_MAJOR >= 3
  // A layout without strides is opaque: then the version and the convolution stand for it.
  const bool opaque = weights.get_format_kind() != memory::format_kind::blocked;
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{} {} {} {} {} {} {} {}; {}", static_cast<int>(weights.get_data_type()),
                     fmt::join(weights.get_dims(), ","), fmt::join(weights.get_padded_dims(), ","),
                     fmt::join(opaque ? memory::dims{} : weights.get_strides(), ","),
                     fmt::join(opaque ? memory::dims{} : weights.get_inner_blks(), ","),
                     fmt::join(opaque ? memory::dims{} : weights.get_inner_idxs(), ","),
                     weights.get_submemory_offset(), weights.get_size(),
                     opaque ? fmt::format("{}.{}.{} {} {} {} {}", v->major, v->minor, v->patch,
                                          conv.height, conv.width, conv.out_height, conv.out_width)
                            : "");
#else
  (void)conv;
  const dnnl_memory_desc_t& d = weights.data;
  const auto rank = static_cast<std::size_t>(d.ndims);
  std::string text = fmt::format(
      "{} {} {} {} {} {}", static_cast<int>(d.data_type), fmt::join(std::span(d.dims, rank), ","),
      fmt::join(std::span(d.padded_dims, rank), ","),
      fmt::join(std::span(d.padded_offsets, rank), ","), d.offset0, weights.get_size());
  if (d.format_kind == dnnl_format_kind_wino) {
    const dnnl_wino_desc_t& w = d.format_desc.wino_desc;
    text += fmt::format("; {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(w.wino_format), w.r,
                        w.alpha, w.ic, w.oc, w.ic_block, w.oc_block, w.ic2_block, w.oc2_block,
                        w.adj_scale, w.size);
  } else {
    const dnnl_blocking_desc_t& b = d.format_desc.blocking;
    const auto blocks = static_cast<std::size_t>(b.inner_nblks);
    text += fmt::format("; {} {} {}", fmt::join(std::span(b.strides, rank), ","),
                        fmt::join(std::span(b.inner_blks, blocks), ","),
                        fmt::join(std::span(b.inner_idxs, blocks), ","));
  }
  return text;
#endif
}

// FNV-1a.
std::uint64_t digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

class DnnlConv final : public ConvKernel {
 public:
  DnnlConv(const ConvDesc& desc, Level level, ConvAlgorithm algorithm);

  std::string_view name() const noexcept override { return name_; }
  std::string_view layout() const noexcept override { return layout_; }
  std::size_t packed_bytes() const noexcept override { return aligned(weights_.get_size()); }
  std::size_t scratch_bytes() const noexcept override { return scratch_; }
  bool pack(const HostTensor& weight, std::byte* packed) const override;
  void generate() override;
  std::int64_t tasks() const noexcept override {
    return desc_.batch * static_cast<std::int64_t>(bands_.size());
  }
  void run(const ConvData& data, std::int64_t task, std::byte* scratch) const override;

 private:
  void add_kernel(const Band& band);
  void add_reorders(BandKernel& k, const memory::desc& source, const memory::desc& result) const;
  // Parts of the scratch of one thread.
  struct Layout {
    std::size_t wide_in, own_in, own_out, wide_out, pad, end;
  };
  Layout layout(const BandKernel& k, const Band& band) const;
  std::size_t source_elements(const Band& b) const {
    return static_cast<std::size_t>(b.in_rows * desc_.width * desc_.in_channels);
  }
  std::size_t result_elements(const Band& b) const {
    return static_cast<std::size_t>(b.out_rows * desc_.out_width * desc_.out_channels);
  }

  ConvDesc desc_;
  bool winograd_;
  bool native_bf16_;  // bf16 goes into the primitive; else it is widened to f32
  const RowwiseKernels* rowwise_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::vector<Band> bands_;
  std::map<decltype(Band{}.shape()), BandKernel> kernels_;
  memory::desc weights_;
  std::vector<float> zero_bias_;
  std::size_t scratch_ = 0;
  std::string name_, layout_;
};

DnnlConv::DnnlConv(const ConvDesc& desc, Level level, ConvAlgorithm algorithm)
    : desc_(desc),
      winograd_(algorithm == ConvAlgorithm::Winograd),
      native_bf16_(algorithm == ConvAlgorithm::DirectBf16),
      rowwise_(&rowwise_kernels(level)),
      bands_(cut_bands(desc, winograd_)),
      zero_bias_(static_cast<std::size_t>(desc.out_channels), 0.0F) {
  for (const Band& b : bands_) {
    if (!kernels_.contains(b.shape())) {
      add_kernel(b);
    }
    scratch_ = std::max(scratch_, layout(kernels_.at(b.shape()), b).end);
  }
}

// A convolution as oneDNN describes it, in whichever form its version takes it.
struct PrimitiveSpec {
  dnnl::algorithm algorithm;
  memory::desc source, weights, bias, result;
  memory::dims strides, pad_low, pad_high;  // rows, columns
};

dnnl::convolution_forward::primitive_desc make_primitive_desc(const dnnl::engine& engine,
                                                              const PrimitiveSpec& s,
                                                              const dnnl::primitive_attr& attr) {
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,   kKind,     s.algorithm, s.source,   s.weights, s.bias,
          s.result, s.strides, s.pad_low,   s.pad_high, attr};
#else
  const dnnl::convolution_forward::desc desc(kKind, s.algorithm, s.source, s.weights, s.bias,
                                             s.result, s.strides, s.pad_low, s.pad_high);
  return {desc, attr, engine};
#endif
}

void DnnlConv::add_kernel(const Band& band) {
  const auto type = native_bf16_ ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::dims source_dims{1, desc_.in_channels, band.in_rows, desc_.width};
  const memory::dims result_dims{1, desc_.out_channels, band.out_rows, desc_.out_width};
  const Tag tag = winograd_ ? Tag::any : Tag::nhwc;
  const memory::desc weights =
      kernels_.empty() ? memory::desc(weight_dims(desc_), type, Tag::any) : weights_;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const PrimitiveSpec spec{
      .algorithm =
          winograd_ ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct,
      .source = memory::desc(source_dims, type, tag),
      .weights = weights,
      .bias = memory::desc({desc_.out_channels}, memory::data_type::f32, Tag::x),
      .result = memory::desc(result_dims, type, tag),
      .strides = {desc_.stride, desc_.stride},
      .pad_low = {band.pad_top, desc_.pad_left},
      .pad_high = {band.pad_bottom, desc_.pad_right}};
  const auto pd = make_primitive_desc(engine_, spec, attr);
  BandKernel k;
  k.description = pd;
  k.source = pd.src_desc();
  k.weights = pd.weights_desc();
  k.result = pd.dst_desc();
  k.scratchpad = pd.scratchpad_desc();
  add_reorders(k, memory::desc(source_dims, type, Tag::nhwc),
               memory::desc(result_dims, type, Tag::nhwc));
  if (kernels_.empty()) {
    weights_ = k.weights;
    const std::string kind =
        fmt::format("conv.{}.{}", winograd_ ? "winograd" : "direct", native_bf16_ ? "bf16" : "f32");
    name_ = fmt::format("{} ({})", kind, pd.impl_info_str());
    layout_ = fmt::format("{}.{:016x}", kind, digest(describe(weights_, desc_)));
  }
  kernels_.emplace(band.shape(), std::move(k));
}

void DnnlConv::add_reorders(BandKernel& k, const memory::desc& source,
                            const memory::desc& result) const {
  if (k.source != source) {
    k.reorder_in = dnnl::reorder(dnnl::reorder::primitive_desc(engine_, source, engine_, k.source));
  }
  if (k.result != result) {
    k.reorder_out =
        dnnl::reorder(dnnl::reorder::primitive_desc(engine_, k.result, engine_, result));
  }
}

void DnnlConv::generate() {
  try {
    for (auto& [shape, kernel] : kernels_) {
      kernel.primitive = dnnl::convolution_forward(kernel.description);
    }
  } catch (const dnnl::error& e) {
    fail(e.status == dnnl_out_of_memory ? ErrorCode::ResourceExhausted : ErrorCode::Unsupported,
         "{}: oneDNN cannot make the kernel: {}", name_, e.what());
  }
}

DnnlConv::Layout DnnlConv::layout(const BandKernel& k, const Band& band) const {
  const bool widen = desc_.elem == Elem::Bf16 && !native_bf16_;
  Layout l{};
  l.wide_in = 0;
  l.own_in = l.wide_in + (widen ? aligned(source_elements(band) * 4) : 0);
  l.own_out = l.own_in + (k.reorder_in ? aligned(k.source.get_size()) : 0);
  l.wide_out = l.own_out + (k.reorder_out ? aligned(k.result.get_size()) : 0);
  l.pad = l.wide_out + (widen ? aligned(result_elements(band) * 4) : 0);
  l.end = l.pad + aligned(k.scratchpad.get_size());
  return l;
}

bool DnnlConv::pack(const HostTensor& weight, std::byte* packed) const {
  const HostTensor wide = (native_bf16_ ? weight.to(DType::BF16) : weight).to(DType::F32);
  for (const float v : wide.as<float>()) {
    if (!std::isfinite(v)) {
      return false;
    }
  }
  const memory::desc plain(weight_dims(desc_), memory::data_type::f32,
                           desc_.groups == 1 ? Tag::oihw : Tag::goihw);
  // oneDNN takes mutable handles; the source is only read.
  std::memset(packed, 0, packed_bytes());  // what the layout leaves out
  memory from(plain, engine_, const_cast<std::byte*>(wide.bytes().data()));
  memory to(weights_, engine_, packed);
  dnnl::stream stream(engine_);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return true;
}

void DnnlConv::run(const ConvData& data, std::int64_t task, std::byte* scratch) const {
  omp_set_num_threads(1);  // of this thread: the engine owns the parallelism
  const auto count = static_cast<std::int64_t>(bands_.size());
  const std::int64_t b = task / count;
  const Band& band = bands_[static_cast<std::size_t>(task % count)];
  const BandKernel& k = kernels_.at(band.shape());
  const Layout l = layout(k, band);
  const auto bytes = static_cast<std::int64_t>(elem_bytes(desc_.elem));
  const std::byte* source =
      static_cast<const std::byte*>(data.x) +
      (b * desc_.height + band.in_first) * desc_.width * desc_.in_channels * bytes;
  const std::int64_t at =
      (b * desc_.out_height + band.out_first) * desc_.out_width * desc_.out_channels * bytes;
  std::byte* result = static_cast<std::byte*>(data.y) + at;
  const bool widen = desc_.elem == Elem::Bf16 && !native_bf16_;
  auto* in = const_cast<std::byte*>(source);
  if (widen) {
    in = scratch + l.wide_in;
    rowwise_->unary(UnaryFn::Copy, source, Elem::Bf16, in, Elem::F32,
                    static_cast<std::int64_t>(source_elements(band)));
  }
  std::byte* out = widen ? scratch + l.wide_out : result;

  dnnl::stream stream(engine_);
  const auto type = native_bf16_ ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::dims source_dims{1, desc_.in_channels, band.in_rows, desc_.width};
  const memory::dims result_dims{1, desc_.out_channels, band.out_rows, desc_.out_width};
  memory user_in(memory::desc(source_dims, type, Tag::nhwc), engine_, in);
  memory user_out(memory::desc(result_dims, type, Tag::nhwc), engine_, out);
  memory own_in = k.reorder_in ? memory(k.source, engine_, scratch + l.own_in) : user_in;
  memory own_out = k.reorder_out ? memory(k.result, engine_, scratch + l.own_out) : user_out;
  if (k.reorder_in) {
    k.reorder_in->execute(stream, user_in, own_in);
  }
  const float* shift = data.bias != nullptr ? data.bias : zero_bias_.data();
  k.primitive.execute(
      stream,
      {{DNNL_ARG_SRC, own_in},
       {DNNL_ARG_WEIGHTS, memory(weights_, engine_, const_cast<std::byte*>(data.packed))},
       {DNNL_ARG_BIAS, memory(memory::desc({desc_.out_channels}, memory::data_type::f32, Tag::x),
                              engine_, const_cast<float*>(shift))},
       {DNNL_ARG_DST, own_out},
       {DNNL_ARG_SCRATCHPAD, memory(k.scratchpad, engine_, scratch + l.pad)}});
  if (k.reorder_out) {
    k.reorder_out->execute(stream, own_out, user_out);
  }
  stream.wait();
  if (widen) {
    rowwise_->unary(UnaryFn::Copy, out, Elem::F32, result, Elem::Bf16,
                    static_cast<std::int64_t>(result_elements(band)));
  }
  if (data.residual != nullptr) {
    rowwise_->binary(
        BinaryFn::Add, {.data = result, .elem = desc_.elem},
        {.data = static_cast<const std::byte*>(data.residual) + at, .elem = desc_.elem}, result,
        desc_.elem, static_cast<std::int64_t>(result_elements(band)));
  }
}

// oneDNN's own limit follows the level; it holds for the process and only before its first
// primitive.
void limit_isa(Level level) {
  switch (level) {
    case Level::Scalar:
      (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
      break;
    case Level::Avx2:
      (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
      break;
    case Level::Avx512:
      (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core);
      break;
    case Level::Avx512Vnni:
      (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_vnni);
      break;
    case Level::Avx512Bf16:
      (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
      break;
    case Level::Amx:
      (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_amx);
      break;
  }
}

}  // namespace

std::string_view conv_algorithm_name(ConvAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case ConvAlgorithm::WinogradBf16:
      return "conv.winograd.bf16";
    case ConvAlgorithm::Winograd:
      return "conv.winograd.f32";
    case ConvAlgorithm::DirectBf16:
      return "conv.direct.bf16";
    case ConvAlgorithm::Direct:
      return "conv.direct.f32";
  }
  return "";
}

namespace {

std::string_view winograd_bf16_refusal(const ConvDesc& d, Level level) noexcept {
  const WinogradKernel* kernel = winograd_kernel(level);
  if (d.elem != Elem::Bf16) {
    return "x is f32";
  }
  if (kernel == nullptr) {
    return "the level has no bf16 products";
  }
  if (d.kernel_h != 3 || d.kernel_w != 3 || d.stride != 1 || d.groups != 1) {
    return "it takes 3x3 at stride 1 without groups";
  }
  if (d.before == Before::Doubling && (d.pad_top != 1 || d.pad_left != 1)) {
    return "a doubled picture needs one pixel of padding above and on the left";
  }
  const char* reason = kernel->refuse(
      {.in_channels = d.in_channels, .out_channels = d.out_channels, .before = d.before});
  return reason == nullptr ? "" : reason;
}

}  // namespace

std::string_view conv_refusal(const ConvDesc& desc, Level level, ConvAlgorithm algorithm) noexcept {
  if (algorithm == ConvAlgorithm::WinogradBf16) {
    return winograd_bf16_refusal(desc, level);
  }
  if (desc.before != Before::Nothing) {
    return "it takes no doubled picture";
  }
  switch (algorithm) {
    case ConvAlgorithm::WinogradBf16:
      return "";
    case ConvAlgorithm::Winograd:
      return winograd_fits(desc, level)
                 ? ""
                 : "it takes 3x3 at stride 1 with channels in 16s from 64 on, and AVX-512";
    case ConvAlgorithm::DirectBf16:
      return desc.elem != Elem::Bf16     ? "x is f32"
             : level < Level::Avx512Bf16 ? "the level has no bf16 products"
                                         : "";
    case ConvAlgorithm::Direct:
      return "";
  }
  return "";
}

std::shared_ptr<ConvKernel> ConvKernel::create(const ConvDesc& desc, Level level,
                                               ConvAlgorithm algorithm) {
  if (!conv_refusal(desc, level, algorithm).empty()) {
    return nullptr;
  }
  if (algorithm == ConvAlgorithm::WinogradBf16) {
    return make_winograd(desc, level);
  }
  limit_isa(level);
  omp_set_num_threads(1);
  try {
    return std::make_shared<DnnlConv>(desc, level, algorithm);
  } catch (const dnnl::error&) {
    return nullptr;  // not in this build of oneDNN, or beyond its instruction-set limit
  }
}

std::shared_ptr<ConvKernel> ConvKernel::create(const ConvDesc& desc, Level level) {
  for (const ConvAlgorithm algorithm : kConvAlgorithms) {
    if (auto kernel = create(desc, level, algorithm)) {
      return kernel;
    }
  }
  fail(ErrorCode::Unsupported, "conv2d: oneDNN has no kernel for {}x{}x{} -> {}, {}x{}",
       desc.height, desc.width, desc.in_channels, desc.out_channels, desc.kernel_h, desc.kernel_w);
}

}  // namespace difflet::cpu
