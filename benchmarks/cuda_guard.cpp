// What autograd and the optimiser ask of a CUDA device, answered without one: everything is device 0 and its default
// stream, and waiting for it takes no time. With it fake tensors "on" cuda:0 go through forward, backward and Adam.
// benchmarks/fake_cuda.py builds and loads it; nothing is computed.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

constexpr auto kCuda = c10::DeviceType::CUDA;

struct OnlyDevice final : c10::impl::NoOpDeviceGuardImpl<kCuda> {
  static c10::Device device() { return c10::Device(kCuda, 0); }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, device()); }

  c10::Device getDevice() const override { return device(); }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
};

}  // namespace

extern "C" void install() { c10::impl::registerDeviceGuard(kCuda, new OnlyDevice()); }

namespace at {

C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)
}  // namespace at
