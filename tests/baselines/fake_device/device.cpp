// A second device for tests: PyTorch's spare backend over ordinary memory, computed by the kernels of the CPU.
// As on a GPU, operands on two devices are an error, and the host waits for the device in counted places.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <pybind11/pybind11.h>
#include <torch/library.h>

#include <atomic>
#include <set>
#include <string>

namespace py = pybind11;
namespace {
using at::Tensor;
constexpr auto DEVICE = c10::DeviceType::PrivateUse1;

std::atomic<int64_t> live{0}, peak{0};  // bytes on the device
thread_local bool inside = false;       // of an operator: what it does to its own operands is not counted
PyObject* note = nullptr;               // called with the kind of a transfer: "item", "size", "to host" or "to device"

void tell(const char* kind) {
  if (inside || note == nullptr) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* found = PyObject_CallFunction(note, "s", kind);
  if (found == nullptr) PyErr_Clear();
  Py_XDECREF(found);
  PyGILState_Release(state);
}

void release(void* whole) {
  live -= *static_cast<int64_t*>(whole);
  c10::free_cpu(whole);
}
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* whole = static_cast<char*>(c10::alloc_cpu(bytes + 64));  // the size stands in front
    *reinterpret_cast<int64_t*>(whole) = static_cast<int64_t>(bytes);
    live += static_cast<int64_t>(bytes);
    if (live > peak) peak = live.load();
    return {whole + 64, whole, &release, c10::Device(DEVICE, 0)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};
Allocator allocator;
REGISTER_ALLOCATOR(DEVICE, &allocator)

struct Guard final : c10::impl::NoOpDeviceGuardImpl<DEVICE> {  // one device, one stream, events that have happened
  c10::Stream getStream(c10::Device device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    static int happened;
    *event = &happened;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
};
struct Registered {
  Registered() { at::RegisterPrivateUse1HooksInterface(new Hooks()); }
} registered;

Tensor host(const Tensor& t) {  // the same memory, as a tensor of the CPU
  auto options = t.options().device(at::kCPU);
  if (t.numel() == 0) return at::empty_strided(t.sizes(), t.strides(), options);
  return at::from_blob(t.data_ptr(), t.sizes(), t.strides(), [t](void*) {}, options);
}
Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}
Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}
Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  bool there = from.device().type() == DEVICE, here = to.device().type() == DEVICE;
  if (there != here) tell(there ? "to host" : "to device");
  (here ? host(to) : to).copy_(there ? host(from) : from);
  return to;
}
Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}
at::Scalar scalar(const Tensor& t) {
  tell("item");
  return host(t).item();
}
bool equal(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.device() == b.device(), "Expected all tensors to be on the same device (aten::equal)");
  tell("item");
  return at::equal(host(a), host(b));
}
Tensor& set_storage(Tensor& self, at::Storage source) {
  int64_t count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return at::native::set_storage_cpu_(self, source, 0, {count}, {});
}
Tensor there(const Tensor& t) {  // a result of the CPU, on the device
  if (!t.defined()) return t;
  Tensor made = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::Device(DEVICE, 0)));
  if (t.numel()) host(made).copy_(t);
  return made;
}
Tensor convolution(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b, c10::IntArrayRef stride,
                   c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef out,
                   int64_t groups) {
  std::optional<Tensor> bias;
  if (b.has_value() && b->defined()) bias = host(*b);
  return there(at::convolution(host(x), host(w), bias, stride, padding, dilation, transposed, out, groups));
}
std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& g, const Tensor& x, const Tensor& w, c10::IntArrayRef stride, c10::IntArrayRef padding,
    c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef out, int64_t groups, std::array<bool, 3> mask) {
  auto made = at::convolution_backward(host(g), host(x), host(w), c10::IntArrayRef({w.size(0)}), stride, padding,
                                       dilation, transposed, out, groups, mask);
  return {there(std::get<0>(made)), there(std::get<1>(made)), there(std::get<2>(made))};
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::string& name = schema.name();
  bool on_device = false, on_host = false, by_mask = false;
  const bool indexes = name.rfind("aten::index", 0) == 0 || name.rfind("aten::_index_put", 0) == 0 ||
                       name.rfind("aten::_unsafe_index", 0) == 0;
  auto look = [&](const Tensor& t) {
    if (!t.defined()) return;
    if (t.device().type() == DEVICE) on_device = true;
    else if (t.dim() > 0 && t.device().type() == at::kCPU) on_host = true;
  };
  for (const auto& value : torch::jit::last(*stack, schema.arguments().size())) {
    if (value.isTensor()) look(value.toTensor());
    else if (value.isTensorList()) for (const Tensor& t : value.toTensorVector()) look(t);
    else if (value.isOptionalTensorList())
      for (const std::optional<Tensor>& t : value.toOptionalTensorList()) {
        if (!t.has_value() || !t->defined()) continue;
        look(*t);
        by_mask |= indexes && t->scalar_type() == at::kBool && t->device().type() == DEVICE;
      }
  }
  // A GPU takes indices of the CPU.
  TORCH_CHECK(!(on_device && on_host) || indexes || name == "aten::set_",
              "Expected all tensors to be on the same device, but found at least two devices (", name, ")");
  // The size of these results is known to the device alone.
  static const std::set<std::string> sizes{"aten::nonzero", "aten::masked_select", "aten::is_nonzero", "aten::_unique2",
                                           "aten::unique_dim", "aten::unique_consecutive", "aten::repeat_interleave",
                                           "aten::bincount"};
  if (by_mask || sizes.count(name) > 0) tell("size");
  bool before = inside;
  inside = true;
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    inside = before;
    throw;
  }
  inside = before;
}
}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(scalar));
  m.impl("equal", TORCH_FN(equal));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("resize_", TORCH_FN(at::native::resize_));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

// Autocast casts what it casts on CUDA.
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FULL)
  AT_FORALL_PROMOTE(PROMOTE)
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("watch", [](py::object f) { Py_XDECREF(note); note = f.is_none() ? nullptr : f.release().ptr(); });
  m.def("live", [] { return live.load(); });
  m.def("peak", [] { return peak.load(); });
  m.def("reset_peak", [] { peak = live.load(); });
}
